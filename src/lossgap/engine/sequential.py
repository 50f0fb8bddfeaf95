"""The plain twin of the compiled engine: one learner after another, one round after another.

It pads nothing and compiles no rounds together, so it is easy to believe; tests compare the compiled engine with it. It
also runs learners that are not made of JAX.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, Glance, LocalRule, Measured, Params, Replies
from lossgap.engine.learner import JaxLearner, Learner
from lossgap.engine.run import Carry
from lossgap.engine.updates import StackedUpdates
from lossgap.federation import Federation
from lossgap.models import Model
from lossgap.training import Training


@dataclass(frozen=True)
class SequentialClients:
    """Learners that answer one after another."""

    learners: Sequence[Learner]
    training: Training
    solo_losses: Array
    round: int

    def measure(self, params: Params) -> Measured:
        train, validation = (
            jnp.array([learner.loss(params, split) for learner in self.learners]) for split in ("train", "validation")
        )
        loss = validation if self.training.gap_split == "validation" else train
        return Measured(train, validation, loss - self.solo_losses)

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        multipliers = jnp.broadcast_to(multipliers, (len(self.learners),))
        updates = [
            learner.fit(params, multiplier, round=self.round, rule=rule)
            for learner, multiplier in zip(self.learners, multipliers, strict=True)
        ]
        arrived = [jax.tree.map(jnp.subtract, params, update) for update in updates]
        return Replies(
            updates=StackedUpdates(_stacked(updates)),
            measured=self.measure(params),
            rows=jnp.array([learner.rows for learner in self.learners]),
            steps=jnp.array([learner.steps for learner in self.learners]),
            step_size=jnp.asarray(self.training.step_size),
            loss_after=jnp.array([each.loss(own, "train") for each, own in zip(self.learners, arrived, strict=True)]),
        )

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        arrived = []
        for k, learner in enumerate(self.learners):
            start = jax.tree.map(lambda a: a[k], starts)  # noqa: B023 - used before k moves on
            update = learner.fit(start, jnp.ones(()), round=self.round, rule=rule)
            arrived.append(jax.tree.map(jnp.subtract, start, update))
        return _stacked(arrived)


@dataclass(frozen=True)
class SequentialStepper:
    """A run of any learners, one round at a time."""

    algorithm: Algorithm
    learners: Sequence[Learner]
    training: Training
    params: Params
    solo_losses: Array
    most_lines: int = 1000

    @classmethod
    def of(
        cls,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training,
        *,
        params: Params,
        solo_losses: np.ndarray,
        key: Array,
    ) -> Self:
        learners = [JaxLearner(client, model, training, key) for client in federation.clients]
        return cls(algorithm, learners, training, params, jnp.asarray(solo_losses, training.precision))

    def start(self) -> Carry:
        return self.params, self.algorithm.init(self.params, len(self.learners))

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        lines = []
        for t in range(first, first + rounds):
            params, state, glance = self.algorithm.round(*carry, self._clients(t))
            carry = params, state
            if t % self.training.record_every == 0:
                lines.append(glance)
        return carry, _stacked(lines)

    def glance(self, carry: Carry) -> Glance:
        return self.algorithm.glance(*carry, self._clients(self.training.rounds))

    def finish(self, carry: Carry) -> Params:
        return self.algorithm.evaluated(*carry)

    def _clients(self, round: int) -> SequentialClients:
        return SequentialClients(self.learners, self.training, self.solo_losses, round)


def _stacked(trees: Sequence[Params]) -> Params:
    return jax.tree.map(lambda *each: jnp.stack(each), *trees)
