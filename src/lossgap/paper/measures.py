"""What the paper's tables measure, and how a cell of them is written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lossgap.metrics import Summary

DIGITS = 3
"""Decimals that the paper prints."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of the paper's tables."""

    name: str  # the field of `lossgap.metrics.Summary` that holds it
    heading: str
    higher_is_better: bool = False

    def of(self, summary: Summary) -> float:
        return float(getattr(summary, self.name))


WORST_GAP = Measure(name="max_gap", heading="worst gap")  # max_k r_k(θ), on validation rows
BEST_GAP = Measure(name="min_gap", heading="best gap")  # min_k r_k(θ); the paper's arrow asks for a low one
ACCURACY = Measure(name="mean_accuracy", heading="accuracy", higher_is_better=True)  # mean over clients, on test rows
VARIANCE = Measure(name="gap_variance", heading="gap variance")  # over clients, ddof = 1
MEASURES = (WORST_GAP, BEST_GAP, ACCURACY, VARIANCE)


@dataclass(frozen=True)
class Spread:
    """A mean over seeds, and the standard deviation (ddof = 1) where there are several."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    def __str__(self) -> str:
        mean = f"{self.mean:.{DIGITS}f}"
        return mean if self.deviation is None else f"{mean} ± {self.deviation:.{DIGITS}f}"


Spreads = Mapping[str, Mapping[str, Spread]]
"""By the method's label, then by the measure's name: one table."""


def best(table: Spreads, measure: Measure) -> frozenset[str]:
    """The labels of the best methods, told apart by as many digits as are printed."""
    means = {label: round(row[measure.name].mean, DIGITS) for label, row in table.items()}
    return frozenset(label for label, mean in means.items() if mean == _best_of(means.values(), measure))


def _best_of(means: Iterable[float], measure: Measure) -> float:
    return max(means) if measure.higher_is_better else min(means)
