"""`train_learners`: one shared model from learners of any framework, on this machine."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lossgap.algorithms.base import Algorithm, Params
from lossgap.checks import check_names
from lossgap.engine.learner import Learner
from lossgap.engine.run import SafeStep, drive
from lossgap.engine.sequential import SequentialStepper
from lossgap.errors import require
from lossgap.experiment import check_fit, checked_solo
from lossgap.federation import SPLITS
from lossgap.learners.alone import learn_alone
from lossgap.metrics import ClientRow
from lossgap.models import BATCHES, Model
from lossgap.progress import progress_bar
from lossgap.result import Result
from lossgap.training import Training, client_keys


def train_learners(
    learners: Sequence[Learner],
    algorithm: Algorithm,
    training: Training = Training(),
    *,
    initial_params: Params,
    seed: int = 0,
    solo: Sequence[float] | None = None,
    model: Model | None = None,
    progress: bool | None = None,
) -> Result:
    """Train one shared model with learners in place of a federation and a model.

    A plain loop without a network: a PyTorch or scikit-learn model can be tried on one machine before it is deployed.

    Args:
        learners: the sites, at least two, with names of their own.
        algorithm: a method, such as `lossgap.Eagle(gap_penalty=1.0)`.
        training: rounds, participation, and the step size that the learners use. Their local work is their own.
        initial_params: where everybody starts, such as `learners[0].params`.
        seed: of who takes part in a round, where `training.participation` is below 1.
        solo: what each could reach alone, in the order of learners; by default each trains alone for as many rounds.
        model: a network with these parameters, for `result.predict`; None leaves prediction to the learners' own.
        progress: show a progress bar; by default on a terminal.
    """
    names = [learner.name for learner in learners]
    check_names(names)
    check_servable(algorithm)
    with jax.enable_x64(training.precision == "float64"):
        params = jax.tree.map(lambda p: np.asarray(p, training.precision), initial_params)
        check_fit([algorithm], len(learners), training, params)
        losses = checked_solo(names, training, _alone(learners, training, params, progress) if solo is None else solo)
        stepper = SequentialStepper(
            algorithm,
            learners,
            training,
            params,
            jnp.asarray(losses, training.precision),
            client_keys(jax.random.fold_in(jax.random.key(seed), BATCHES), names),
        )
        with progress_bar(str(algorithm), training.rounds, shown=progress) as report:
            run = drive(stepper, training, names, safe_step=_smaller(training.step), progress=report)
        rows = [
            client_row(learner, own, loss, training)
            for learner, own, loss in zip(learners, _served(algorithm, run.params, len(names)), losses, strict=True)
        ]
    return Result(
        algorithm=algorithm,
        model=model or FOREIGN,
        training=training,
        seed=seed,
        params=run.params,
        history=run.history,
        clients=tuple(rows),
        features=(),
        outputs=0,
    )


def client_row(learner: Learner, params: Params, solo_loss: float, training: Training) -> ClientRow:
    """How a model serves one learner's site."""
    losses = {split: learner.loss(params, split) for split in SPLITS}
    return ClientRow(
        name=learner.name,
        rows=learner.rows,
        solo_loss=float(solo_loss),
        gap=losses[training.gap_split] - float(solo_loss),
        **{f"{split}_loss": loss for split, loss in losses.items()},
        **{f"{split}_accuracy": learner.accuracy(params, split) for split in SPLITS},
    )


def check_servable(algorithm: Algorithm) -> None:
    """Refuse a method whose clients are served another network than the one they train."""
    require(
        type(algorithm).served is Algorithm.served,
        f"{algorithm} serves mixtures of several networks, and a learner runs its own only.",
        "Use lossgap.train for it, or another method.",
    )


def _alone(learners: Sequence[Learner], training: Training, params: Params, progress: bool | None) -> list[float]:
    losses = []
    for learner in learners:
        with progress_bar(f"{learner.name} alone", training.rounds, shown=progress) as report:
            alone = learn_alone(learner, params, rounds=training.rounds, progress=report)
        losses.append(learner.loss(alone.params, training.gap_split))
    return losses


def _served(algorithm: Algorithm, params: Params, clients: int) -> list[Params]:
    if not algorithm.personal:
        return [params] * clients
    return [jax.tree.map(lambda p: p[k], params) for k in range(clients)]  # noqa: B023 - used before k moves on


def _smaller(step_size: float) -> SafeStep:
    """Nothing is known of how sharply a learner's loss bends, so this is only a better guess."""
    return lambda largest_multiplier: step_size / (10 * largest_multiplier)


def _foreign(*_: object) -> Any:
    raise TypeError("The learners' network is not known here. Predict with it, or pass model=… to train_learners.")


FOREIGN = Model(init=_foreign, apply=_foreign, name="of its learners")
