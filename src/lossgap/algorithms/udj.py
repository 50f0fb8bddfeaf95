"""UDJ-FL (Carey and Wu, 2025, arXiv 2504.15924): four notions of distributive justice in one objective."""

import math
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Params, Replies, State
from lossgap.algorithms.qffl import power_weights
from lossgap.algorithms.value import value
from lossgap.errors import require


@value
class Udj(Algorithm):
    """Minimise  Σ_k γ_k F_k^p  with the step of q-FFL.

        Δ̃_k = γ_k p F_k^(p−1) Δ_k/η
        h_k = γ_k p (F_k^(p−1)/η + (p−1) F_k^(p−2) ‖Δ_k/η‖²)
        θ   ← θ − Σ_k Δ̃_k / Σ_k h_k

    p = 1 with γ = 1 is utilitarian (the mean), a larger p egalitarian, a very large one Rawlsian (the worst loss). γ
    from what each client can reach alone makes it desert-based.

    Args:
        power: p.
        desert: γ, one number per client, such as 1 / L_k*; None is 1 for all.
    """

    power: float = 1.0
    desert: tuple[float, ...] | None = None

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global", "updates"})

    def __post_init__(self) -> None:
        require(
            1 <= self.power < math.inf,
            f"Udj: power is {self.power}, which makes no convex objective.",
            "Use a number ≥ 1, such as 10 for nearly the worst loss alone.",
        )
        require(
            self.desert is None or all(0 < g < math.inf for g in self.desert),
            f"Udj: desert is {self.desert}.",
            "Give a number > 0 for each client.",
        )

    def init(self, params: Params, clients: int) -> State:
        require(
            self.desert is None or len(self.desert) == clients,
            f"Udj: desert holds {len(self.desert or ())} numbers for {clients} clients.",
            "Give one per client, in client order.",
        )
        return ()

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        # q-FFL's step with q = p − 1: the factor p is common to Δ̃ and h and cancels.
        return power_weights(replies, self.power - 1, self._desert(replies)), state

    def _desert(self, replies: Replies) -> Array | float:
        if self.desert is None:
            return 1.0
        gamma = jnp.stack([jnp.asarray(each, replies.loss_at_global.dtype) for each in self.desert])
        return replies.measured.own(gamma)
