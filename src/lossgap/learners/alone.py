"""A learner by itself: L_k*, the best loss its site reaches without the others."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from lossgap.algorithms import FedAvg
from lossgap.algorithms.base import Params
from lossgap.engine.alone import FLAT, WINDOW
from lossgap.engine.learner import Learner
from lossgap.errors import DivergedError

Stop = Literal["converged", "best"]


@dataclass(frozen=True)
class Alone:
    """The model that one learner reaches by itself, and its losses."""

    params: Params
    train_loss: float
    validation_loss: float
    rounds: int  # of local work that made this model
    converged: bool


def learn_alone(
    learner: Learner,
    params: Params,
    *,
    rounds: int,
    stop: Stop = "converged",
    progress: Callable[[int], None] = lambda rounds: None,
) -> Alone:
    """Rounds of local work by one learner from the shared start, by the rules of `lossgap.train_solo`.

    Args:
        learner: whose.
        params: the shared initialisation.
        rounds: the most rounds of local work.
        stop: "converged" keeps the last model, once the training loss is flat or the rounds are used up; "best" trains
            as long but keeps the round with the lowest validation loss.
        progress: told after each round.
    """
    recent: deque[float] = deque([np.inf] * WINDOW, maxlen=WINDOW)
    best: Alone | None = None
    for round in range(rounds + 1):
        loss, validation = learner.loss(params, "train"), learner.loss(params, "validation")
        if not np.isfinite(loss):
            raise DivergedError(f"{learner.name!r} diverged alone in round {round}. Use a smaller step_size.")
        flat = recent[0] - loss < FLAT
        recent.append(loss)
        stands = Alone(params, loss, validation, round, flat)
        if best is None or stop == "converged" or validation < best.validation_loss:
            best = stands
        if flat or round == rounds:
            break
        update = learner.fit(params, jnp.ones(()), round=round, rule=FedAvg())
        params = jax.tree.map(lambda p, u: np.asarray(p - u), params, update)
        progress(round + 1)
    assert best is not None
    return Alone(best.params, best.train_loss, best.validation_loss, best.rounds, flat)
