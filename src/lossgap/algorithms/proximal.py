"""FedProx (Li et al., MLSys 2020), and the pull that Ditto shares with it."""

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Params, Replies, State, uniform_weights
from lossgap.algorithms.value import value
from lossgap.errors import require


def pulled(loss: Array, params: Params, anchor: Params, pull: Array | float) -> Array:
    """loss + ω/2 ‖params − anchor‖²."""
    squares = jax.tree.map(lambda p, a: jnp.square(p - a).sum(), params, anchor)
    return loss + pull / 2 * jax.tree.reduce(jnp.add, squares)


@value
class FedProx(Algorithm):
    """FedAvg whose clients are held back to where the round began.

        local loss  F_k(θ_k) + ω/2 ‖θ_k − θ‖²
        θ ← mean_k θ_k

    Args:
        pull: ω. Zero is FedAvg; so is a single local step, which begins at θ.
    """

    pull: float = 0.1

    def __post_init__(self) -> None:
        require(self.pull >= 0, f"FedProx: pull is {self.pull}, which would push clients apart.", "Use a number ≥ 0.")

    def local_loss(self, loss: Array, params: Params, start: Params) -> Array:
        return pulled(loss, params, start, self.pull)

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        return uniform_weights(replies), state
