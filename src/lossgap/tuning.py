"""Which λ: the whole path from FedAvg to strict parity in one pass, and a choice on it by a stated rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lossgap.algorithms import Eagle
from lossgap.errors import DivergedError, repeated, require
from lossgap.experiment import train_many
from lossgap.federation import Federation
from lossgap.metrics import INDIFFERENT
from lossgap.models import Model, Params
from lossgap.result import Result
from lossgap.solo import Solo
from lossgap.table import Table, listed
from lossgap.training import Training

PENALTIES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0)
"""FedAvg, and the paper's values of λ."""

SHRUNK = 0.5
"""A mean multiplier below this share of FedAvg's is worth a warning: the same rounds go only part of the way."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What one λ comes to, means over seeds. Gaps are those that training sees, accuracies those on validation rows."""

    penalty: float
    gaps: np.ndarray  # [client]
    gap_variance: float
    accuracy: float  # NaN where targets are numbers
    mean_loss: float
    smallest_multiplier: float
    step_share: float  # the mean multiplier over the run, as a share of FedAvg's

    @property
    def worst_gap(self) -> float:
        return float(self.gaps.max())

    @classmethod
    def of(cls, penalty: float, results: Sequence[Result]) -> "Point":
        """One λ from its results, one for each seed."""
        gaps = np.array([[client.gap for client in result.clients] for result in results])
        return cls(
            penalty=penalty,
            gaps=gaps.mean(axis=0),
            gap_variance=float(gaps.var(axis=1, ddof=1).mean()),
            accuracy=float(np.mean([[client.validation_accuracy for client in r.clients] for r in results])),
            mean_loss=float(np.mean([[client.solo_loss + client.gap for client in r.clients] for r in results])),
            smallest_multiplier=float(min(np.nanmin(result.history.multiplier) for result in results)),
            step_share=float(np.mean([_step_share(result) for result in results])),
        )


Rule = Callable[[Sequence[Point]], int]
"""Chooses one of the points, which stand in ascending order of λ, and says in its docstring by what rule."""


def lowest_worst_gap(points: Sequence[Point]) -> int:
    """the lowest worst gap"""
    return int(np.argmin([point.worst_gap for point in points]))


def knee(points: Sequence[Point]) -> int:
    """the knee: furthest below the line from the first to the last λ, in mean loss and variance of gaps"""
    loss, variance = (_scaled([getattr(p, name) for p in points]) for name in ("mean_loss", "gap_variance"))
    (x0, x1), (y0, y1) = (loss[0], loss[-1]), (variance[0], variance[-1])
    below = (x1 - x0) * (y0 - variance) - (x0 - loss) * (y1 - y0)
    return int(np.argmax(below * np.sign(x1 - x0 or 1)))


def accurate(points: Sequence[Point], *, within: float = 0.01) -> int:
    """the largest λ whose accuracy is within one point of FedAvg's"""
    require(
        not np.isnan(points[0].accuracy),
        "frontier: targets are numbers, so there is no accuracy to choose λ by.",
        "Use lowest_worst_gap (worst-gap) or knee.",
    )
    good = [i for i, point in enumerate(points) if point.accuracy >= points[0].accuracy - within]
    return good[-1] if good else 0


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The path of λ on one federation, and the λ that a rule recommends."""

    points: tuple[Point, ...]  # in ascending order of λ
    chosen: int
    rule: str
    clients: tuple[str, ...]
    results: tuple[tuple[Result, ...], ...]  # [λ][seed]
    diverged: tuple[float, ...] = ()  # values of λ that are not on the path, since a run with them diverged

    @property
    def recommended(self) -> float:
        """λ"""
        return self.points[self.chosen].penalty

    @property
    def turning_point(self) -> float | None:
        """The first λ from which on the worst gap is worse than at its best: levelling down begins."""
        best = lowest_worst_gap(self.points)
        limit = self.points[best].worst_gap + INDIFFERENT
        return next((point.penalty for point in self.points[best:] if point.worst_gap > limit), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before taking the numbers at face value."""
        found = (
            _without(self.diverged),
            _levelled(self.points),
            _ascending(self.points, self.results, self.clients),
            _shrunk(self.points),
        )
        return tuple(warning for warning in found if warning)

    def table(self) -> Table:
        """One row per λ."""
        rows = (
            (f"{p.penalty:g}{' ←' * (i == self.chosen)}", p.worst_gap, p.gap_variance, p.accuracy, p.mean_loss)
            for i, p in enumerate(self.points)
        )
        return Table(("λ", "worst gap", "gap variance", "accuracy", "mean loss"), tuple(rows))

    def __str__(self) -> str:
        split = {"validation": "validation", "train": "training"}[self.results[0][0].training.gap_split]
        advice = f"Recommended: λ = {self.recommended:g}, by {self.rule}; gaps are those on {split} rows."
        return "\n".join([str(self.table()), advice, *self.warnings])


def frontier(
    federation: Federation,
    model: Model,
    training: Training = Training(),
    *,
    penalties: Sequence[float] = PENALTIES,
    eagle: Eagle = Eagle(gap_penalty=0.0),
    rule: Rule = lowest_worst_gap,
    seeds: Sequence[int] = (0,),
    solo: Solo | Sequence[float] | None = None,
    initial_params: Params | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Train EAGLE with every λ in one pass, and recommend one.

    Args:
        federation, model, training: as for `lossgap.train`.
        penalties: the values of λ. FedAvg, λ = 0, is always among them: the others are compared with it.
        eagle: the other settings, such as `lossgap.Eagle(gap_penalty=0, normalize="sqrt-k")`.
        rule: how to choose: `lowest_worst_gap`, `knee`, `accurate`, or a function of your own.
        seeds: of the initialisation and of batches; what is compared are means over them.
        solo, progress: as for `lossgap.train_many`.
        initial_params: where all runs start, such as a trained FedAvg model, in place of each seed's initialisation.
    """
    settings, diverged = settings_of(eagle, penalties), list[float]()
    train = partial(
        train_many,
        federation,
        model,
        training=training,
        seeds=seeds,
        solo=solo,
        initial_params=initial_params,
        progress=progress,
    )
    while True:
        try:
            trained = train(settings)
        except DivergedError as problem:
            lost = _lost(problem, settings)
            settings = [setting for setting in settings if setting != lost]
            diverged.append(float(lost.gap_penalty or 0))
        else:
            break
    results = tuple(tuple(trained[i :: len(settings)]) for i in range(len(settings)))
    return of_results(results, rule=rule, diverged=diverged)


def of_results(
    results: Sequence[Sequence[Result]], *, rule: Rule = lowest_worst_gap, diverged: Sequence[float] = ()
) -> Frontier:
    """The frontier of runs that are there already: [λ][seed], each of them EAGLE's, in ascending order of λ."""
    points = tuple(Point.of(_penalty(each[0]), each) for each in results)
    return Frontier(
        points=points,
        chosen=rule(points),
        rule=" ".join((rule.__doc__ or rule.__name__).split()),
        clients=tuple(client.name for client in results[0][0].clients),
        results=tuple(tuple(each) for each in results),
        diverged=tuple(sorted(set(diverged))),
    )


def settings_of(eagle: Eagle, penalties: Sequence[float]) -> list[Eagle]:
    """EAGLE with each λ in ascending order, and with λ = 0."""
    twice = repeated(penalties)
    require(not twice, f"frontier: among penalties, {twice and twice[0]} stands twice.", "Leave one out.")
    require(any(penalties), "frontier: penalties holds no λ above 0.", "Give some, such as (0.1, 0.3, 1, 3).")
    path = sorted({0.0, *map(float, penalties)})
    return [replace(eagle, gap_penalty=penalty, target_variance=None) for penalty in path]


def _lost(problem: DivergedError, settings: Sequence[Eagle]) -> Eagle:
    """Whose run it was that diverged. FedAvg's is not left out: nothing could be compared with it."""
    for setting in settings[1:]:
        if f"under {setting}'" in str(problem):
            return setting
    raise problem


def _penalty(result: Result) -> float:
    penalty = getattr(result.algorithm, "gap_penalty", None)
    require(penalty is not None, f"frontier: {result.algorithm} has no fixed λ.", "Use runs of Eagle(gap_penalty=…).")
    return float(penalty or 0)


def _step_share(result: Result) -> float:
    """The mean multiplier over a run, against what it is as long as all gaps are equal."""
    clients = len(result.clients)
    equal = result.algorithm.multipliers(result.algorithm.init(result.params, clients))
    return float(np.mean(result.history.multiplier[1:]) / np.mean(equal))


def _scaled(values: Sequence[float]) -> np.ndarray:
    """From 0 to 1."""
    a = np.array(values)
    return (a - a.min()) / max(float(np.ptp(a)), 1e-12)


def _without(diverged: Sequence[float]) -> str | None:
    if not diverged:
        return None
    which = listed([f"{penalty:g}" for penalty in diverged])
    return (
        f"λ = {which} diverged and is left out: multipliers grow with λ, and with them the steps. A smaller step_size, "
        "or multiplier_range=(0, 10), would let it end."
    )


def _levelled(points: Sequence[Point]) -> str | None:
    for i, point in enumerate(points):
        better = [p for p in points[:i] if (p.gaps < point.gaps).all() and p.gap_variance > point.gap_variance]
        if better:
            return (
                f"Levelling down: at λ = {point.penalty:g} the gaps vary less than at λ = {better[-1].penalty:g}, but "
                "every single client is worse off."
            )
    return None


def _ascending(points: Sequence[Point], results: Sequence[Sequence[Result]], clients: Sequence[str]) -> str | None:
    negative = [i for i, point in enumerate(points) if point.smallest_multiplier < 0]
    if not negative:
        return None
    lowest = np.min([np.nanmin(result.history.multiplier, axis=0) for result in results[negative[0]]], axis=0)
    whose = [name for name, multiplier in zip(clients, lowest, strict=True) if multiplier < 0]
    return (
        f"From λ = {points[negative[0]].penalty:g} on some multipliers are negative, which raises the loss of "
        f"{listed(whose)} on purpose. multiplier_range=(0, 10) would rule that out."
    )


def _shrunk(points: Sequence[Point]) -> str | None:
    shrunk = [point for point in points if point.step_share < SHRUNK]
    if not shrunk:
        return None
    return (
        f"From λ = {shrunk[0].penalty:g} on normalisation makes the mean step less than half as long as FedAvg's "
        f"({shrunk[-1].step_share:.2f} of it at λ = {shrunk[-1].penalty:g}): allow more rounds or larger steps."
    )
