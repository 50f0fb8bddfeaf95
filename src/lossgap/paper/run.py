"""Run an experiment: every method on every seed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lossgap.federation import Federation
from lossgap.metrics import Summary
from lossgap.paper.settings import Experiment
from lossgap.result import Result
from lossgap.solo import Solo
from lossgap.store import Store
from lossgap.table import Table

Tell = Callable[[str], None]
"""Called with a line about what comes next."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of an experiment."""

    experiment: Experiment
    solos: tuple[Solo, ...]  # one per seed
    results: Mapping[str, tuple[Result, ...]]  # by label: one per seed
    seconds: float  # of training, also of what the store held already

    @property
    def diverged(self) -> tuple[str, ...]:
        """Labels of methods that diverged on some seed, and have no row."""
        return tuple(label for label in self.experiment.methods if label not in self.results)

    @property
    def summaries(self) -> dict[str, list[Summary]]:
        return {label: [result.summary() for result in each] for label, each in self.results.items()}

    @property
    def gaps(self) -> dict[str, np.ndarray]:
        """Every client's gap by label, [seed, client]."""
        return {
            label: np.array([[client.gap for client in result.clients] for result in each])
            for label, each in self.results.items()
        }

    @property
    def best_losses(self) -> np.ndarray:
        """L_k*, [seed, client]."""
        return np.array([solo.losses(self.experiment.training.gap_split) for solo in self.solos])

    def clients(self) -> Table:
        """Every client under every method and seed."""
        columns = ("method", "seed", "client", "rows", "solo loss", "gap", "test loss", "test accuracy")
        rows = [
            (label, result.seed, c.name, c.rows, c.solo_loss, c.gap, c.test_loss, c.test_accuracy)
            for label, each in self.results.items()
            for result in each
            for c in result.clients
        ]
        return Table(columns, tuple(rows))


def check_data(experiments: Iterable[Experiment]) -> None:
    """Draw one seed's clients of each: a data set that is not here is missed before anything has been trained."""
    for experiment in experiments:
        experiment.make_federation(seed=experiment.seeds[0])


def run(
    experiment: Experiment, store: Store, *, tell: Tell = lambda line: None, progress: bool | None = None
) -> Outcome:
    """All methods on all seeds, those of one kind in one pass; what the store holds is not trained again."""
    solos, results, seconds = [], [], 0.0
    for seed in experiment.seeds:
        tell(f"{experiment.name}, seed {seed}: each client alone, then {len(experiment.methods)} methods")
        federation = experiment.make_federation(seed=seed)
        solo = store.train_solo(federation, experiment.model, experiment.solo_training, seed=seed, progress=progress)
        solos.append(solo)
        results.append(_by_label(experiment, store, federation, solo, seed, progress))
        training = experiment.training if experiment.methods else None
        seconds += store.seconds(federation, experiment.model, training=training, alone=experiment.solo_training)
    whole = [label for label in experiment.methods if all(label in each for each in results)]
    return Outcome(
        experiment=experiment,
        solos=tuple(solos),
        results={label: tuple(each[label] for each in results) for label in whole},
        seconds=seconds,
    )


def _by_label(
    experiment: Experiment, store: Store, federation: Federation, solo: Solo, seed: int, progress: bool | None
) -> dict[str, Result]:
    """One seed's results, but for runs that diverged."""
    if not experiment.methods:
        return {}
    found = store.sweep(
        federation,
        experiment.model,
        list(experiment.methods.values()),
        experiment.training,
        seeds=(seed,),
        solo=solo,
        skip_diverged=True,
        progress=progress,
    )
    by_method = {result.algorithm: result for result in found}
    return {label: by_method[method] for label, method in experiment.methods.items() if method in by_method}
