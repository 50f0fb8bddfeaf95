"""How much of a verdict hangs on the clients at hand, and on what they are said to reach alone.

Variances have ddof = 1; gaps are arrays [client] or [seed, client], where variances are means over seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95
AT_ONCE = 2_000_000
"""Drawn numbers that are held in memory together."""


def bootstrap_interval(gaps: np.ndarray, *, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the variance when clients are drawn anew, with replacement.

    It says how far the variance would move with other clients of the same kind; with few clients it is too short.
    """
    rng, count = np.random.default_rng(seed), len(gaps)
    some = max(1, AT_ONCE // count)
    drawn = [gaps[rng.integers(0, count, (min(some, RESAMPLES - done), count))] for done in range(0, RESAMPLES, some)]
    variances = np.concatenate([each.var(axis=1, ddof=1) for each in drawn])
    low, high = np.quantile(variances, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def variance_bounds(gaps: np.ndarray, error: float) -> tuple[float, float]:
    """The smallest and the largest variance of r − e over all errors |e_k| ≤ δ in the solo losses. Exact.

    Smallest:  min_m Σ max(|r_k − m| − δ, 0)² / (K−1), as every gap moves towards a common m as far as it may.
    Largest:   the lowest gaps move down by δ and the others up, for the best of the K−1 places to part them.
    """
    both = [(_smallest(each, error), _largest(each, error)) for each in np.atleast_2d(gaps)]
    low, high = np.mean(both, axis=0)
    return float(low), float(high)


def swap_error(one: np.ndarray, other: np.ndarray) -> float:
    """The smallest δ for which errors |e_k| ≤ δ in the solo losses can make two variances equal. Exact.

    Both methods are held against the same solo losses, so that the errors' own variance cancels:

        Var(r − e) − Var(s − e) = Var(r) − Var(s) − 2 Cov(d, e),   d = r − s

    is linear in e and at its extreme where e_k = ±δ with the sign of d_k − d̄. Hence

        δ = (K−1) |Var(r) − Var(s)| / (2 Σ_k |d_k − d̄|)
    """
    one, other = np.atleast_2d(one), np.atleast_2d(other)
    apart = abs(float((one.var(axis=1, ddof=1) - other.var(axis=1, ddof=1)).sum()))
    differences = one - other
    reach = 2 * float(np.abs(differences - differences.mean(axis=1, keepdims=True)).sum()) / (one.shape[1] - 1)
    return apart / reach if reach > 0 else float("inf")


@dataclass(frozen=True)
class Swap:
    """Two methods, the more even one first, and the error in solo losses from which on their order is open."""

    even: str
    uneven: str
    error: float


def swaps(gaps: Mapping[str, np.ndarray]) -> list[Swap]:
    """Every pair of methods, the closest first."""
    names = ranking(gaps)
    pairs = [Swap(one, other, swap_error(gaps[one], gaps[other])) for one, other in combinations(names, 2)]
    return sorted(pairs, key=lambda swap: swap.error)


def ranking(gaps: Mapping[str, np.ndarray]) -> list[str]:
    """Methods by the variance of their gaps, the most even first."""
    return sorted(gaps, key=lambda name: float(np.atleast_2d(gaps[name]).var(axis=1, ddof=1).mean()))


def undecided(gaps: Sequence[float], error: float, indifferent: float) -> list[int]:
    """Clients who would gain with one error of at most δ, and lose with another or see no difference."""

    def side(gap: float) -> int:
        return 0 if abs(gap) <= indifferent else 1 if gap > 0 else -1

    return [k for k, gap in enumerate(gaps) if side(gap - error) != side(gap + error)]


def _smallest(gaps: np.ndarray, error: float) -> float:
    if np.ptp(gaps) <= 2 * error:
        return 0.0
    # The derivative in m is piecewise linear and rises: find its root between the breakpoints around it.
    breaks = np.sort(np.concatenate([gaps - error, gaps + error]))
    slopes = np.array([_pull(gaps, m, error).sum() for m in breaks])
    right = int(np.searchsorted(slopes, 0))
    left, (a, b) = breaks[right - 1], (slopes[right - 1], slopes[right])
    middle = left + (breaks[right] - left) * (-a / (b - a)) if b > a else left
    return float((_pull(gaps, middle, error) ** 2).sum() / (len(gaps) - 1))


def _pull(gaps: np.ndarray, middle: float, error: float) -> np.ndarray:
    """How far each gap stays from the middle, once it has moved towards it as far as it may."""
    away = middle - gaps
    return np.sign(away) * np.maximum(np.abs(away) - error, 0)


def _largest(gaps: np.ndarray, error: float) -> float:
    count, ordered = len(gaps), np.sort(gaps) - gaps.mean()
    down, low_sums = np.arange(1, count), np.cumsum(ordered)[:-1]  # so many move down, and what they sum to
    sums = error * (count - 2 * down)
    squares = (ordered**2).sum() + count * error**2 - 4 * error * low_sums
    return float((squares - sums**2 / count).max() / (count - 1))
