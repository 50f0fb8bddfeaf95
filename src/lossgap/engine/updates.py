"""The two forms in which an engine holds its clients' updates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Params = Any
UNDECLARED = 'A method that looks at single updates must say so: needs = frozenset({"updates"}).'


@dataclass(frozen=True)
class StackedUpdates:
    """Every client's update, [client, ...]."""

    stacked: Params

    def combine(self, weights: Array) -> Params:
        return jax.tree.map(lambda u: jnp.tensordot(weights.astype(u.dtype), u, axes=1), self.stacked)

    def inner_products(self) -> Array:
        per_leaf = [u.reshape(len(u), -1) for u in jax.tree.leaves(self.stacked)]
        return jnp.stack([u @ u.T for u in per_leaf]).sum(axis=0)

    def squared_norms(self) -> Array:
        per_leaf = [jnp.square(u).sum(axis=tuple(range(1, u.ndim))) for u in jax.tree.leaves(self.stacked)]
        return jnp.stack(per_leaf).sum(axis=0)


@dataclass(frozen=True)
class SharedGradient:
    """Updates after one full-batch step from the same θ:  Δ_k = η w_k ∇L_k(θ).

    Differentiation is linear, so a weighted sum of them is one backward pass over all rows with a weight for each row,
    however many clients there are.
    """

    pull_back: Callable[[Array], Params]  # c [client] → Σ_k c_k ∇L_k(θ)
    scales: Array  # η w_k, [client]

    def combine(self, weights: Array) -> Params:
        return self.pull_back(weights * self.scales)

    def inner_products(self) -> Array:
        raise TypeError(UNDECLARED)

    def squared_norms(self) -> Array:
        raise TypeError(UNDECLARED)
