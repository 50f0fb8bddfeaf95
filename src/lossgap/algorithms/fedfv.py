"""FedFV (Wang et al., IJCAI 2021): updates that conflict are projected before they are averaged."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import SMALL, Algorithm, Measurement, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require

ROUNDING = 1e-5
"""0.55 · 100 is a little more than 55 in floating point, and still means 55 clients."""


@value
class FedFV(Algorithm):
    """Take from each update what hurts another, except from those of the clients that are worst off.

        for each client k outside the ⌈αK⌉ with the largest losses, and each j from the smallest loss to the largest:
            if ⟨g_k, Δ_j⟩ < 0:   g_k ← g_k − ⟨g_k, Δ_j⟩ / ‖Δ_j‖² · Δ_j            g_k starts at Δ_k
        θ ← θ − ‖mean Δ‖ · mean g / ‖mean g‖

    Every g_k is a mixture of updates, so that the whole of it happens in their K × K inner products. This is the method
    for clients that all answer each round: its second part, about absent ones, does nothing then.

    Args:
        alpha: the share of clients, those with the largest losses, whose updates stay as they are.
    """

    alpha: float = 0.1

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global", "updates"})

    def __post_init__(self) -> None:
        require(0 <= self.alpha <= 1, f"FedFV: alpha is {self.alpha}.", "Use a number from 0 to 1.")

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        G, losses = replies.updates.inner_products(), replies.loss_at_global
        K, order, stays = len(G), jnp.argsort(losses), worst_off(losses, self.alpha)

        def against(j: Array, mixtures: Array) -> Array:
            """Every g_k, a row of `mixtures`, made not to hurt the j-th client."""
            client = order[j]
            along = mixtures @ G[:, client]
            excess = jnp.where((along < 0) & ~stays, along / jnp.maximum(G[client, client], SMALL), 0)
            excess = jnp.where(jnp.arange(K) == client, 0, excess)
            return mixtures.at[:, client].add(-excess)

        mean = jax.lax.fori_loop(0, K, against, jnp.eye(K, dtype=G.dtype)).mean(axis=0)
        before, after = G.mean(), mean @ G @ mean
        return mean * jnp.sqrt(before / jnp.maximum(after, SMALL)), state


def worst_off(losses: Array, share: Array | float) -> Array:
    """Whether a client is among the ⌈αK⌉ with the largest losses."""
    rank = jnp.argsort(jnp.argsort(losses))
    return rank >= len(losses) - jnp.ceil(share * len(losses) - ROUNDING)
