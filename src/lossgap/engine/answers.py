"""What one site says in a round, and what the server makes of it: the same on one machine and across a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import LocalRule, Measured, Params, Replies
from lossgap.engine.learner import Learner
from lossgap.engine.updates import StackedUpdates
from lossgap.training import Training


@dataclass(frozen=True)
class Losses:
    """Of one model on one site's rows."""

    train: float
    validation: float

    @classmethod
    def of(cls, learner: Learner, params: Params) -> "Losses":
        return cls(learner.loss(params, "train"), learner.loss(params, "validation"))


@dataclass(frozen=True)
class Answer:
    """What a site sends back after its local work."""

    update: Params  # Δ_k = θ − θ_k
    losses: Losses  # at θ, before local work
    rows: int  # training rows
    steps: int
    loss_after: float  # training loss of θ_k


def answer(learner: Learner, params: Params, multiplier: Array, *, round: int, rule: LocalRule) -> Answer:
    """One site's part of a round."""
    losses = Losses.of(learner, params)
    update = learner.fit(params, multiplier, round=round, rule=rule)
    arrived = jax.tree.map(jnp.subtract, params, update)
    return Answer(update, losses, learner.rows, learner.steps, learner.loss(arrived, "train"))


def measured(losses: Sequence[Losses], solo_losses: Array, training: Training, who: Array | None) -> Measured:
    """What those who answered say of one model; `solo_losses` are everybody's."""
    train, validation = (jnp.array([getattr(each, split) for each in losses]) for split in ("train", "validation"))
    loss = validation if training.gap_split == "validation" else train
    return Measured(train, validation, loss - (solo_losses if who is None else solo_losses[who]), who)


def replies(answers: Sequence[Answer], solo_losses: Array, training: Training, who: Array | None) -> Replies:
    """What a method's `server_step` reads, from those who answered, in client order."""
    return Replies(
        updates=StackedUpdates(stacked([each.update for each in answers])),
        measured=measured([each.losses for each in answers], solo_losses, training, who),
        rows=jnp.array([each.rows for each in answers]),
        steps=jnp.array([each.steps for each in answers]),
        step_size=jnp.asarray(training.step),
        loss_after=jnp.array([each.loss_after for each in answers]),
    )


def stacked(trees: Sequence[Params]) -> Params:
    return jax.tree.map(lambda *each: jnp.stack(each), *trees)
