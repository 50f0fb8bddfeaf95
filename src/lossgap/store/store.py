"""A folder of runs: what is there is read, what is missing is trained, and nothing is trained twice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lossgap.algorithms import Algorithm
from lossgap.comparison import Comparison
from lossgap.engine.checkpoint import SECONDS
from lossgap.engine.run import Onlooker
from lossgap.errors import DivergedError
from lossgap.experiment import check_methods
from lossgap.federation import Federation
from lossgap.identity import fingerprint
from lossgap.models import Model, Params
from lossgap.result import Result
from lossgap.solo import Solo, Stop, epochs_alone
from lossgap.store.layout import opened
from lossgap.store.solos import stored_solo
from lossgap.store.sweep import Sweep
from lossgap.training import Training


class Store:
    """A folder of runs, each under the hash of all that its numbers follow from.

    A run that is there is read; a missing one is trained and put there, all or nothing; one that was cut off goes on
    where it was saved last, and ends bit for bit as if it had not been. Several processes, also on several machines
    that share the folder, may work on one store: none of them trains what another is training.

    Args:
        folder: made if it does not exist.
        checkpoint_seconds: between two times that runs are saved while they are trained: what a power cut costs at
            most, or `record_every` rounds where these take longer.
    """

    def __init__(self, folder: str | Path, *, checkpoint_seconds: float = SECONDS) -> None:
        self._layout = opened(folder, checkpoint_seconds)

    @property
    def folder(self) -> Path:
        return self._layout.folder

    def train(
        self,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training = Training(),
        *,
        seed: int = 0,
        solo: Stop | Solo | Sequence[float] = "converged",
        solo_epochs: int | None = None,
        initial_params: Params | None = None,
        onlooker: Onlooker | None = None,
        progress: bool | None = None,
    ) -> Result:
        """One run, as `lossgap.train` would give it.

        Args:
            federation, model, algorithm, training, seed, initial_params, onlooker, progress: as for `lossgap.train`.
            solo: the rule by which `train_solo` stops, or what it gave, or K losses in client order.
            solo_epochs: for a rule, its `max_epochs`.
        """
        return self.sweep(
            federation,
            model,
            [algorithm],
            training,
            seeds=(seed,),
            solo=solo,
            solo_epochs=solo_epochs,
            initial_params=initial_params,
            onlooker=onlooker,
            progress=progress,
        )[0]

    def train_solo(
        self,
        federation: Federation,
        model: Model,
        training: Training,
        *,
        stop: Stop = "converged",
        max_epochs: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Solo:
        """Every client alone, as `lossgap.train_solo` would give it: trained once, shared by all methods."""
        return stored_solo(
            self._layout, federation, model, training, stop=stop, max_epochs=max_epochs, seed=seed, progress=progress
        )

    def sweep(
        self,
        federation: Federation,
        model: Model,
        algorithms: Sequence[Algorithm],
        training: Training = Training(),
        *,
        seeds: Sequence[int] = (0,),
        solo: Stop | Solo | Sequence[float] = "converged",
        solo_epochs: int | None = None,
        initial_params: Params | None = None,
        lanes: int | None = None,
        skip_diverged: bool = False,
        onlooker: Onlooker | None = None,
        progress: bool | None = None,
    ) -> list[Result]:
        """Every method from every seed on one federation, in the order of seeds, then methods.

        Methods that differ in numbers only, such as ten values of λ, are trained in one pass, see
        `lossgap.train_many`; their results equal those of single runs up to rounding.

        Args:
            federation, model, algorithms, training, initial_params, progress: as for `lossgap.train_many`.
            seeds: of the initialisation and of batches.
            solo, solo_epochs: as for `Store.train`.
            lanes: the most runs that one pass trains; 1 trains each by itself, bit for bit as
                `lossgap.train` does; None is all of a kind.
            skip_diverged: leave runs that diverged out of the results. Otherwise `DivergedError` names them, once all
                others are there.
            onlooker: called with lines of the history as they come in; of runs in one pass, one after the other.
        """
        check_methods(algorithms, seeds)
        sweep = Sweep(
            layout=self._layout,
            federation=federation,
            model=model,
            training=training,
            solo=solo,
            solo_epochs=solo_epochs,
            initial_params=initial_params,
            onlooker=onlooker,
            progress=progress,
        )
        outcomes = sweep.outcomes(algorithms, seeds, lanes)
        diverged = [outcome.diverged for outcome in outcomes if not isinstance(outcome, Result)]
        if diverged and not skip_diverged:
            raise DivergedError("\n".join(map(str, diverged)))
        return [outcome for outcome in outcomes if isinstance(outcome, Result)]

    def seconds(
        self, federation: Federation, model: Model, *, training: Training | None = None, alone: Training | None = None
    ) -> float:
        """How long all took that is here for these rows and this model, whenever it was trained.

        Interruptions do not count, and runs that were trained in one pass count once.

        Args:
            federation, model: whose time is asked for.
            training: the settings of the runs that count; None counts no run.
            alone: the settings of the solo models that count; None counts none.
        """
        rows, wanted, spent = fingerprint(federation), {"run": training, "solo": alone}, {}
        for entry in (*self._layout.results, *self._layout.solos):
            settings = wanted[entry.identity["kind"]]
            same = entry.identity["federation"] == rows and entry.identity["model"]["name"] == model.name
            if same and settings is not None and _agree(entry.identity["training"], settings):
                spent[entry.about.get("pass", {}).get("key", entry.key)] = float(entry.about["seconds"])
        return sum(spent.values())

    def compare(
        self,
        make_federation: Callable[..., Federation],
        model: Model,
        algorithms: Sequence[Algorithm],
        training: Training = Training(),
        *,
        seeds: Sequence[int] = (0,),
        stop: Stop = "converged",
        lanes: int | None = None,
        skip_diverged: bool = False,
        progress: bool | None = None,
    ) -> Comparison:
        """Every method on every seed's own federation, as `lossgap.compare` would give it.

        `skip_diverged` leaves methods out that diverged on a seed.
        """
        check_methods(algorithms, seeds)
        by_seed = [
            self.sweep(
                make_federation(seed=seed),
                model,
                algorithms,
                training,
                seeds=(seed,),
                solo=stop,
                lanes=lanes,
                skip_diverged=skip_diverged,
                progress=progress,
            )
            for seed in seeds
        ]
        found = [{result.algorithm: result for result in each} for each in by_seed]
        whole = [algorithm for algorithm in algorithms if all(algorithm in each for each in found)]
        return Comparison(tuple(seeds), {str(method): tuple(each[method] for each in found) for method in whole})


def _agree(noted: Mapping[str, Any], training: Training) -> bool:
    """Whether the settings that an entry notes are these. Solo models note their epochs in place of rounds."""
    settings = asdict(training) | {"epochs": epochs_alone(training)}
    return all(settings[name] == value for name, value in noted.items())
