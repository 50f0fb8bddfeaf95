"""PropFair (Zhang et al., 2022, arXiv 2202.01666): proportional fairness."""

import math

import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Params, Replies, State, uniform_weights
from lossgap.algorithms.value import value
from lossgap.errors import require

NEAR = 0.2


@value
class PropFair(Algorithm):
    """Maximise the product of utilities M − F_k, by a local loss that grows steeply as F_k nears M.

        local loss  −M log(1 − F/M)                      F the loss of the batch
        θ ← mean_k θ_k

    The factor M only scales the step size: with it, M → ∞ is FedAvg. Within 0.2 of M and beyond, the loss goes on along
    its tangent.

    Args:
        ceiling: M, a loss that no client should come near.
    """

    ceiling: float = 5.0

    def __post_init__(self) -> None:
        require(
            NEAR < self.ceiling < math.inf,
            f"PropFair: ceiling is {self.ceiling}.",
            f"Use a number well above the losses, and above {NEAR}; a very large one is FedAvg.",
        )

    def local_loss(self, loss: Array, params: Params, start: Params) -> Array:
        M, edge = self.ceiling, self.ceiling - NEAR
        below = jnp.minimum(loss, edge)
        return -M * jnp.log1p(-below / M) + (loss - below) * M / NEAR

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        return uniform_weights(replies), state
