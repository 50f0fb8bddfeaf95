"""How sharply a client's loss bends: what a safe step size follows from."""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Params
from lossgap.engine.run import SafeStep
from lossgap.federation import Federation, Split
from lossgap.models import Model, linear
from lossgap.training import Training

ITERATIONS = 30
STEEPEST = 10
"""Only this many clients, those with the largest features, are asked for their curvature."""

SMALL = 1e-30


@partial(jax.jit, static_argnums=0)
def largest_curvature(model: Model, params: Params, x: Array, y: Array) -> Array:
    """The largest eigenvalue, in absolute value, of the Hessian of the mean loss at θ, by power iteration."""
    share = jnp.full(len(x), 1 / len(x), x.dtype)
    gradient = jax.grad(lambda p: model.batch_loss(p, x, y, share))

    def iterate(_: int, walk: tuple[Params, Array]) -> tuple[Params, Array]:
        bent = jax.jvp(gradient, (params,), (walk[0],))[1]
        size = _norm(bent)
        return jax.tree.map(lambda b: b / jnp.maximum(size, SMALL), bent), size

    start = jax.tree.map(lambda p: jax.random.normal(jax.random.key(0), p.shape, p.dtype), params)
    start = jax.tree.map(lambda p: p / _norm(start), start)
    return jax.lax.fori_loop(0, ITERATIONS, iterate, (start, jnp.zeros((), x.dtype)))[1]


def safe_steps(federation: Federation, model: Model, params: Params) -> SafeStep:
    """A step size at which every client's loss goes down around θ: one over the largest curvature among them."""
    dtype = jax.tree.leaves(params)[0].dtype

    def curvature(rows: Split) -> float:
        return _curvature(model, params, rows, federation.classes, dtype)

    def safe_step(largest_multiplier: float) -> float:
        steep = sorted(federation.splits("train"), key=lambda rows: float(np.mean(np.square(rows.x))))[-STEEPEST:]
        return rounded_down(1 / max(SMALL, max(map(curvature, steep)) * largest_multiplier))

    return safe_step


def with_safe_step_alone(federation: Federation, model: Model, params: Params, training: Training) -> Training:
    """Settings for clients that train alone, with 1/max β_k in place of "safe"."""
    if training.step_size != "safe":
        return training
    return replace(training, step_size=1 / max(SMALL, float(smoothness(federation, model, params).max())))


def smoothness(federation: Federation, model: Model, params: Params) -> np.ndarray:
    """β_k of each client's training loss, [client].

    Linear models have it in closed form. With x̃ = (x, 1):

        ∇²L_k ≼ c/n_k Σ_i x̃_i x̃_iᵀ ⊗ I        c = ½ for cross-entropy, where ∇²ℓ = diag(p) − p pᵀ ≼ ½ I; 1 for ½‖·‖²

    Any other model has its curvature at `params`, which is an estimate and no bound.
    """
    if model is linear():
        steepest = 0.5 if federation.classes else 1.0
        return np.array([steepest * _largest_eigenvalue(rows) for rows in federation.splits("train")])
    dtype = jax.tree.leaves(params)[0].dtype
    return np.array([_curvature(model, params, rows, federation.classes, dtype) for rows in federation.splits("train")])


def with_bias(rows: Split) -> np.ndarray:
    """x̃ = (x, 1), [row, feature + 1]: the bias is the weight of a feature that is always one."""
    x = np.asarray(rows.x, np.float64).reshape(len(rows), -1)
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _largest_eigenvalue(rows: Split) -> float:
    """λmax(X̃ᵀX̃/n), from whichever of X̃ᵀX̃ and X̃X̃ᵀ is smaller."""
    x = with_bias(rows)
    gram = x.T @ x if x.shape[0] > x.shape[1] else x @ x.T
    return float(np.linalg.eigvalsh(gram)[-1]) / len(x)


def _curvature(model: Model, params: Params, rows: Split, classes: int | None, dtype: np.dtype) -> float:
    y = jnp.asarray(rows.y, jnp.int32 if classes else dtype)
    return float(largest_curvature(model, params, jnp.asarray(rows.x, dtype), y))


def rounded_down(number: float) -> float:
    """To one significant digit: a step size that a person would write."""
    if not (0 < number < math.inf):
        return 1e-3
    digit = 10.0 ** math.floor(math.log10(number))
    return float(f"{math.floor(number / digit) * digit:.1g}")


def _norm(tree: Params) -> Array:
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))
