"""FedDG-GA (Zhang et al., CVPR 2023): weights that follow each client's generalisation gap."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import SMALL, Algorithm, Measurement, Params, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require


@value
class FedDGGA(Algorithm):
    """Nudge the aggregation weights towards clients that lost most when models were averaged.

        G_k = F_k(θ) − F_k(θ_k)                          θ_k: what the client had just trained before θ was made
        a_k ← a_k + d (G_k − Ḡ) / max_j |G_j − Ḡ|,        then cut at zero and made to sum to one
        θ   ← Σ_k a_k θ_k

    The paper lowers d towards zero over the rounds; here it stays.

    Args:
        step: d. Zero is FedAvg.
    """

    step: float = 0.1

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global", "loss_after", "updates"})

    def __post_init__(self) -> None:
        require(0 <= self.step <= 1, f"FedDGGA: step is {self.step}.", "Use a number from 0 to 1.")

    @property
    def needs_everyone(self) -> bool:
        return True

    def init(self, params: Params, clients: int) -> State:
        return jnp.full(clients, 1 / clients), jnp.full(clients, jnp.nan)

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        weights, trained = state
        gaps = replies.loss_at_global - trained
        deviation = gaps - gaps.mean()
        nudge = self.step * deviation / jnp.maximum(jnp.abs(deviation).max(), SMALL)
        # In the first round nobody has trained yet: the gaps are NaN and nothing is nudged.
        nudged = jnp.maximum(weights + jnp.where(jnp.isnan(nudge), 0, nudge), 0)
        weights = nudged / nudged.sum()
        return weights, (weights, replies.loss_after)
