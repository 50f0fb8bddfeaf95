"""`FairStrategy`: any lossgap method as a strategy of Flower."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from logging import INFO
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result as FlowerResult
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from lossgap.algorithms.base import Algorithm, Params
from lossgap.errors import is_count, require
from lossgap.flower.beginning import Beginning
from lossgap.flower.courier import Incident, Patience
from lossgap.flower.halves import Halves
from lossgap.flower.honesty import Limits
from lossgap.flower.messages import packed, unpacked
from lossgap.flower.nodes import Identify, registered
from lossgap.flower.session import Session
from lossgap.learners.alone import Stop
from lossgap.learners.training import check_servable
from lossgap.models import Model
from lossgap.progress import progress_bar
from lossgap.result import Result
from lossgap.training import Training

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class FairStrategy(Strategy):
    """Train one shared model at sites that Flower connects, by any lossgap method.

    The sites first find what each of them reaches alone, then come the rounds: the same that `lossgap.train` walks.
    `run` gives a `lossgap.Result`; `start` does the same in Flower's terms.

    Args:
        algorithm: a method, such as `lossgap.Eagle(gap_penalty=1.0)`.
        training: rounds, step size and local work. A round costs seconds of traffic whatever the work: several
            `local_steps` or `local_epochs` per round are cheap.
        sites: the names of the sites that take part, or how many to wait for.
        solo: how a site finds its best loss alone, "converged" or "best", see `lossgap.train_solo`; or losses by site.
        solo_rounds: the most rounds of local work alone; by default as many as `training` has.
        seed: of who takes part in a round, where `training.participation` is below 1.
        folder: where the run is kept after every round. A run that finds itself there goes on.
        quorum: the fewest sites that must answer in a round; all of them, for a method that needs everyone. The last
            gap of an absent site counts until `Eagle(forget_after=…)` forgets it.
        identify: who is who, by default the names or keys that nodes were registered with.
        patience: how long to wait.
        limits: what no honest site would exceed.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        training: Training = Training(),
        *,
        sites: int | Sequence[str] = 2,
        solo: Stop | Mapping[str, float] = "converged",
        solo_rounds: int | None = None,
        seed: int = 0,
        folder: str | Path | None = None,
        quorum: int = 1,
        identify: Identify = registered,
        patience: Patience = Patience(),
        limits: Limits = Limits(),
    ) -> None:
        check_servable(algorithm)
        count = sites if isinstance(sites, int) else len(set(sites))
        require(count >= 2, f"FairStrategy: sites is {sites!r}.", "Name at least two, or say how many to wait for.")
        require(is_count(quorum), f"FairStrategy: quorum is {quorum!r}.", "Use a whole number of at least 1.")
        self.beginning = Beginning(
            algorithm=algorithm,
            training=training,
            sites=sites,
            solo=solo,
            solo_rounds=solo_rounds or training.rounds,
            seed=seed,
            folder=None if folder is None else Path(folder),
            quorum=quorum,
            identify=identify,
            patience=patience,
            limits=limits,
        )
        self.session: Session | None = None
        self._halves: Halves | None = None

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Answers that were refused or are doubtful, so far."""
        return () if self.session is None else tuple(self.session.courier.incidents)

    def run(
        self,
        grid: Grid,
        initial_params: Params,
        *,
        model: Model | None = None,
        features: tuple[int, ...] = (),
        outputs: int = 0,
        config: Mapping[str, Any] | None = None,
        progress: bool | None = None,
        after_round: Callable[[int, Params], None] = lambda done, params: None,
    ) -> Result:
        """Train, and have every site say what it gets.

        Args:
            grid: from the server app.
            initial_params: where everybody starts.
            model: a network with these parameters, for `result.predict`.
            features, outputs: the shape of one row and the number of outputs, for a saved result to be read back.
            config: what training orders carry besides, such as `{"clipping_norm": 1.0}` for Flower's modifier.
            progress: show a progress bar; by default on a terminal.
            after_round: called with the number of rounds done and the parameters.
        """
        training = self.beginning.training
        with self._precision():
            session = self.session = self.beginning.session(grid, initial_params, config or {})
            with progress_bar(str(self.beginning.algorithm), training.rounds, shown=progress) as report:
                while session.round < training.rounds:
                    session.step()
                    log(INFO, "Round %s of %s: %s", session.round, training.rounds, session.said())
                    report(session.round)
                    after_round(session.round, session.carry[0])
            return session.result(model, features, outputs)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> FlowerResult:
        """As every strategy of Flower starts. What is left out follows from `training` and `patience`."""
        self.beginning = self.beginning.changed(num_rounds, timeout)
        outcome = FlowerResult()

        def after_round(done: int, params: Params) -> None:
            said = evaluate_fn(done, packed(params)) if evaluate_fn else None
            if said is not None:
                outcome.evaluate_metrics_serverapp[done] = said

        result = self.run(grid, unpacked(initial_arrays), config=dict(train_config or {}), after_round=after_round)
        for done, gaps in zip(result.history.rounds, result.history.gap, strict=True):
            outcome.train_metrics_clientapp[int(done)] = gap_metrics(gaps)
        outcome.arrays = packed(result.params)
        return outcome

    def summary(self) -> None:
        log(INFO, "\t├──> Method: %s", self.beginning.algorithm)
        log(INFO, "\t└──> %s", self.beginning.training)

    # The two halves of a round, for Flower's wrappers of strategies, such as those for differential privacy.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the sites for the round's training."""
        require(
            self.beginning.folder is None,
            "FairStrategy: folder is given, and Flower's own loop cannot go on in the middle.",
            "Leave folder out, or use FairStrategy.run without a wrapper.",
        )
        with self._precision():
            if self._halves is None:
                self._halves = Halves(self.beginning.session(grid, unpacked(arrays), dict(config)))
                self.session = self._halves.session
            return self._halves.ask(unpacked(arrays), dict(config))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the method makes of the replies."""
        require(self._halves is not None, "aggregate_train came before configure_train.", "Call it afterwards.")
        assert self._halves is not None
        with self._precision():
            params, gaps = self._halves.take(replies)
            return packed(params), gap_metrics(gaps)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: sites say what they get within each round, and in full at the end of `run`."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        return None

    def _precision(self) -> AbstractContextManager[Any]:
        return jax.enable_x64(self.beginning.training.precision == "float64")


def gap_metrics(gaps: np.ndarray) -> MetricRecord:
    """Summaries of the gaps of those who answered, [client]."""
    told = gaps[~np.isnan(gaps)]
    deviation = float(told.var(ddof=1)) if len(told) > 1 else 0.0
    return MetricRecord({"mean-gap": float(told.mean()), "max-gap": float(told.max()), "gap-variance": deviation})
