"""How sure a verdict is: what other clients, and errors in the losses alone, would change."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, log10, nan

from lossgap.metrics import INDIFFERENT
from lossgap.reporting import html
from lossgap.reporting.doubt import (
    RESAMPLES,
    Swap,
    bootstrap_interval,
    ranking,
    swaps,
    undecided,
    variance_bounds,
)
from lossgap.reporting.page import Section
from lossgap.reporting.plain import Evidence
from lossgap.reporting.sheets import Column, Sheet
from lossgap.reporting.words import count, variance
from lossgap.table import listed

NAMED = 3


@dataclass(frozen=True, kw_only=True)
class MethodDoubt:
    """One method's variance of gaps, and what it could be."""

    method: str
    gap_variance: float
    interval: tuple[float, float]  # 95 % bootstrap, over clients; NaN with several seeds
    bounds: tuple[float, float]  # over all errors in the solo losses
    undecided: tuple[str, ...]  # clients whose standing hangs on such an error


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What an error of at most `error` in each solo loss would change."""

    error: float
    methods: tuple[MethodDoubt, ...]
    ranking: tuple[str, ...]  # the most even first
    swaps: tuple[Swap, ...]  # every pair, the closest first

    @property
    def open(self) -> tuple[Swap, ...]:
        """Pairs whose order some errors turn round."""
        return tuple(swap for swap in self.swaps if swap.error <= self.error)

    @classmethod
    def of(cls, evidence: Evidence, error: float, *, seed: int = 0) -> "Doubt":
        gaps = {method.name: method.gaps for method in evidence.methods}
        return cls(
            error=error,
            methods=tuple(
                MethodDoubt(
                    method=method.name,
                    gap_variance=method.mean("gap_variance"),
                    interval=bootstrap_interval(method.gaps[0], seed=seed) if len(method.runs) == 1 else (nan, nan),
                    bounds=variance_bounds(method.gaps, error),
                    undecided=tuple(
                        evidence.names[k] for k in undecided(method.gaps.mean(axis=0).tolist(), error, INDIFFERENT)
                    ),
                )
                for method in evidence.methods
            ),
            ranking=tuple(ranking(gaps)),
            swaps=tuple(swaps(gaps)),
        )


def trust_section(doubt: Doubt) -> tuple[Section, Sheet]:
    sheet = trust_sheet(doubt)
    inside = [html.bullets(order_sentences(doubt), "takeaways"), html.paragraph(EXPLAINED), html.sheet(sheet)]
    return Section("trust", "How sure this is", "".join(inside)), sheet


EXPLAINED = (
    "Gaps are only as good as the losses that clients are said to reach alone. All methods are held against the same "
    "ones, so an error in them moves a client's gap alike under every method, and how two variances differ follows "
    "from the errors by a formula: what is said here holds for every error up to that size, nothing was sampled. "
    f"The interval over clients is a percentile bootstrap ({RESAMPLES:,} draws of as many clients, with replacement): "
    "how far the variance would move with other clients of the same kind. With few clients it is too short. Neither "
    "covers chance in the rows that losses are measured on."
)


def order_sentences(doubt: Doubt) -> list[str]:
    """Whether the ranking by variance of gaps stays or flips, and where it is closest; nothing for a single method."""
    if not doubt.swaps:
        return []
    best = min(swap.error for swap in doubt.swaps if swap.even == doubt.ranking[0])
    found = [_ranking(doubt), _first(doubt.ranking[0], best), _closest(doubt)]
    return [sentence for sentence in found if sentence]


def _ranking(doubt: Doubt) -> str:
    begin = f"With ±{doubt.error:g} on the solo losses the ranking of methods by the variance of their gaps"
    if not doubt.open:
        return f"{begin} stays: no error of that size changes it."
    named = [f"{swap.even} before {swap.uneven} (from ±{_down(swap.error)} on)" for swap in doubt.open[:NAMED]]
    more = len(doubt.open) - len(named)
    rest = [f"{more} more of {len(doubt.swaps)} pairs"] if more else []
    return f"{begin} flips for some errors: open is {listed([*named, *rest])}."


def _first(name: str, error: float) -> str:
    if error == inf:
        return ""
    return f"{name} stays the most even for every error up to ±{_down(error)}." if error else ""


def _closest(doubt: Doubt) -> str:
    closest = doubt.swaps[0]
    if closest.even == doubt.ranking[0] or closest.error == inf or doubt.open:
        return ""
    return f"The closest pair is {closest.even} before {closest.uneven}: errors of ±{_up(closest.error)} can swap them."


def trust_sheet(doubt: Doubt) -> Sheet:
    """A row per method."""
    methods = doubt.methods
    sampled = any(method.interval[0] == method.interval[0] for method in methods)

    def column(name: str, values: Sequence[float], explained: str = "") -> Column:
        return Column(name=name, values=tuple(values), show=variance, explained=explained)

    interval, bounds = "95 % over clients", f"solo losses ±{doubt.error:g}"
    columns = [
        Column(name="method", values=tuple(method.method for method in methods)),
        column("gap variance", [method.gap_variance for method in methods]),
        *(
            [
                column(f"{interval}, from", [method.interval[0] for method in methods], "bootstrap over clients"),
                column("to", [method.interval[1] for method in methods], "bootstrap over clients"),
            ]
            if sampled
            else []
        ),
        column(f"{bounds}, from", [method.bounds[0] for method in methods], "the smallest variance, exact"),
        column("up to", [method.bounds[1] for method in methods], "the largest variance, exact"),
        Column(
            name="undecided clients",
            values=tuple(len(method.undecided) for method in methods),
            show=count,
            explained="who may gain or lose, depending on the error",
        ),
    ]
    return Sheet(name="doubt", caption="Variance of the gaps: what it could be", columns=tuple(columns))


def _down(value: float) -> str:
    """Three digits, never more than the value."""
    return f"{floor(value / _digit(value) + 1e-9) * _digit(value):.3g}" if value else "0"


def _up(value: float) -> str:
    """Three digits, never less than the value."""
    return f"{ceil(value / _digit(value) - 1e-9) * _digit(value):.3g}" if value else "0"


def _digit(value: float) -> float:
    """What the third digit of a number counts."""
    return float(10.0 ** (floor(log10(value)) - 2))
