"""FedMGDA+ (Hu et al., IEEE TNSE 2022): a direction that is good for every client."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import SMALL, Algorithm, Measurement, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require

ITERATIONS = 300


@value
class FedMGDA(Algorithm):
    """The shortest mixture of the clients' directions, near the uniform one.

        g_k = Δ_k / ‖Δ_k‖
        λ   = argmin ‖Σ_k λ_k g_k‖²   over the simplex, with |λ_k − 1/K| ≤ ε
        θ   ← θ − s Σ_k λ_k g_k,      s = mean_k ‖Δ_k‖

    With ε = 1 the direction lowers every client's loss to first order, if any direction does. The paper leaves s to a
    server step size; the mean length of the updates makes equal updates FedAvg.

    Args:
        radius: ε. Zero is the mean of the directions.
    """

    radius: float = 0.1

    needs: ClassVar[frozenset[Measurement]] = frozenset({"updates"})

    def __post_init__(self) -> None:
        require(0 <= self.radius <= 1, f"FedMGDA: radius is {self.radius}.", "Use a number from 0 to 1.")

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        products = replies.updates.inner_products()
        norms = jnp.sqrt(jnp.diag(products))
        lengths = jnp.maximum(norms, SMALL)  # a client that did not move has no direction
        mixture = shortest_mixture(products / jnp.outer(lengths, lengths), self.radius)
        return norms.mean() * mixture / lengths, state


def shortest_mixture(products: Array, radius: Array | float) -> Array:
    """argmin λᵀ G λ over the simplex within `radius` of uniform, by accelerated projected gradient steps."""
    K = len(products)
    low, high = jnp.maximum(0, 1 / K - radius), 1 / K + radius
    step = 1 / jnp.maximum(jnp.trace(products), SMALL)

    def iterate(_: int, walk: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        mixture, ahead, t = walk
        moved = project_to_boxed_simplex(ahead - step * (products @ ahead), low, high)
        overshot = (ahead - moved) @ (moved - mixture) > 0  # momentum that leads uphill is given up
        t = jnp.where(overshot, 0, t + 1)
        return moved, moved + t / (t + 3) * (moved - mixture), t

    uniform = jnp.full(K, 1 / K, products.dtype)
    return jax.lax.fori_loop(0, ITERATIONS, iterate, (uniform, uniform, jnp.zeros((), products.dtype)))[0]


def project_to_boxed_simplex(y: Array, low: Array | float, high: Array | float) -> Array:
    """The point of {low ≤ λ ≤ high, Σ λ = 1} closest to y: clip(y + τ) with the τ that makes it sum to one.

    The sum grows with τ in straight pieces, which meet where some y_k + τ reaches a bound.
    """
    knots = jnp.sort(jnp.concatenate([low - y, high - y]))
    sums = jnp.clip(y + knots[:, None], low, high).sum(axis=1)
    right = jnp.clip(jnp.searchsorted(sums, 1), 1, len(knots) - 1)
    rise = jnp.maximum(sums[right] - sums[right - 1], SMALL)
    share = jnp.clip((1 - sums[right - 1]) / rise, 0, 1)
    shift = knots[right - 1] + share * (knots[right] - knots[right - 1])
    return jnp.clip(y + shift, low, high)
