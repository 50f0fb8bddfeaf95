"""EAGLE: loss gap parity (Erraji, Perrot and Bellet, AISTATS 2026)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, Measured, Measurement, Params, Replies, State, uniform_weights
from lossgap.algorithms.value import static, value
from lossgap.errors import is_positive, require

UNHEARD = np.iinfo(np.int32).max
"""The age of a gap that a client has not told yet."""

AIM, GAIN = 0.9, 5.0
"""Dual ascent aims at this share of a target variance, and takes full steps from a fifth above it on."""

LEVELLED = 0.01
"""Nats by which the worst gap may rise before we call it levelling down."""

HELD, MISSED = "cannot be reached without levelling down", "was not reached"

BACK = 0.05
"""Share of λ that a worst gap without room takes back in each round, so that it does not stay up for long."""

OFTEN = 0.1
"""Share of a run's lines on which the worst gap used up half its room: there it was what held λ back."""

FORGIVEN = 0.01
"""Share of a risen worst gap that is forgiven in each round without a penalty."""


@dataclass(frozen=True)
class GapSums:
    """Σ r and Σ r² of K clients: all that a client has to know of the others."""

    clients: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.clients

    @property
    def deviation(self) -> float:
        """√(Σr²/K − r̄²)."""
        return float(np.sqrt(max(0.0, self.squares / self.clients - self.mean**2)))


def gap_multipliers(gaps: Array | np.ndarray, gap_penalty: Array | float, sums: GapSums | None = None) -> Any:
    """w_k = 1 + 4λ/(K−1) Σ_k' (r_k − r_k'), the gradient multipliers of  mean_k L_k + 2λ Var(r).

    The sum over k' equals K (r_k − r̄). The multipliers sum to K; one is negative, which means gradient *ascent*,
    for a client further than (K−1)/(4λK) below the mean gap. With `sums`, `gaps` may be those of some clients only.
    """
    K, mean = (gaps.shape[0], gaps.mean()) if sums is None else (sums.clients, sums.mean)
    return 1 + 4 * gap_penalty * K / (K - 1) * (gaps - mean)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GapBook:
    """What the server remembers: each client's last gap, how many rounds old it is, λ, and the best worst gap."""

    gaps: Array  # [client]
    age: Array  # [client]
    penalty: Array
    lowest: Array  # max_k r_k at its best


@value
class Eagle(Algorithm):
    """Train for a small spread of the loss gaps r_k(θ) = L_k(θ) − L_k*.

        w_k = 1 + 4λ/(K−1) Σ_k' (r_k − r_k')            scales client k's gradients during the next round
        θ  ← mean_k θ_k                                  every client counts the same

    Given a variance ε of the gaps in place of λ, λ follows by dual ascent. It rises while the gaps vary more than that
    and the worst of them stands less than ρ above its lowest so far, m:

        u = 5 (Var(r)/0.9ε − 1),   v = 5 (1 − (max_k r_k − m)/ρ),   clipped to −1 … 1
        λ ← max(0, λ + 0.05 λ min(0, v) + s (K−1)/(4K max(σ, √ε)) min(u, v)),   σ² = Var(r)

    It aims a little below ε: what aims at ε comes ever closer to it from above, and not below. v keeps it from
    levelling everybody down: where ε is out of reach, λ would rise for ever, and a large one makes any model worse.
    While λ = 0, m follows the worst gap upwards: then it rises for another reason, such as overfitting.

    A client that is absent keeps the last gap that it told; one that has told none stands at the mean of the others.

    Args:
        gap_penalty: λ. Zero is FedAvg; towards infinity every gap becomes the same, for better or worse.
        normalize: "unit" divides the multipliers by their norm, as the paper does, which also shrinks the mean step by
            at least √K; "sqrt-k" gives them the norm √K, so that λ = 0 is FedAvg; None leaves them as they are.
        lag: 1 uses the gaps at the previous round's θ (the paper's algorithm), 0 those at the current θ (the paper's
            proofs) for one more exchange of scalars per round.
        multiplier_range: bounds (low, high) on the normalised multipliers; None, the paper, leaves them free.
        target_variance: ε of ε-loss gap parity, for which λ is raised and lowered from `gap_penalty`, or zero, on.
        penalty_step: s, the most that λ lets a multiplier rise in one round whose gap is σ above the mean.
        worst_gap_rise: ρ, nats by which the worst gap may rise for the target's sake; None is any price.
        forget_after: rounds after which an absent client's last gap no longer counts; None is never.
    """

    gap_penalty: float | None = None
    normalize: Literal["unit", "sqrt-k"] | None = static(default="unit")
    lag: Literal[0, 1] = static(default=1)
    multiplier_range: tuple[float, float] | None = None
    target_variance: float | None = None
    penalty_step: float = 0.005
    worst_gap_rise: float | None = LEVELLED
    forget_after: int | None = None

    needs: ClassVar[frozenset[Measurement]] = frozenset({"gaps"})

    def __post_init__(self) -> None:
        require(
            self.gap_penalty is not None or self.target_variance is not None,
            "Eagle: neither gap_penalty nor target_variance is given.",
            "Give gap_penalty=1.0 for a fixed λ, or target_variance=0.01 to have λ found for it.",
        )
        require(
            self.gap_penalty is None or self.gap_penalty >= 0,
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
        for name in ("target_variance", "penalty_step", "worst_gap_rise", "forget_after"):
            number = getattr(self, name)
            require(number is None or is_positive(number), f"Eagle: {name} is {number}.", "Use a number above zero.")

    @property
    def looks_first(self) -> bool:
        return self.lag == 0

    def init(self, params: Params, clients: int) -> State:
        zeros = jnp.zeros(clients)
        penalty = jnp.asarray(self.gap_penalty or 0.0, zeros.dtype)
        return GapBook(zeros, jnp.full(clients, UNHEARD), penalty, jnp.asarray(np.finfo(zeros.dtype).max))

    def observe(self, state: State, measured: Measured) -> State:
        older = jnp.where(state.age < UNHEARD, state.age + 1, UNHEARD)
        age = measured.filed(older, jnp.zeros_like(measured.gaps, older.dtype))
        book = replace(state, gaps=measured.filed(state.gaps, measured.gaps), age=age)
        return book if self.target_variance is None else self._ascended(book, self.target_variance)

    def multipliers(self, state: State) -> Array:
        multipliers = gap_multipliers(self._gaps(state), state.penalty)
        return self._scaled(multipliers, jnp.mean(multipliers**2), len(multipliers))

    def own_multiplier(self, gap: float | None, sums: GapSums) -> Array:
        """One client's multiplier, from its own gap and the sums over all; without a gap it stands at the mean.

        The multipliers have the mean 1, so that  mean_k w_k² = 1 + (w(r̄ + s) − 1)²  with the gaps' deviation s.
        """
        own, typical = gap_multipliers(
            np.array([sums.mean if gap is None else gap, sums.mean + sums.deviation]), self.gap_penalty or 0.0, sums
        )
        return self._scaled(own, 1 + (typical - 1) ** 2, sums.clients)

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        if self.lag == 1:
            state = self.observe(state, replies.measured)
        return uniform_weights(replies), state

    def remarks(self, rounds: np.ndarray, gaps: np.ndarray) -> tuple[str, ...]:
        if self.target_variance is None:
            return ()
        return (_outcome(self.target_variance, self.worst_gap_rise, rounds, gaps),)

    def _known(self, state: State) -> Array:
        return state.age <= (UNHEARD - 1 if self.forget_after is None else self.forget_after)

    def _gaps(self, state: State) -> Array:
        """The gaps that count; whose gap is unknown or too old stands at the mean of the others."""
        known = self._known(state)
        mean = jnp.where(known, state.gaps, 0).sum() / jnp.maximum(known.sum(), 1)
        return jnp.where(known, state.gaps, mean)

    def _ascended(self, book: GapBook, target: Array | float) -> GapBook:
        gaps, lowest, K = self._gaps(book), self._lowest(book), book.gaps.shape[0]
        variance = gaps.var(ddof=1)
        excess = jnp.clip(GAIN * (variance / (AIM * target) - 1), -1, 1)
        room = jnp.ones(())
        if self.worst_gap_rise is not None:
            room = jnp.clip(GAIN * (1 - (gaps.max() - lowest) / self.worst_gap_rise), -1, 1)
        step = self.penalty_step * (K - 1) / (4 * K * jnp.sqrt(jnp.maximum(variance, target)))
        kept = book.penalty * (1 + BACK * jnp.minimum(0, room))
        penalty = jnp.maximum(0, kept + step * jnp.minimum(excess, room))
        return replace(book, penalty=penalty.astype(book.penalty.dtype), lowest=lowest)

    def _lowest(self, book: GapBook) -> Array:
        """m. As long as a gap is unknown, so is the worst one."""
        worst = book.gaps.max()
        forgiven = jnp.where(book.penalty > 0, 0, FORGIVEN) * (worst - book.lowest)
        lowest = jnp.where(self._known(book).all(), jnp.minimum(worst, book.lowest + forgiven), book.lowest)
        return lowest.astype(book.lowest.dtype)

    def _scaled(self, multipliers: Array, mean_square: Array, clients: int) -> Array:
        # Root mean square first: it is exactly 1 for equal multipliers, so that λ = 0 is FedAvg to the last bit.
        if self.normalize is not None:
            multipliers = multipliers / jnp.sqrt(mean_square)
        if self.normalize == "unit":
            multipliers = multipliers / jnp.sqrt(clients)
        if self.multiplier_range is not None:
            multipliers = jnp.clip(multipliers, *self.multiplier_range)
        return multipliers


def _outcome(target: float, rise: float | None, rounds: np.ndarray, gaps: np.ndarray) -> str:
    """Whether the variance of the gaps [line, client] came down to its target, and at what price."""
    variance, worst = gaps.var(axis=1, ddof=1), gaps.max(axis=1)
    if variance[-1] > target:
        # Not at the price of a worse worst gap: at the start, say, all gaps are large and alike.
        best = min(np.flatnonzero(worst <= worst[-1]), key=lambda line: variance[line])
        risen = worst - np.minimum.accumulate(worst)
        held = rise is not None and np.mean(risen > rise / 2) > OFTEN
        failed, advice = MISSED, ""
        if held:
            failed, lowest = HELD, worst.argmin()
            advice = (
                f"λ was held because the worst gap stood above the {worst[lowest]:.3g} of round {rounds[lowest]}. If "
                "that is overfitting, train for fewer rounds; worst_gap_rise=None lets λ rise at any price."
            )
        return (
            f"The target variance {target:g} {failed}: it ended at {variance[-1]:.3g}. The best that was seen without "
            f"a larger worst gap is {variance[best]:.3g}, at round {rounds[best]}. {advice}".rstrip()
        )
    lowest = worst.argmin()
    if worst[-1] > worst[lowest] + (rise or LEVELLED):
        return (
            f"The target variance {target:g} was reached by levelling down: the worst gap is {worst[-1]:.3g}, and was "
            f"{worst[lowest]:.3g} at round {rounds[lowest]} with a variance of {variance[lowest]:.3g}."
        )
    return f"The target variance {target:g} was reached: {variance[-1]:.3g}."
