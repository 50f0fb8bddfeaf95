"""The paper's claims, one by one, against numbers: ours, or the paper's own.

Each claim is a function of one table that says whether it holds and by which figures. What the paper leaves vague
("comparable", "little") is given a bound here, which stands in the claim's words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from lossgap.algorithms.eagle import LEVELLED
from lossgap.paper.measures import ACCURACY, DIGITS, VARIANCE, WORST_GAP, Measure, Spreads
from lossgap.table import listed

EAGLE = "EAGLE λ="
"""How the labels of EAGLE's rows begin; λ follows."""

COMPARABLE = 0.01
"""An accuracy this much below FedAvg's is still comparable: one row in a hundred."""

LITTLE = 0.1
"""Worst gaps within this many nats of each other differ little."""

NOISE = 0.1
"""A rise of the variance by this share of FedAvg's is taken for noise."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, whether it is so, and what shows it."""

    words: str
    holds: bool
    figures: str

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.words} {self.figures}"


TableClaim = Callable[[Spreads], Claim]


def smallest_worst_gap(table: Spreads) -> Claim:
    eagle, other = _leaders(table, WORST_GAP)
    return Claim(
        words="EAGLE has the smallest worst gap at some λ.",
        holds=_mean(table, eagle, WORST_GAP) < _mean(table, other, WORST_GAP),
        figures=f"{_shown(table, eagle, WORST_GAP)}; the best of the others, {_shown(table, other, WORST_GAP)}.",
    )


def smallest_variance(table: Spreads) -> Claim:
    eagle, other = _leaders(table, VARIANCE)
    return Claim(
        words="EAGLE has the smallest variance of gaps at some λ.",
        holds=_mean(table, eagle, VARIANCE) < _mean(table, other, VARIANCE),
        figures=f"{_shown(table, eagle, VARIANCE)}; the best of the others, {_shown(table, other, VARIANCE)}.",
    )


def variance_falls(table: Spreads) -> Claim:
    path = _path(table, VARIANCE)
    room = NOISE * _mean(table, "FedAvg", VARIANCE)
    means = list(path.values())
    return Claim(
        words=f"The variance of gaps falls as λ grows (no step up by more than {NOISE:.0%} of FedAvg's).",
        holds=means[-1] < means[0] and all(after <= before + room for before, after in _steps(means)),
        figures=f"{_along(path)}; FedAvg {_mean(table, 'FedAvg', VARIANCE):.{DIGITS}f}.",
    )


def accuracy_kept(table: Spreads) -> Claim:
    eagle, _ = _leaders(table, WORST_GAP)
    kept, before = _mean(table, eagle, ACCURACY), _mean(table, "FedAvg", ACCURACY)
    return Claim(
        words=f"Where EAGLE's worst gap is smallest, accuracy is at most {COMPARABLE} below FedAvg's.",
        holds=round(before - kept, DIGITS) <= COMPARABLE,
        figures=f"{_shown(table, eagle, ACCURACY)}; {_shown(table, 'FedAvg', ACCURACY)}: {kept - before:+.{DIGITS}f}.",
    )


def worst_gap_rises_again(table: Spreads) -> Claim:
    path = _path(table, WORST_GAP)
    lowest, last = min(path, key=path.__getitem__), list(path)[-1]
    rise = path[last] - path[lowest]
    return Claim(
        words=f"Beyond a threshold of λ the worst gap rises again, by {LEVELLED} nats or more (levelling down).",
        holds=rise >= LEVELLED,
        figures=f"{_along(path)}: {rise:+.{DIGITS}f} from λ={lowest:g} to λ={last:g}.",
    )


def little_difference(table: Spreads) -> Claim:
    means = {label: _mean(table, label, WORST_GAP) for label in table}
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    spread = means[high] - means[low]
    return Claim(
        words=f"With even data all methods differ little (worst gaps within {LITTLE} nats of each other).",
        holds=spread <= LITTLE,
        figures=f"{_shown(table, low, WORST_GAP)} to {_shown(table, high, WORST_GAP)}: {spread:.{DIGITS}f}.",
    )


UNEVEN: tuple[TableClaim, ...] = (
    smallest_worst_gap,
    accuracy_kept,
    smallest_variance,
    variance_falls,
    worst_gap_rises_again,
)
"""What the paper says of clients whose data differ."""

EVEN: tuple[TableClaim, ...] = (little_difference, accuracy_kept)
"""What it says of clients whose data are alike."""


def of_table(name: str) -> tuple[TableClaim, ...]:
    """The claims that one of the paper's tables is to bear out."""
    return EVEN if name.endswith("-2000") else UNEVEN


Gaps = Mapping[str, ArrayLike]
"""By the method's label: gaps (or losses) [seed, client]."""


def loss_parity_harms_the_easy_client(gaps: Gaps, parity: Sequence[str], eagle: str, easy: int = 0) -> Claim:
    """`parity`: the labels of the methods that seek equal losses."""
    found = {label: np.asarray(each) for label, each in gaps.items()}
    seeds = len(found[eagle])
    largest = {label: int((found[label].argmax(axis=1) == easy).sum()) for label in parity}
    means = {label: float(found[label][:, easy].mean()) for label in (*parity, eagle)}
    worse = all(means[label] > means[eagle] for label in parity)
    return Claim(
        words=f"Methods for equal losses harm client {easy}, whose data are easy: on every seed its gap is the largest "
        "of all clients', and on average it is larger than under EAGLE.",
        holds=worse and all(count == seeds for count in largest.values()),
        figures=f"Its mean gap is {_each(means)}; the largest of all on "
        + listed([f"{count} of {seeds} seeds under {label}" for label, count in largest.items()])
        + ".",
    )


def eagle_varies_least(gaps: Gaps, eagle: str) -> Claim:
    """On every seed."""
    variances = {label: np.var(np.asarray(each), axis=1, ddof=1) for label, each in gaps.items()}
    others = np.min([v for label, v in variances.items() if label != eagle], axis=0)
    won = int((variances[eagle] < others).sum())
    means = {label: float(v.mean()) for label, v in variances.items()}
    return Claim(
        words="EAGLE has the smallest variance of gaps on every seed.",
        holds=won == len(others),
        figures=f"On {won} of {len(others)}; mean variance {_each(means, 4)}.",
    )


def easy_loss_raised(losses: Gaps, parity: str, before: str, easy: int = 0, hard: int = 2, other: int = 1) -> Claim:
    """Training losses [seed, client] under a method for equal losses, and under one that does not seek them."""
    means = {label: np.asarray(losses[label]).mean(axis=0) for label in (before, parity)}
    raised = means[parity][easy] - means[before][easy]
    clients = {label: ", ".join(f"{mean:.{DIGITS}f}" for mean in each) for label, each in means.items()}
    apart, unbalanced = (abs(means[parity][k] - means[parity][hard]) for k in (easy, other))
    return Claim(
        words=f"{parity} raises the training loss of client {easy} to that of client {hard} (within {LITTLE} nats), "
        f"but fails to balance clients {other} and {hard}.",
        holds=bool(raised > 0 and apart <= LITTLE and unbalanced > LEVELLED),
        figures=f"Client by client: {listed([f'{each} under {label}' for label, each in clients.items()])}.",
    )


def losses_differ_more(uneven: ArrayLike, even: ArrayLike) -> Claim:
    """L_k* [seed, client] for uneven and for even data."""
    ranges = [float(np.ptp(np.asarray(each), axis=1).mean()) for each in (uneven, even)]
    return Claim(
        words="The best local losses spread wider for uneven data than for even data.",
        holds=ranges[0] > ranges[1],
        figures=f"Largest minus smallest: {ranges[0]:.{DIGITS}f} nats against {ranges[1]:.{DIGITS}f}, mean over seeds.",
    )


def penalty_of(label: str) -> float | None:
    """λ of a row of EAGLE's, None for other methods."""
    return float(label.removeprefix(EAGLE)) if label.startswith(EAGLE) else None


def _leaders(table: Spreads, measure: Measure) -> tuple[str, str]:
    """The row of EAGLE's and the row of another method where a measure is lowest."""
    eagles = [label for label in table if penalty_of(label) is not None]
    others = [label for label in table if label not in eagles]
    lowest = [min(labels, key=lambda label: _mean(table, label, measure)) for labels in (eagles, others)]
    return lowest[0], lowest[1]


def _path(table: Spreads, measure: Measure) -> dict[float, float]:
    """A measure's means by λ, in ascending order."""
    return dict(sorted((p, _mean(table, label, measure)) for label in table if (p := penalty_of(label)) is not None))


def _mean(table: Spreads, label: str, measure: Measure) -> float:
    return table[label][measure.name].mean


def _steps(means: Sequence[float]) -> list[tuple[float, float]]:
    return list(pairwise(means))


def _shown(table: Spreads, label: str, measure: Measure) -> str:
    return f"{label}: {table[label][measure.name]}"


def _along(path: Mapping[float, float]) -> str:
    return ", ".join(f"λ={penalty:g}: {mean:.{DIGITS}f}" for penalty, mean in path.items())


def _each(means: Mapping[str, float], digits: int = DIGITS) -> str:
    return listed([f"{mean:.{digits}f} under {label}" for label, mean in means.items()])
