"""The clients of a round, somewhere else: what `algorithm.round` walks through when sites are machines of their own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import RecordDict
from jax import Array

from lossgap.algorithms.base import Algorithm, LocalRule, Measured, Params, Replies
from lossgap.engine.answers import Answer, Losses, measured, replies
from lossgap.flower.courier import Courier
from lossgap.flower.honesty import Limits, metrics_of
from lossgap.flower.messages import MEASURE, TRAIN, WALK, order
from lossgap.flower.rules import described
from lossgap.training import Training


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What stays the same for a whole run.

    Args:
        quorum: the fewest sites that must answer.
        solo_losses: L_k*, [client].
        solo_keys: under which sites keep them on their own disks; empty where the server was given them.
        config: what every order of training carries besides, such as the clipping norm of Flower's modifier.
    """

    algorithm: Algorithm
    training: Training
    limits: Limits
    quorum: int
    solo_losses: np.ndarray
    solo_keys: tuple[str, ...]
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def spoken(self) -> str:
        return json.dumps(asdict(self.training))


@dataclass(frozen=True)
class GridClients:
    """Sites that answer over Flower's grid, sorted by client: float sums depend on the order of arrival."""

    courier: Courier
    terms: Terms
    round: int
    asked: tuple[int, ...] | None  # who takes part; None: everybody

    @property
    def everyone(self) -> Self:
        return replace(self, asked=None)

    @property
    def takes_part(self) -> Sequence[int]:
        return range(len(self.courier.names)) if self.asked is None else self.asked

    def measure(self, params: Params) -> Measured:
        orders = {k: order(params, self.config(k)) for k in self.takes_part}
        said = self._ask(MEASURE, orders, self._losses)
        return measured(list(said.values()), self.solo_losses, self.terms.training, self._who(said))

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        orders = self.orders(params, multipliers, rule)
        said = self._ask(TRAIN, orders, lambda k, content: self.read(k, content, params))
        return self.replies(said)

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        own = {k: jax.tree.map(lambda a, k=k: np.asarray(a[k]), starts) for k in self.takes_part}
        words, trees = described(rule)
        orders = {k: order(own[k], self.config(k) | {"rule": json.dumps(words)}, **trees) for k in self.takes_part}
        limits = self.terms.limits
        arrived = self._ask(WALK, orders, lambda k, content: limits.params(content, own[k]))
        who = np.array(list(arrived))
        ends = jax.tree.map(lambda *each: jnp.stack(each), *arrived.values())
        return jax.tree.map(lambda start, end: start.at[who].set(end), jax.tree.map(jnp.asarray, starts), ends)

    def orders(self, params: Params, multipliers: Array, rule: LocalRule) -> dict[int, RecordDict]:
        """What each site is asked to train: the same parameters, and a multiplier of its own."""
        each = np.broadcast_to(np.asarray(multipliers, np.float64), len(self.courier.names))
        words, trees = described(rule)
        common = {"rule": json.dumps(words), **self.terms.config}
        return {
            k: order(params, self.config(k) | common | {"multiplier": float(each[k])}, **trees) for k in self.takes_part
        }

    def read(self, k: int, content: RecordDict, params: Params) -> Answer:
        """One site's answer to `train`."""
        self._look_at_solo(k, content)
        return self.terms.limits.answer(content, params)

    def replies(self, answers: Mapping[int, Answer]) -> Replies:
        return replies(list(answers.values()), self.solo_losses, self.terms.training, self._who(answers))

    def config(self, k: int) -> dict[str, Any]:
        """What every order says."""
        keys = self.terms.solo_keys
        return {"round": self.round, "training": self.terms.spoken} | ({"solo": keys[k]} if keys else {})

    @property
    def solo_losses(self) -> Array:
        return jnp.asarray(self.terms.solo_losses, self.terms.training.precision)

    @property
    def enough(self) -> int:
        """The fewest answers that a round can go on with."""
        asked = len(self.takes_part)
        return asked if self.terms.algorithm.needs_everyone else min(self.terms.quorum, asked)

    def _ask(self, kind: str, orders: Mapping[int, RecordDict], read: Any) -> dict[int, Any]:
        return self.courier.ask(kind, orders, read, round=self.round, enough=self.enough)

    def _losses(self, k: int, content: RecordDict) -> Losses:
        self._look_at_solo(k, content)
        return self.terms.limits.losses_of(content)

    def _who(self, answers: Mapping[int, Any]) -> Array | None:
        everybody = len(answers) == len(self.courier.names)
        return None if everybody else jnp.array(list(answers))

    def _look_at_solo(self, k: int, content: RecordDict) -> None:
        """A site that now claims to reach more alone would get a larger weight. We stay with what it said first."""
        first = self.terms.solo_losses[k]
        now = metrics_of(content).get("solo-loss", first)
        if not isinstance(now, int | float) or not now >= first - self.terms.limits.solo_drop:
            self.courier.note(
                self.round,
                k,
                f"it now claims to reach a loss of {now} alone, and said {first:.6g} before. The first one counts.",
            )
