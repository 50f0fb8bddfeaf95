"""MaxFL (Cho et al., 2022, arXiv 2205.14840): as many clients as possible better off than alone."""

from typing import ClassVar

import jax
from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require

EPSILON = 1e-8


@value
class MaxFL(Algorithm):
    """Raise the number of clients whose loss is below what they reach alone, smoothed by a sigmoid.

        s_k = σ(L_k(θ) − L_k*),   q_k = s_k (1 − s_k)
        θ ← θ − η_g Σ_k q_k Δ_k / (Σ_k q_k + ε)

    It favours clients near their threshold, the opposite of EAGLE. Implemented from the paper's text; losses are those
    that gaps are measured on.

    Args:
        server_step_size: η_g.
    """

    server_step_size: float = 1.0

    needs: ClassVar[frozenset[Measurement]] = frozenset({"gaps"})

    def __post_init__(self) -> None:
        require(self.server_step_size > 0, f"MaxFL: server_step_size is {self.server_step_size}.", "Use a number > 0.")

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        # σ(−gap) is 1 − σ(gap), without the digits that the difference loses where a gap is large.
        q = jax.nn.sigmoid(replies.gaps) * jax.nn.sigmoid(-replies.gaps)
        return self.server_step_size * q / (q.sum() + EPSILON), state
