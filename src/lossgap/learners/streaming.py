"""`train_streaming`: one shared model from rows that need not fit into memory."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from lossgap.algorithms.base import Algorithm, Params
from lossgap.engine.run import SafeStep, drive
from lossgap.engine.streaming import StreamingLearner, StreamingStepper
from lossgap.experiment import starts_of
from lossgap.federation import Federation
from lossgap.learners.alone import Stop, learn_alone
from lossgap.learners.training import _served, check_servable, client_row
from lossgap.models import Model
from lossgap.progress import progress_bar
from lossgap.result import Result
from lossgap.solo import Solo
from lossgap.training import Training


def train_streaming(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training,
    *,
    seed: int = 0,
    solo: Solo | Sequence[float] | Stop = "converged",
    initial_params: Params | None = None,
    progress: bool | None = None,
) -> Result:
    """As `lossgap.train`, for clients whose rows lie in memory-mapped files and may be larger than memory.

    Each round reads the rows of its own batches. Losses are measured block by block, in a pass over all of a client's
    rows: of EAGLE's clients over their validation rows in each round, and over all training and validation rows
    wherever the history gets a line, so that `record_every` decides how much is read. The result equals that of
    `lossgap.train` up to rounding.

    Args:
        federation: of `numpy.load(path, mmap_mode="r")` and the like, or `Federation.from_table(…, on_disk=…)`.
        model, algorithm, seed, initial_params, progress: as for `lossgap.train`.
        training: with a `batch_size`.
        solo: what each client could reach alone: K losses in client order, a `Solo`, or how each trains alone for as
            many rounds, "converged" or "best" (see `lossgap.train_solo`).
    """
    check_servable(algorithm)
    given = [0.0] * len(federation.names) if isinstance(solo, str) else solo
    (start,) = starts_of(federation, model, [algorithm], training, seed=seed, solo=given, initial_params=initial_params)
    with jax.enable_x64(training.precision == "float64"):
        learners = [StreamingLearner.of(client, model, training, seed=seed) for client in federation.clients]
        if isinstance(solo, str):
            start = replace(start, solo_losses=_alone(learners, start.params, training, solo, progress))
        stepper = StreamingStepper.of(federation, model, algorithm, training, **start.of_engine())
        label = f"Training with {algorithm}"
        with progress_bar(str(algorithm), training.rounds, shown=progress) as report:
            run = drive(stepper, training, federation.names, safe_step=_smaller(training), label=label, progress=report)
        clients = [
            client_row(learner, own, loss, training)
            for learner, own, loss in zip(
                learners, _served(algorithm, run.params, len(learners)), start.solo_losses, strict=True
            )
        ]
    return Result(
        algorithm=algorithm,
        model=model,
        training=training,
        seed=seed,
        params=run.params,
        history=run.history,
        clients=tuple(clients),
        features=federation.features,
        outputs=federation.outputs,
    )


def _alone(
    learners: Sequence[StreamingLearner], params: Params, training: Training, stop: Stop, progress: bool | None
) -> np.ndarray:
    """L_k* of every client, [client]."""
    losses = []
    for learner in learners:
        with progress_bar(f"{learner.name} alone", training.rounds, shown=progress) as report:
            alone = learn_alone(learner, params, rounds=training.rounds, stop=stop, progress=report)
        losses.append(alone.validation_loss if training.gap_split == "validation" else alone.train_loss)
    return np.array(losses)


def _smaller(training: Training) -> SafeStep:
    """How sharply losses bend would take many passes over the rows to find out, so this is only a better guess."""
    return lambda largest_multiplier: training.step / (10 * largest_multiplier)
