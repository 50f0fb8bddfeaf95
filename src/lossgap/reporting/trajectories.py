"""How each client's loss, gap and multiplier moved while a method trained."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lossgap import charts
from lossgap.charts import Figure
from lossgap.charts.frame import Key, line_key, quiet_key
from lossgap.charts.theme import SERIES
from lossgap.reporting.plain import Evidence, Method
from lossgap.reporting.plates import NARROW, Plate, small

POINTS = 120
"""Of a curve, at most."""

BUDGET = 60_000
"""Points of all curves of a page together, so that the page stays small."""

MOST_METHODS = 12
MOST_QUIET = 60
"""Of many clients, so many are drawn."""

LONG = 100
"""From so many rounds on, the axis is logarithmic: most happens early."""

Curve = tuple[list[float], list[float]]
Curves = Mapping[str, Curve]


@dataclass(frozen=True)
class Course:
    """One measure of every client along the rounds, mean over seeds."""

    rounds: np.ndarray  # [line]
    values: np.ndarray  # [line, client]; NaN while a client is absent


def trajectories(evidence: Evidence) -> list[Plate]:
    """A plate per method, as far as histories are there."""
    methods = [m for m in evidence.methods if all(run.history is not None for run in m.runs)][:MOST_METHODS]
    losses, gaps, multipliers = (
        {method.name: _course(method, name) for method in methods} for name in ("train_loss", "gap", "multiplier")
    )
    points = max(12, min(POINTS, BUDGET // max(1, 3 * len(methods) * min(len(evidence.names), MOST_QUIET))))
    plates: list[Plate] = []
    for method in methods:
        brush = Brush(evidence.names, gaps[method.name].values[-1], points)
        figures = [
            brush.figure(losses[method.name], "Loss on training rows", evidence.labelled("loss"), _ends(losses)),
            brush.figure(gaps[method.name], f"Gap on {evidence.measured_on}", evidence.labelled("gap"), _ends(gaps)),
        ]
        moving = _moves(multipliers[method.name])
        if moving:
            figures.append(brush.figure(multipliers[method.name], "Gradient multiplier", "multiplier", []))
        plates.append(
            Plate(
                name=f"course-{_plain(method.name)}",
                title=method.name,
                says="" if moving else "It scales no gradients: every multiplier is the same throughout.",
                pictures=small(figures),
                keys=tuple(brush.keys),
                folded=bool(plates) and method is not evidence.most_even,
            )
        )
    return plates


@dataclass(frozen=True)
class Brush:
    """Draws curves of the same clients in the same colours: each its own, or the best and the worst before the rest."""

    names: Sequence[str]
    last_gaps: np.ndarray  # [client]
    points: int

    @property
    def loud(self) -> dict[str, int]:
        """Clients with a colour, by what the legend calls them."""
        if len(self.names) <= SERIES:
            return {name: k for k, name in enumerate(self.names)}
        best, worst = int(np.nanargmin(self.last_gaps)), int(np.nanargmax(self.last_gaps))
        return {
            f"{self.names[best]} (smallest gap in the end)": best,
            f"{self.names[worst]} (largest gap in the end)": worst,
        }

    @property
    def quiet(self) -> dict[str, int]:
        """The others, or some of them, evenly from the smallest gap to the largest."""
        others = [int(k) for k in np.argsort(self.last_gaps, kind="stable") if int(k) not in self.loud.values()]
        if len(others) > MOST_QUIET:
            others = [others[round(i)] for i in np.linspace(0, len(others) - 1, MOST_QUIET)]
        return {self.names[k]: k for k in others}

    @property
    def keys(self) -> list[Key]:
        keys = [line_key(name, i) for i, name in enumerate(self.loud)]
        if not self.quiet:
            return keys
        missing = len(self.names) - len(self.loud) - len(self.quiet)
        rest = "the other clients" if not missing else f"{len(self.quiet)} of the other clients"
        return [*keys, quiet_key(rest)]

    def figure(self, course: Course, title: str, y: str, limits: Sequence[float]) -> Figure:
        chosen = {**self.loud, **self.quiet}
        curves = {name: self._curve(course, k) for name, k in chosen.items()}
        long = course.rounds[-1] >= LONG
        return charts.lines(
            {name: curve for name, curve in curves.items() if curve[0]},
            x="round, logarithmic" if long else "round",
            y=y,
            title=title,
            log="x" if long else "",
            quiet=list(self.quiet),
            limits=limits,
            legend=False,
            width=NARROW,
            height=280,
        )

    def _curve(self, course: Course, client: int) -> Curve:
        """Some lines of the history: those from round 1 on, closer together early, where the axis is logarithmic."""
        long = course.rounds[-1] >= LONG
        there = np.flatnonzero(np.isfinite(course.values[:, client]) & (course.rounds >= (1 if long else 0)))
        if len(there) > self.points:
            rounds = course.rounds[there].astype(float)
            ends = rounds[0], rounds[-1]
            wanted = np.geomspace(*ends, self.points) if long else np.linspace(*ends, self.points)
            there = there[np.unique(np.minimum(np.searchsorted(rounds, wanted), len(there) - 1))]
        return course.rounds[there].tolist(), course.values[there, client].tolist()


def _course(method: Method, name: str) -> Course:
    """The mean over seeds; of the first seed alone if they were not recorded at the same rounds."""
    histories = [run.history for run in method.runs if run.history is not None]
    first = histories[0]
    alike = [history for history in histories if np.array_equal(history.rounds, first.rounds)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a client may be absent from a round under every seed
        return Course(first.rounds, np.nanmean([getattr(history, name) for history in alike], axis=0))


def _moves(course: Course) -> bool:
    return bool(np.nanmax(course.values) - np.nanmin(course.values) > 1e-6)


def _ends(courses: Mapping[str, Course]) -> list[float]:
    """What all methods' charts reach, so that they compare."""
    values = [course.values[1 if course.rounds[-1] >= LONG else 0 :] for course in courses.values()]
    return [float(min(np.nanmin(v) for v in values)), float(max(np.nanmax(v) for v in values))]


def _plain(name: str) -> str:
    """As a file name."""
    return "".join(c if c.isalnum() or c in "-._=" else "-" for c in name).strip("-")
