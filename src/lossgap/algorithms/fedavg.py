"""FedAvg (McMahan et al., AISTATS 2017)."""

from typing import Literal

from jax import Array

from lossgap.algorithms.base import Algorithm, Replies, State, uniform_weights
from lossgap.algorithms.value import static, value
from lossgap.errors import require


@value
class FedAvg(Algorithm):
    """Average the clients' models.

        θ ← Σ_k p_k θ_k

    Args:
        weighting: "uniform" is p_k = 1/K, the paper's setting; "size" is p_k = n_k/n.
    """

    weighting: Literal["uniform", "size"] = static(default="uniform")

    def __post_init__(self) -> None:
        require(
            self.weighting in ("uniform", "size"),
            f"FedAvg: weighting is {self.weighting!r}.",
            'Use "uniform" or "size".',
        )

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        if self.weighting == "size":
            return replies.rows / replies.rows.sum(), state
        return uniform_weights(replies), state
