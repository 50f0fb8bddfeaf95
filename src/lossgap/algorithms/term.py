"""TERM (Li et al., ICLR 2021): tilted losses."""

import math
from typing import ClassVar

import jax
from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require


@value
class Term(Algorithm):
    """Minimise  (1/t) log mean_k exp(t F_k).

        weight of client k ∝ exp(t F_k)

    Args:
        tilt: t. Zero is FedAvg, a large one the worst client, a negative one plays outliers down.
    """

    tilt: float = 1.0

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global"})

    def __post_init__(self) -> None:
        require(math.isfinite(self.tilt), f"Term: tilt is {self.tilt}.", "Use a finite number such as 1.")

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        return jax.nn.softmax(self.tilt * replies.loss_at_global), state
