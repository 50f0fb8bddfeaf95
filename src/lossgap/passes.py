"""One pass: runs on one federation that are computed together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from lossgap.algorithms.base import Algorithm, Params
from lossgap.engine.checkpoint import Checkpoint
from lossgap.engine.compiled import CompiledStepper
from lossgap.engine.curvature import safe_steps
from lossgap.engine.lanes import LaneStepper
from lossgap.engine.run import Onlooker, Run, Stepper, drive
from lossgap.errors import Stopped
from lossgap.federation import Federation
from lossgap.metrics import client_rows
from lossgap.models import BATCHES, Model
from lossgap.progress import progress_bar
from lossgap.result import Result
from lossgap.theory.start import penalty_of, safe_step_size, with_safe_step
from lossgap.training import Training


class Engine(Protocol):
    """How a run is computed: `lossgap.engine.compiled.CompiledStepper.of` or its sequential twin."""

    def __call__(
        self,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training,
        *,
        params: Params,
        solo_losses: np.ndarray,
        key: jax.Array,
    ) -> Stepper: ...


@dataclass(frozen=True)
class Start:
    """What one run begins with."""

    algorithm: Algorithm
    seed: int
    params: Params
    solo_losses: np.ndarray

    def of_engine(self) -> dict[str, Any]:
        key = jax.random.fold_in(jax.random.key(self.seed), BATCHES)
        return {"params": self.params, "solo_losses": self.solo_losses, "key": key}

    def with_safe_step(self, federation: Federation, model: Model, training: Training) -> Training:
        """Settings with a number in place of "safe"."""
        return with_safe_step(federation, model, self.algorithm, self.params, self.solo_losses, training)

    def remark(self, federation: Federation, model: Model, training: Training) -> str:
        """What the theorems advise should the run diverge."""
        if penalty_of(self.algorithm) == 0:
            return ""
        proven = safe_step_size(federation, model, self.algorithm, self.params, self.solo_losses, training)
        return f' Or take step_size="safe", which is {proven:.2g} here: slow, but the theorems vouch for it.'

    def result(self, federation: Federation, model: Model, training: Training, run: Run) -> Result:
        clients = client_rows(
            federation,
            self.algorithm.served(model),
            run.params,
            personal=self.algorithm.personal,
            solo_losses=self.solo_losses,
            gap_split=training.gap_split,
            precision=training.precision,
        )
        return Result(
            algorithm=self.algorithm,
            model=model,
            training=training,
            seed=self.seed,
            params=run.params,
            history=run.history,
            clients=clients,
            features=federation.features,
            outputs=federation.outputs,
        )


def kinds(algorithms: Sequence[Algorithm]) -> list[list[int]]:
    """The numbers of those that share one program, as they differ in numbers only."""
    groups: dict[Any, list[int]] = {}
    for i, algorithm in enumerate(algorithms):
        groups.setdefault(jax.tree.structure(algorithm), []).append(i)
    return list(groups.values())


def run_pass(
    federation: Federation,
    model: Model,
    training: Training,
    starts: Sequence[Start],
    *,
    engine: Engine = CompiledStepper.of,
    progress: bool | None = None,
    checkpoint: Checkpoint | None = None,
    onlooker: Onlooker | None = None,
) -> list[Result]:
    """Train runs of one kind, several of them in one program; a single one by the engine alone.

    An interruption leaves as `Stopped`, which knows the results so far.
    """
    if training.step_size == "safe":  # a number of each run's own, which lanes cannot have
        own = [(start.with_safe_step(federation, model, training), start) for start in starts]
        kept = checkpoint if len(starts) == 1 else None
        return [
            run_pass(federation, model, t, [s], engine=engine, progress=progress, checkpoint=kept, onlooker=onlooker)[0]
            for t, s in own
        ]
    exact = partial(jax.enable_x64, training.precision == "float64")

    def results(run: Run) -> list[Result]:
        with exact():
            runs = _lanes(run, len(starts), len(federation.names))
            return [start.result(federation, model, training, run) for start, run in zip(starts, runs, strict=True)]

    def so_far(stopped: Stopped) -> list[Result]:
        with exact():
            return results(stopped.so_far())

    with exact():
        names = federation.names
        if len(starts) > 1:
            names = tuple(f"{name} under {start.algorithm}" for start in starts for name in names)
        stepper = _stepper(federation, model, training, starts, engine)
        label = _label(starts)
        with progress_bar(label, training.rounds, shown=progress) as report:
            try:
                run = drive(
                    stepper,
                    training,
                    names,
                    safe_step=safe_steps(federation, model, starts[0].params),
                    remark=partial(starts[-1].remark, federation, model, training),
                    label=f"Training with {label}" if len(starts) == 1 else "Training",
                    progress=report,
                    checkpoint=checkpoint,
                    onlooker=onlooker,
                )
            except Stopped as stopped:
                raise Stopped(partial(so_far, stopped)) from None
    return results(run)


def _stepper(
    federation: Federation, model: Model, training: Training, starts: Sequence[Start], engine: Engine
) -> Stepper:
    if len(starts) == 1:
        return engine(federation, model, starts[0].algorithm, training, **starts[0].of_engine())
    first = CompiledStepper.of(federation, model, starts[0].algorithm, training, **starts[0].of_engine())
    return LaneStepper.of([first, *(first.again(start.algorithm, **start.of_engine()) for start in starts[1:])])


def _label(starts: Sequence[Start]) -> str:
    first = starts[0].algorithm
    return str(first) if len(starts) == 1 else f"{len(starts)} × {type(first).__name__}"


def _lanes(run: Run, lanes: int, clients: int) -> list[Run]:
    """A pass as its single runs."""
    if lanes == 1:
        return [run]
    return [Run(params, run.history.of(slice(i * clients, (i + 1) * clients))) for i, params in enumerate(run.params)]
