"""What a page is about, as plain values: methods, their runs, a row per client. Tables and charts follow from these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from lossgap.engine.run import History
from lossgap.errors import repeated, require
from lossgap.metrics import ClientRow, Summary
from lossgap.result import Result

SAME = 1e-3
"""Solo losses that differ by less than this share were found by the same rule, rounded otherwise."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One model and how it serves each client."""

    clients: tuple[ClientRow, ...]
    seed: int | None = None
    history: History | None = None
    remarks: tuple[str, ...] = ()  # what the method has to say of the run


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method with its runs, one for each seed."""

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def clients(self) -> tuple[ClientRow, ...]:
        """A row per client, means over seeds."""
        if len(self.runs) == 1:
            return self.runs[0].clients
        return tuple(_mean_row(each) for each in zip(*(run.clients for run in self.runs), strict=True))

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """One for each seed."""
        return tuple(Summary.of(run.clients) for run in self.runs)

    @cached_property
    def gaps(self) -> np.ndarray:
        """[seed, client]"""
        return np.array([[client.gap for client in run.clients] for run in self.runs])

    def mean(self, measure: str) -> float:
        """Of a summary, over seeds."""
        return float(np.mean([getattr(summary, measure) for summary in self.summaries]))

    def deviation(self, measure: str) -> float:
        """Of a summary, over seeds, with ddof = 1; NaN for a single seed."""
        values = [getattr(summary, measure) for summary in self.summaries]
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    def standing(self, kind: str) -> list[ClientRow]:
        """The clients who gain, lose, or stay the same, those with the largest change first."""
        return sorted((c for c in self.clients if c.standing == kind), key=lambda c: -abs(c.gap))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Methods on the same clients, and what their numbers mean."""

    methods: tuple[Method, ...]
    unit: str  # of losses; empty where it is not known
    measured_on: str  # the rows that gaps are measured on
    accuracy_on: str  # the rows that accuracies are measured on
    results: tuple[tuple[Result, ...], ...] = ()  # [method][seed], where lossgap trained them
    notes: tuple[str, ...] = ()  # what a reader should know before anything else
    solo_differs: bool = False  # whether methods are held against solo losses of their own

    def labelled(self, what: str) -> str:
        """A measure with its unit, as an axis says it."""
        return f"{what}, {self.unit}" if self.unit else what

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(client.name for client in self.methods[0].clients)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.methods[0].runs if run.seed is not None)

    @property
    def most_even(self) -> Method:
        return min(self.methods, key=lambda method: method.mean("gap_variance"))

    def columns_known(self, name: str) -> bool:
        """Whether any client has this number: rows and accuracies may be unknown."""
        values = [getattr(client, name) for method in self.methods for client in method.clients]
        return any(value == value and (name != "rows" or value > 0) for value in values)


def of_results(results: Sequence[Result], *, notes: Sequence[str] = ()) -> Evidence:
    """Results in the order of methods; those of one method may differ in their seeds only."""
    require(results, "report: there are no results.", "Give at least one.")
    _check_alike(results)
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(str(result.algorithm), []).append(result)
    common, said = _common_seeds(groups)
    kept = tuple(tuple(each[seed] for seed in common) for each in (_by_seed(own) for own in groups.values()))
    names = short_names(list(groups))
    first = kept[0][0]
    return Evidence(
        methods=tuple(
            Method(name=names[label], runs=tuple(map(_run, own))) for label, own in zip(groups, kept, strict=True)
        ),
        unit="nats" if first.outputs > 1 else "squared error",
        measured_on=f"{first.training.gap_split} rows",
        accuracy_on="test rows",
        results=kept,
        notes=(*notes, *said),
    )


def short_names(labels: Sequence[str], longest: int = 26) -> Mapping[str, str]:
    """Labels such as `Eagle(gap_penalty=1, lag=0)`; of long ones, the setting that tells them apart from their kind."""
    parts = {label: _parts(label) for label in labels}
    found = {}
    for label, (kind, settings) in parts.items():
        others = [own for each, (other, own) in parts.items() if other == kind and each != label]
        differing = [s for s in settings if any(s not in own for own in others)] or settings[:1]
        rest = ["…"] if len(differing) < len(settings) else []
        found[label] = label if len(label) <= longest else f"{kind}({', '.join([*differing, *rest])})"
    return found if len(set(found.values())) == len(found) else {label: label for label in labels}


def _parts(label: str) -> tuple[str, list[str]]:
    """A method's name and its settings, each as text; commas inside of brackets part nothing."""
    kind, _, inside = label.partition("(")
    settings, depth, word = [], 0, ""
    for letter in inside.removesuffix(")"):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            settings.append(word.strip())
            word = ""
        else:
            word += letter
    return kind, [setting for setting in [*settings, word.strip()] if setting]


def _run(result: Result) -> Run:
    return Run(
        clients=result.clients,
        seed=result.seed,
        history=result.history,
        remarks=result.algorithm.remarks(result.history.rounds, result.history.gap),
    )


def _mean_row(rows: Sequence[ClientRow]) -> ClientRow:
    numbers = {f.name: float(np.mean([getattr(row, f.name) for row in rows])) for f in fields(ClientRow)[2:]}
    return ClientRow(name=rows[0].name, rows=round(np.mean([row.rows for row in rows])), **numbers)


def _check_alike(results: Sequence[Result]) -> None:
    """Refuse results that cannot be held against each other."""
    first = results[0]
    names = [client.name for client in first.clients]
    require(len(names) > 1, f"report: there is one client, {names[0]!r}.", "Gaps are compared between clients.")
    yardsticks: dict[int, Result] = {}
    for result in results:
        own = [client.name for client in result.clients]
        require(
            own == names,
            f"report: {_who(first)} is about {_some(names)}, {_who(result)} about {_some(own)}.",
            "Report runs on the same clients; give their folders.",
        )
        require(
            result.training.gap_split == first.training.gap_split,
            f"report: {_who(first)} measures gaps on {first.training.gap_split} rows, {_who(result)} on "
            f"{result.training.gap_split} rows.",
            "Report them apart.",
        )
        _check_yardstick(yardsticks.setdefault(result.seed, result), result)


def _check_yardstick(one: Result, other: Result) -> None:
    for a, b in zip(one.clients, other.clients, strict=True):
        require(
            abs(a.solo_loss - b.solo_loss) <= SAME * max(1.0, abs(a.solo_loss)),
            f"report: client {a.name!r} reaches a loss of {a.solo_loss:.4g} alone according to {_who(one)}, and "
            f"{b.solo_loss:.4g} according to {_who(other)}.",
            "Report runs on one split of the rows with one rule for solo losses.",
        )


def _common_seeds(groups: Mapping[str, Sequence[Result]]) -> tuple[list[int], list[str]]:
    """The seeds that every method has, and a remark if some have more."""
    every = [[result.seed for result in own] for own in groups.values()]
    for label, own in zip(groups, every, strict=True):
        twice = repeated(own)
        require(not twice, f"report: {label} stands twice with seed {twice and twice[0]}.", "Leave one of them out.")
    common = [seed for seed in sorted(every[0]) if all(seed in own for own in every)]
    require(common, "report: no seed was run under every method.", "Report methods that share a seed.")
    left = sorted({seed for own in every for seed in own} - set(common))
    if not left:
        return common, []
    seeds = ", ".join(map(str, left))
    return common, [f"Left out, as not every method has them: seed{'s' * (len(left) > 1)} {seeds}."]


def _by_seed(results: Sequence[Result]) -> dict[int, Result]:
    return {result.seed: result for result in results}


def _who(result: Result) -> str:
    return f"{result.algorithm} (seed {result.seed})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
