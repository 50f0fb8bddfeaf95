"""Several methods over several seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lossgap.algorithms.base import Algorithm
from lossgap.engine.checkpoint import Saves
from lossgap.experiment import check_methods, train
from lossgap.federation import Federation
from lossgap.metrics import Summary
from lossgap.models import Model
from lossgap.result import Result
from lossgap.solo import Stop, train_solo
from lossgap.table import Table
from lossgap.training import Training

MEASURES = {
    "worst gap": "max_gap",
    "best gap": "min_gap",
    "gap variance": "gap_variance",
    "accuracy": "mean_accuracy",
    "worst accuracy": "worst_accuracy",
    "better off than alone": "appeal",
}


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same seeds."""

    seeds: tuple[int, ...]
    results: Mapping[str, tuple[Result, ...]]  # by method, one result per seed

    def table(self) -> Table:
        """One row per method: mean over seeds, and the standard deviation (ddof = 1) where there are several."""
        return measures({label: [each.summary() for each in results] for label, results in self.results.items()})

    def __str__(self) -> str:
        return f"{self.table()}\n{told(self.seeds)}"


def measures(summaries: Mapping[str, Sequence[Summary]]) -> Table:
    """One row per method: mean over its summaries, and the standard deviation (ddof = 1) where there are several."""
    rows = [
        (label, *(_mean_and_deviation([getattr(summary, name) for summary in each]) for name in MEASURES.values()))
        for label, each in summaries.items()
    ]
    return Table(("method", *MEASURES), tuple(rows))


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


def _mean_and_deviation(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.4f}"
