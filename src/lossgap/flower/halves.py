"""A round in two halves, as Flower's own loop and its wrappers of strategies walk it: orders out, then answers in.

`algorithm.round` is a pure function of what clients say. It is walked twice: until it asks for training, and once more
with the answers at hand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Message, RecordDict
from jax import Array

from lossgap.algorithms.base import LocalRule, Measured, Params, Replies
from lossgap.engine.answers import Answer
from lossgap.errors import require
from lossgap.flower.clients import GridClients
from lossgap.flower.courier import SitesMissing, content
from lossgap.flower.honesty import Refused
from lossgap.flower.messages import TRAIN, by_path
from lossgap.flower.session import Session, line


class Pause(Exception):
    """A round has come to its training."""

    def __init__(self, orders: Mapping[int, RecordDict], params: Params) -> None:
        self.orders, self.params = orders, params


@dataclass(frozen=True)
class Asking(GridClients):
    """Clients up to the point where they are asked to train."""

    seen: list[Any] = field(default_factory=list)

    def measure(self, params: Params) -> Measured:
        self.seen.append(super().measure(params))
        return self.seen[-1]

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        self.seen.append(super().walk(starts, rule))
        return self.seen[-1]

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        raise Pause(self.orders(params, multipliers, rule), params)


@dataclass(frozen=True)
class Answering(GridClients):
    """Clients that have said everything."""

    seen: list[Any] = field(default_factory=list)
    said: list[Replies] = field(default_factory=list)

    def measure(self, params: Params) -> Measured:
        return self.seen.pop(0)

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        return self.seen.pop(0)

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        require(
            self.said,
            f"{self.terms.algorithm} asks for training more than once in a round, which Flower's wrappers cannot do.",
            "Use FairStrategy without a wrapper.",
        )
        return self.said.pop()


@dataclass
class Halves:
    """A session whose messages someone else sends."""

    session: Session
    clients: GridClients | None = None
    seen: list[Any] = field(default_factory=list)
    params: Params = None
    sent: dict[int, Message] = field(default_factory=dict)

    def ask(self, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> list[Message]:
        """The round's orders, from parameters that a wrapper may have changed."""
        session = self.session
        params, state = session.carry
        current = [jnp.asarray(arrays[path], leaf.dtype) for path, leaf in by_path(params).items()]
        params = jax.tree.unflatten(jax.tree.structure(params), current)
        session.carry, session.terms = (params, state), replace(session.terms, config=config)
        self.clients, self.seen = session.clients(), []
        try:
            session.algorithm.round(params, state, _as(Asking, self.clients, seen=self.seen))
        except Pause as pause:
            there, courier = session.courier.present(), session.courier
            self.params = pause.params
            self.sent = {
                k: courier.message(TRAIN, content, there[k], session.round)
                for k, content in pause.orders.items()
                if k in there
            }
        return list(self.sent.values())

    def take(self, messages: Iterable[Message]) -> tuple[Params, np.ndarray]:
        """The next parameters, and the gaps of those who answered."""
        assert self.clients is not None
        session, answers = self.session, dict(sorted(self._read(messages).items()))
        if len(answers) < self.clients.enough:
            raise SitesMissing(
                f"Round {session.round} needs {self.clients.enough} answers and got {len(answers)}. Start the other "
                "sites again and then the run, which goes on from its last round if it has a folder."
            )
        known = _as(Answering, self.clients, seen=self.seen, said=[self.clients.replies(answers)])
        params, state, glance = session.algorithm.round(*session.carry, known)
        session.take(params, state, glance)
        return params, line(glance, session.round, len(session.courier.names)).gap[0]

    def _read(self, messages: Iterable[Message]) -> dict[int, Answer]:
        assert self.clients is not None
        asked = {message.metadata.message_id: k for k, message in self.sent.items()}
        answers: dict[int, Answer] = {}
        for message in messages:
            k = asked.get(message.metadata.reply_to_message_id)
            if k is None:
                continue
            try:
                answers[k] = self.clients.read(k, content(message), self.params)
            except Refused as problem:
                self.session.courier.note(self.session.round, k, str(problem))
        return answers


def _as(kind: type, clients: GridClients, **more: Any) -> Any:
    return kind(**{f.name: getattr(clients, f.name) for f in fields(GridClients)}, **more)
