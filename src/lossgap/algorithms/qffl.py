"""q-FFL, also called q-FedAvg (Li, Sanjabi, Beirami and Smith, ICLR 2020)."""

import math
from typing import ClassVar

from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Replies, State
from lossgap.algorithms.value import value
from lossgap.errors import require

EPSILON = 1e-10


@value
class QFFL(Algorithm):
    """Minimise  Σ_k F_k^(q+1) / (q+1):  clients with larger training losses count for more.

        Δ̃_k = F_k^q · Δ_k/η
        h_k = q F_k^(q−1) ‖Δ_k/η‖² + F_k^q/η
        θ   ← θ − Σ_k Δ̃_k / Σ_k h_k

    F_k is the training loss at θ, before local work (plus 1e-10). The weights of Δ_k do not sum to one.

    Args:
        q: zero is the uniform mean; larger values approach equal losses.
    """

    q: float

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global", "updates"})

    def __post_init__(self) -> None:
        require(
            0 <= self.q < math.inf,
            f"QFFL: q is {self.q}, which would favour clients with small losses or has no limit.",
            "Use a number ≥ 0.",
        )

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        return power_weights(replies, self.q), state


def power_weights(replies: Replies, q: Array | float, desert: Array | float = 1.0) -> Array:
    """What multiplies Δ_k in  Σ_k Δ̃_k / Σ_k h_k  of the objective  Σ_k γ_k F_k^(q+1) / (q+1).

    Δ̃_k = γ_k F_k^q · Δ_k/η
    h_k = γ_k (q F_k^(q−1) ‖Δ_k/η‖² + F_k^q/η)
    """
    F, eta = replies.loss_at_global + EPSILON, replies.step_size
    # Δ̃ and h share the factor (max F)^q, which cancels: without it, large q underflows in single precision.
    F_q = desert * (F / F.max()) ** q
    h = q * F_q / F * replies.updates.squared_norms() / eta**2 + F_q / eta
    return F_q / eta / h.sum()
