"""EAGLE: loss gap parity (Erraji, Perrot and Bellet, AISTATS 2026)."""

from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Measured, Measurement, Params, Replies, State, uniform_weights
from lossgap.algorithms.value import static, value
from lossgap.errors import require


def gap_multipliers(gaps: Array, gap_penalty: Array | float) -> Array:
    """w_k = 1 + 4λ/(K−1) Σ_k' (r_k − r_k'), the gradient multipliers of  mean_k L_k + 2λ Var(r).

    The sum over k' equals K (r_k − r̄). The multipliers sum to K; one is negative, which means gradient *ascent*,
    for a client further than (K−1)/(4λK) below the mean gap.
    """
    K = gaps.shape[0]
    return 1 + 4 * gap_penalty * K / (K - 1) * (gaps - gaps.mean())


@value
class Eagle(Algorithm):
    """Train for a small spread of the loss gaps r_k(θ) = L_k(θ) − L_k*.

        w_k = 1 + 4λ/(K−1) Σ_k' (r_k − r_k')            scales client k's gradients during the next round
        θ  ← mean_k θ_k                                  every client counts the same

    Args:
        gap_penalty: λ. Zero is FedAvg; towards infinity every gap becomes the same, for better or worse.
        normalize: "unit" divides the multipliers by their norm, as the paper does, which also shrinks the mean step by
            at least √K; "sqrt-k" gives them the norm √K, so that λ = 0 is FedAvg; None leaves them as they are.
        lag: 1 uses the gaps at the previous round's θ (the paper's algorithm), 0 those at the current θ (the paper's
            proofs) for one more exchange of scalars per round.
        multiplier_range: bounds (low, high) on the normalised multipliers; None, the paper, leaves them free.
    """

    gap_penalty: float
    normalize: Literal["unit", "sqrt-k"] | None = static(default="unit")
    lag: Literal[0, 1] = static(default=1)
    multiplier_range: tuple[float, float] | None = None

    needs: ClassVar[frozenset[Measurement]] = frozenset({"gaps"})

    def __post_init__(self) -> None:
        require(
            self.gap_penalty >= 0,
            f"Eagle: gap_penalty is {self.gap_penalty}, which would reward uneven gaps.",
            "Use a number ≥ 0; 0 is FedAvg.",
        )
        require(
            self.normalize in ("unit", "sqrt-k", None),
            f"Eagle: normalize is {self.normalize!r}.",
            'Use "unit", "sqrt-k" or None.',
        )
        require(self.lag in (0, 1), f"Eagle: lag is {self.lag!r}.", "Use 1 (the paper's algorithm) or 0 (its proofs).")
        if self.multiplier_range is not None:
            low, high = self.multiplier_range
            require(low < high, f"Eagle: multiplier_range is ({low}, {high}).", "Give (low, high) with low < high.")

    @property
    def looks_first(self) -> bool:
        return self.lag == 0

    def init(self, params: Params, clients: int) -> State:
        return self._scaled(jnp.ones(clients))

    def observe(self, state: State, measured: Measured) -> State:
        return self._scaled(gap_multipliers(measured.gaps, self.gap_penalty))

    def multipliers(self, state: State) -> Array:
        return state

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        if self.lag == 1:
            state = self.observe(state, replies.measured)
        return uniform_weights(replies), state

    def _scaled(self, multipliers: Array) -> Array:
        # Root mean square first: it is exactly 1 for equal multipliers, so that λ = 0 is FedAvg to the last bit.
        if self.normalize is not None:
            multipliers = multipliers / jnp.sqrt(jnp.mean(multipliers**2))
        if self.normalize == "unit":
            multipliers = multipliers / jnp.sqrt(multipliers.shape[0])
        if self.multiplier_range is not None:
            multipliers = jnp.clip(multipliers, *self.multiplier_range)
        return multipliers
