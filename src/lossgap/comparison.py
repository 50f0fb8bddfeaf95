"""Several methods over several seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from lossgap.algorithms.base import Algorithm
from lossgap.engine.checkpoint import Saves
from lossgap.errors import require
from lossgap.experiment import check_methods, train
from lossgap.federation import Federation
from lossgap.metrics import Summary
from lossgap.models import Model
from lossgap.result import Result
from lossgap.solo import Stop, train_solo
from lossgap.table import Cell, Table
from lossgap.training import Training

MEASURES: Mapping[str, str] = {
    "max_gap": "worst gap",
    "min_gap": "best gap",
    "gap_variance": "gap variance",
    "mean_accuracy": "accuracy",
    "worst_accuracy": "worst accuracy",
    "appeal": "better off than alone",
}
"""What a table of methods shows: fields of `lossgap.metrics.Summary`, and what they are called."""

NOTIONS: Mapping[str, str] = {
    "gap_variance": "gap variance",  # EAGLE
    "gap_range": "gap range",  # FOCUS: FAA
    "appeal": "appeal",  # MaxFL
    "loss_variance": "loss variance",  # q-FFL, GIFAIR
    "worst_loss": "worst loss",  # AFL
    "desert_spread": "desert spread",  # UDJ-FL
    "accuracy_deviation": "accuracy spread",
    "loss_gini": "loss Gini",
}
"""Each method's own notion of fairness, measured for every method."""

HIGHER_IS_BETTER = frozenset({"mean_accuracy", "worst_accuracy", "appeal"})

Summaries = Mapping[str, Sequence[Summary]]
"""By method: one summary per seed."""


def summary_table(summaries: Summaries, measures: Sequence[str] = tuple(MEASURES), *, deviations: bool = True) -> Table:
    """One row per method: mean over seeds, and the standard deviation (ddof = 1) where there are several."""
    known = [f.name for f in fields(Summary) if f.name != "worse_off"]
    unknown = [name for name in measures if name not in known]
    require(not unknown, f"table: measures holds {', '.join(map(repr, unknown))}.", f"Known are {', '.join(known)}.")
    headings = {**MEASURES, **NOTIONS}
    rows: list[tuple[Cell, ...]] = [
        (label, *(_mean_and_deviation([getattr(s, name) for s in each], deviations) for name in measures))
        for label, each in summaries.items()
    ]
    heads = (headings.get(name, name.replace("_", " ")) for name in measures)
    return Table(("method", *heads), tuple(rows))


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same seeds."""

    seeds: tuple[int, ...]
    results: Mapping[str, tuple[Result, ...]]  # by method, one result per seed

    @property
    def summaries(self) -> dict[str, tuple[Summary, ...]]:
        """By method: one summary per seed."""
        return {label: tuple(result.summary() for result in results) for label, results in self.results.items()}

    def table(self, measures: Sequence[str] = tuple(MEASURES)) -> Table:
        """One row per method: mean over seeds, and the standard deviation (ddof = 1) where there are several.

        Args:
            measures: fields of `lossgap.metrics.Summary`, in the order of columns.
        """
        return summary_table(self.summaries, measures)

    def fairness(self) -> Table:
        """One row per method: what each method of the literature means by fair, as means over seeds."""
        return summary_table(self.summaries, tuple(NOTIONS), deviations=False)

    def __str__(self) -> str:
        return as_text(self.summaries, self.seeds)


def as_text(summaries: Summaries, seeds: Sequence[int]) -> str:
    """Both tables, and what their numbers are."""
    fairness = summary_table(summaries, tuple(NOTIONS), deviations=False)
    return f"{summary_table(summaries)}\n{told(seeds)}\n\n{fairness}"


def told(seeds: Sequence[int]) -> str:
    """What numbers of a table are."""
    kind = f"mean ± standard deviation (ddof = 1) over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return f"{kind}: {', '.join(map(str, seeds))}"


def compare(
    make_federation: Callable[..., Federation],
    model: Model,
    algorithms: Sequence[Algorithm],
    training: Training = Training(),
    *,
    seeds: Sequence[int] = (0,),
    stop: Stop = "converged",
    checkpoint: Saves | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Train every method on every seed; solo models are trained once per seed and shared.

    Args:
        make_federation: called as `make_federation(seed=seed)`, such as `lossgap.datasets.synthetic`.
        model, algorithms, training: as for `train`.
        seeds: each gives a federation, an initialisation and its batches.
        stop: how each client trains alone, see `train_solo`.
        checkpoint: as for `train`: the run at work when a comparison is cut off goes on from there. `lossgap.Store` has
            a `compare` that keeps the finished runs as well.
        progress: show progress bars; by default on a terminal.
    """
    check_methods(algorithms, seeds)
    results: dict[str, list[Result]] = {str(algorithm): [] for algorithm in algorithms}
    for seed in seeds:
        federation = make_federation(seed=seed)
        solo = train_solo(federation, model, training, stop=stop, seed=seed, checkpoint=checkpoint, progress=progress)
        for algorithm in algorithms:
            result = train(
                federation, model, algorithm, training, seed=seed, solo=solo, checkpoint=checkpoint, progress=progress
            )
            results[str(algorithm)].append(result)
    return Comparison(tuple(seeds), {label: tuple(each) for label, each in results.items()})


def _mean_and_deviation(values: Sequence[float], deviation: bool) -> str:
    mean = f"{np.mean(values):.4f}"
    return f"{mean} ± {np.std(values, ddof=1):.4f}" if deviation and len(values) > 1 else mean
