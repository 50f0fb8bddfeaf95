"""Which λ: EAGLE's path from even losses to even gaps, where several λ are among the runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lossgap import charts
from lossgap.algorithms import Eagle
from lossgap.charts import Figure
from lossgap.reporting.plain import Evidence, Method, Run
from lossgap.reporting.plates import NARROW, WIDE, Picture, Plate
from lossgap.tuning import Frontier, Rule, of_results

FEWEST = 3
"""Fewer λ make no path."""

SKEWED = 20
"""Variances this many times apart are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Path:
    """The λ of one kind of EAGLE among the methods, in ascending order, and the other methods beside them."""

    frontier: Frontier
    members: tuple[str, ...]  # names of the methods on the path, in the order of its points
    others: tuple[Method, ...]
    unit: str
    accuracy_on: str

    @property
    def recommended(self) -> str:
        return self.members[self.frontier.chosen]

    @property
    def turns(self) -> int | None:
        """The number of the point where levelling down begins."""
        penalty = self.frontier.turning_point
        return next((i for i, point in enumerate(self.frontier.points) if point.penalty == penalty), None)


def path_of(evidence: Evidence, rule: Rule) -> Path | None:
    """The longest path of λ among the methods, if there is one."""
    groups: dict[Eagle, list[int]] = {}
    for number, results in enumerate(evidence.results):
        algorithm = results[0].algorithm
        if isinstance(algorithm, Eagle) and algorithm.target_variance is None:
            groups.setdefault(replace(algorithm, gap_penalty=0.0), []).append(number)
    longest = max(groups.values(), key=len, default=[])
    if len(longest) < FEWEST:
        return None
    ordered = sorted(longest, key=lambda number: getattr(evidence.results[number][0].algorithm, "gap_penalty", 0.0))
    return Path(
        frontier=of_results([evidence.results[number] for number in ordered], rule=rule),
        members=tuple(evidence.methods[number].name for number in ordered),
        others=tuple(method for number, method in enumerate(evidence.methods) if number not in longest),
        unit=evidence.unit,
        accuracy_on=evidence.accuracy_on,
    )


def frontier_plates(path: Path) -> list[Plate]:
    """Variance of the gaps against accuracy, and the worst gap against λ."""
    known = all(math.isfinite(point.accuracy) for point in path.frontier.points)
    against = "accuracy" if known else "mean loss"
    side = "right, the model is right more often" if known else "left, losses are smaller"
    return [
        Plate(
            name="frontier",
            title=f"Variance of the gaps against {against}",
            says=f"Each dot is one λ, joined in order. Further down, gains are more even; further {side}.",
            pictures=(Picture(_against(path, known, WIDE), _against(path, known, NARROW)),),
        ),
        Plate(
            name="worst-gap",
            title="Worst gap against λ",
            says="How the client who comes off worst fares as λ grows, and the mean and the best gap beside it. Beyond "
            "the turning point, gaps get more even by making the worst one worse: levelling down.",
            pictures=(Picture(_along(path, WIDE), _along(path, NARROW)),),
        ),
    ]


def advice(path: Path) -> list[str]:
    """The recommendation, and what to know before taking it."""
    frontier = path.frontier
    turning = frontier.turning_point
    turn = (
        f"Levelling down begins at λ = {turning:g}: from there on the worst gap is worse than at its best."
        if turning is not None
        else "Levelling down does not begin within these λ."
    )
    chosen = f"Recommended: λ = {frontier.recommended:g}, by {frontier.rule} on the rows that gaps are measured on."
    edge = frontier.chosen == len(frontier.points) - 1
    further = " It is the largest λ that was tried: a larger one may do better still." if edge else ""
    return [chosen + further, turn, *frontier.warnings]


def _against(path: Path, known: bool, width: float) -> Figure:
    points = path.frontier.points
    across = [point.accuracy if known else point.mean_loss for point in points]
    up = [point.gap_variance for point in points]
    place = list(zip(across, up, strict=True))
    marked = {f"recommended, λ = {path.frontier.recommended:g}": place[path.frontier.chosen]}
    if path.turns is not None:
        marked["levelling down begins"] = place[path.turns]
    series = {"EAGLE": (across, up)}
    series |= {method.name: ([_beside(method, known)], [method.mean("gap_variance")]) for method in path.others}
    # FedAvg's variance may be a hundred times that of a large λ: by themselves, the small ones could not be told apart.
    variances = [value for _, ups in series.values() for value in ups]
    skewed = min(variances) > 0 and max(variances) > SKEWED * min(variances)
    return charts.scatter(
        series,
        x="mean accuracy on validation rows" if known else f"mean loss, {path.unit}",
        y="variance of the gaps" + (", logarithmic" if skewed else ""),
        log="y" if skewed else "",
        title=f"Variance of the gaps against {'accuracy' if known else 'mean loss'}",
        joined=["EAGLE"],
        names={"EAGLE": [f"λ = {point.penalty:g}" for point in points]},
        labels={"EAGLE": [f"λ {point.penalty:g}" for point in points]},
        marked=marked,
        width=width,
    )


def _beside(method: Method, known: bool) -> float:
    """A method that is not on the path, in the path's measure."""

    def of(run: Run) -> float:
        values = [c.validation_accuracy if known else c.solo_loss + c.gap for c in run.clients]
        return sum(values) / len(values)

    return sum(map(of, method.runs)) / len(method.runs)


def _along(path: Path, width: float) -> Figure:
    points = path.frontier.points
    places = _places([point.penalty for point in points])
    curves = {
        "worst gap": [point.worst_gap for point in points],
        "mean gap": [float(point.gaps.mean()) for point in points],
        "best gap": [float(point.gaps.min()) for point in points],
    }
    markers = {f"recommended, λ = {path.frontier.recommended:g}": places[path.frontier.chosen]}
    if path.turns is not None:
        markers["levelling down begins"] = places[path.turns]
    return charts.lines(
        {name: (places, values) for name, values in curves.items()},
        x="λ, logarithmic" + (", 0 set apart" if points[0].penalty == 0 else ""),
        y=f"loss gap, {path.unit}",
        title="Worst gap against λ",
        dotted=list(curves),
        ticks=[(place, f"{point.penalty:g}") for place, point in zip(places, points, strict=True)],
        markers=markers,
        width=width,
    )


def _places(penalties: Sequence[float]) -> list[float]:
    """Logarithms; zero, which has none, stands half a decade before the first."""
    smallest = min((penalty for penalty in penalties if penalty > 0), default=1.0)
    return [math.log10(penalty) if penalty > 0 else math.log10(smallest) - 0.5 for penalty in penalties]
