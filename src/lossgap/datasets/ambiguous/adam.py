"""Adam (Kingma & Ba 2015), the one optimiser of the published recipe."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Params = Any

MEMORY = 0.9, 0.999
"""β₁ and β₂: how much of the gradient's mean, and of its square's, is kept at each step."""

TINY = 1e-8
"""ε, against division by zero."""


class Adam(NamedTuple):
    """Parameters on their way: running means of the gradient and of its square, and the steps taken."""

    params: Params
    mean: Params
    square: Params
    steps: Array


def start(params: Params) -> Adam:
    zeros = jax.tree.map(jnp.zeros_like, params)
    return Adam(params, zeros, zeros, jnp.zeros((), jnp.int32))


def step(adam: Adam, gradient: Params, step_size: Array | float) -> Adam:
    """m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − η · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)."""
    first, second = MEMORY
    steps = adam.steps + 1
    mean = jax.tree.map(lambda m, g: first * m + (1 - first) * g, adam.mean, gradient)
    square = jax.tree.map(lambda v, g: second * v + (1 - second) * g**2, adam.square, gradient)
    first_share, second_share = 1 - first**steps, 1 - second**steps

    def moved(p: Array, m: Array, v: Array) -> Array:
        return p - step_size * (m / first_share) / (jnp.sqrt(v / second_share) + TINY)

    return Adam(jax.tree.map(moved, adam.params, mean, square), mean, square, steps)
