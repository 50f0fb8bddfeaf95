"""The plain twin of the compiled engine: one learner after another, one round after another.

It pads nothing and compiles no rounds together, so it is easy to believe; tests compare the compiled engine with it. It
also runs learners that are not made of JAX.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, Glance, LocalRule, Measured, Params, Replies
from lossgap.engine.answers import Losses, answer, measured, replies, stacked
from lossgap.engine.learner import JaxLearner, Learner
from lossgap.engine.run import Carry
from lossgap.federation import Client, Federation
from lossgap.models import Model
from lossgap.training import Training, client_keys, drawn


@dataclass(frozen=True)
class SequentialClients:
    """Learners that answer one after another."""

    learners: Sequence[Learner]
    training: Training
    solo_losses: Array
    round: int
    who: Array | None  # those who answer; None: everybody

    @property
    def everyone(self) -> Self:
        return replace(self, who=None)

    @property
    def answering(self) -> Sequence[Learner]:
        return self.learners if self.who is None else [self.learners[k] for k in self.who]

    def measure(self, params: Params) -> Measured:
        losses = [Losses.of(learner, params) for learner in self.answering]
        return measured(losses, self.solo_losses, self.training, self.who)

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        multipliers = jnp.broadcast_to(multipliers, (len(self.learners),))
        own = multipliers if self.who is None else multipliers[self.who]
        answers = [
            answer(learner, params, multiplier, round=self.round, rule=rule)
            for learner, multiplier in zip(self.answering, own, strict=True)
        ]
        return replies(answers, self.solo_losses, self.training, self.who)

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        arrived = []
        for k, learner in enumerate(self.learners):
            start = jax.tree.map(lambda a: a[k], starts)  # noqa: B023 - used before k moves on
            if self.who is not None and k not in self.who:
                arrived.append(start)
                continue
            update = learner.fit(start, jnp.ones(()), round=self.round, rule=rule)
            arrived.append(jax.tree.map(jnp.subtract, start, update))
        return stacked(arrived)


@dataclass(frozen=True)
class SequentialStepper:
    """A run of any learners, one round at a time."""

    algorithm: Algorithm
    learners: Sequence[Learner]
    training: Training
    params: Params
    solo_losses: Array
    keys: Array  # [client]
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
        learners = [cls.learner(client, model, training, key) for client in federation.clients]
        solo, keys = jnp.asarray(solo_losses, training.precision), client_keys(key, federation.names)
        return cls(algorithm, learners, training, params, solo, keys)

    @classmethod
    def learner(cls, client: Client, model: Model, training: Training, key: Array) -> Learner:
        return JaxLearner(client, model, training, key)

    def start(self) -> Carry:
        return self.params, self.algorithm.init(self.params, len(self.learners))

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        lines = []
        for t in range(first, first + rounds):
            clients = self._clients(t)
            if t % self.training.record_every == 0:
                lines.append(self.algorithm.glance(*carry, clients))
            params, state, _ = self.algorithm.round(*carry, clients)
            carry = params, state
        return carry, stacked(lines)

    def glance(self, carry: Carry, round: int) -> Glance:
        return self.algorithm.glance(*carry, self._clients(round))

    def finish(self, carry: Carry) -> Params:
        return self.algorithm.evaluated(*carry)

    def _clients(self, round: int) -> SequentialClients:
        participants = self.training.participants(len(self.learners))
        who = None if participants is None else drawn(self.keys, round, participants)
        return SequentialClients(self.learners, self.training, self.solo_losses, round, who)
