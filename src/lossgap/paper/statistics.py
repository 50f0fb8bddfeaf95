"""What several seeds allow one to say: each seed's values, and differences of two methods seed by seed.

Two methods share a seed's rows, split, initialisation and solo losses, so that their difference on that seed is free of
what makes seeds differ. With n seeds and differences d_1 … d_n, the interval is  mean(d) ± t_{n−1} · std(d) / √n.
It is about seeds only, and holds for one difference: among many, one in twenty leaves it by chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lossgap.errors import require
from lossgap.metrics import Summary
from lossgap.paper.measures import DIGITS, MEASURES, Measure
from lossgap.table import Cell, Table

LEVEL = 0.95

Summaries = Mapping[str, Sequence[Summary]]
"""By the method's label: one summary per seed, in the same order."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of paired differences, with its t interval."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def certain(self) -> bool:
        """Whether zero lies outside the interval."""
        return not self.low <= 0 <= self.high

    def __str__(self) -> str:
        if self.seeds == 1:
            return f"{self.mean:+.{DIGITS}f}"
        return f"{self.mean:+.{DIGITS}f} [{self.low:+.{DIGITS}f}, {self.high:+.{DIGITS}f}]"


def paired(ones: Sequence[float], others: Sequence[float], level: float = LEVEL) -> Difference:
    """One method's values minus another's, seed by seed. One seed has no interval: it is infinite."""
    require(
        len(ones) == len(others) > 0,
        f"paired: {len(ones)} values against {len(others)}.",
        "Give one value per seed for each method, in the same order.",
    )
    differences = np.asarray(ones, np.float64) - np.asarray(others, np.float64)
    mean, half = float(differences.mean()), _half_width(differences, level)
    return Difference(mean=mean, low=mean - half, high=mean + half, seeds=len(differences))


def _half_width(differences: np.ndarray, level: float) -> float:
    from scipy.stats import t  # imported late: it takes half a second to load

    n = len(differences)
    if n == 1:
        return float("inf")
    return float(t.ppf((1 + level) / 2, n - 1) * differences.std(ddof=1) / np.sqrt(n))


def values(summaries: Summaries, label: str, measure: Measure) -> list[float]:
    """One number per seed."""
    return [measure.of(summary) for summary in summaries[label]]


def differences_table(summaries: Summaries, *, against: str) -> Table:
    """Every method minus one of them; in bold where the interval leaves out zero."""
    others = [label for label in summaries if label != against]
    found = [[paired(values(summaries, label, m), values(summaries, against, m)) for m in MEASURES] for label in others]
    rows = tuple((label, *map(str, each)) for label, each in zip(others, found, strict=True))
    certain = {(i, j + 1) for i, each in enumerate(found) for j, d in enumerate(each) if d.certain}
    heads = (f"{measure.heading} − {against}'s" for measure in MEASURES)
    return Table(("method", *heads), rows, frozenset(certain))


def seeds_table(summaries: Summaries, seeds: Sequence[int]) -> Table:
    """Every value that the means are made of."""
    rows: list[tuple[Cell, ...]] = [
        (label, seed, *(measure.of(summary) for measure in MEASURES))
        for label, each in summaries.items()
        for seed, summary in zip(seeds, each, strict=True)
    ]
    return Table(("method", "seed", *(measure.heading for measure in MEASURES)), tuple(rows))
