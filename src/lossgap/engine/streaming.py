"""Clients whose rows stay in files: what a round works on is read for it, and nothing else is held.

The batches are those that the other engines draw, and the same `local_update` runs on them, so a run equals one in
memory up to rounding. Losses are sums over blocks, in a pass over all rows: nothing is measured that the method does
not ask for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import LocalRule, Measured, Measurement, Params, Replies
from lossgap.engine.learner import Learner, OwnClient
from lossgap.engine.local import OwnRows, steered
from lossgap.engine.sequential import SequentialClients, SequentialStepper
from lossgap.engine.updates import StackedUpdates
from lossgap.errors import require
from lossgap.federation import Client, Split, SplitName
from lossgap.models import Model
from lossgap.training import Batch, LocalWork, Training, client_keys, drawn, local_update

BLOCK_BYTES = 1 << 22
"""Features in memory at once, of one client, as the numbers that are computed with; on their way there are copies."""

Read = tuple[Array, Array, Array, Array]
"""Features and targets of some steps' rows, where each step finds its own among them, and how many steps there are."""

EVERYTHING: frozenset[Measurement] = frozenset({"loss_at_global", "gaps"})


@dataclass(frozen=True)
class StreamingLearner(OwnClient):
    """One client of a federation whose rows may lie in a memory-mapped file."""

    def __post_init__(self) -> None:
        require(
            self.training.batch_size is not None,
            f"Client {self.name!r} is to read its rows batch by batch, but batch_size is None: the full batch.",
            "Set batch_size, such as Training(batch_size=256, local_epochs=1).",
        )

    def fit(self, params: Params, multiplier: Array, *, round: int, rule: LocalRule) -> Params:
        key = jax.random.fold_in(client_keys(self.key, [self.name])[0], round)
        table = np.asarray(_table(self.training.local_work, key, self.rows))
        local, updates = params, []
        for steps in self._parts(table, whole=rule.local_momentum is not None):
            moved = _walk(self.model, params, local, multiplier, self._read(steps), self.training.step, rule)
            updates.append(moved)
            local = jax.tree.map(jnp.subtract, local, moved)
        return updates[0] if len(updates) == 1 else jax.tree.map(jnp.subtract, params, local)

    def loss(self, params: Params, split: SplitName) -> float:
        return sum(float(_loss(self.model, params, *rows)) for rows in self._blocks(self.client.split(split)))

    def accuracy(self, params: Params, split: SplitName) -> float:
        return sum(float(_accuracy(self.model, params, *rows)) for rows in self._blocks(self.client.split(split)))

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.training.precision)

    @property
    def _rows_at_once(self) -> int:
        return max(1, BLOCK_BYTES // (self._dtype.itemsize * int(np.prod(self.client.train.kept.shape[1:]))))

    def _parts(self, table: np.ndarray, *, whole: bool) -> Iterator[np.ndarray]:
        """The steps of a round [step, batch], in parts whose rows fit into memory; momentum must not be cut."""
        at_once = len(table) if whole else min(len(table), max(1, self._rows_at_once // table.shape[1]))
        for first in range(0, len(table), at_once):
            part = table[first : first + at_once]
            yield np.pad(part, ((0, at_once - len(part)), (0, 0)), constant_values=-1)  # one program for all parts

    def _read(self, steps: np.ndarray) -> Read:
        there = steps >= 0
        rows = np.where(there, steps, steps[0, 0]).ravel()
        places = np.where(there, np.arange(steps.size).reshape(steps.shape), -1)
        taken = jnp.asarray(there.any(axis=1).sum(), jnp.int32)
        return *self._arrays(self.client.train.loaded(rows)), jnp.asarray(places, jnp.int32), taken

    def _blocks(self, split: Split) -> Iterator[Batch]:
        """All rows in blocks of one size, and how much each counts; the last block repeats its last row for nothing."""
        count, at_once = len(split), min(len(split), self._rows_at_once)
        for first in range(0, count, at_once):
            number = np.arange(first, first + at_once)
            x, y = self._arrays(split.loaded(np.minimum(number, count - 1)))
            yield x, y, jnp.asarray((number < count) / count, self._dtype)

    def _arrays(self, rows: Split) -> tuple[Array, Array]:
        target = jnp.int32 if np.issubdtype(rows.y.dtype, np.integer) else self._dtype
        return jnp.asarray(rows.x, self._dtype), jnp.asarray(rows.y, target)


@partial(jax.jit, static_argnums=(0, 2))
def _table(work: LocalWork, key: Array, rows: int) -> Array:
    return work.batches(key, rows, (rows,))


@partial(jax.jit, static_argnums=0)
def _walk(
    model: Model,
    start: Params,
    params: Params,
    multiplier: Array,
    read: Read,
    step_size: float,
    rule: LocalRule,
) -> Params:
    """The update of some steps of a round that began at `start` and has come to `params`."""
    x, y, places, steps = read
    rows = OwnRows(x, y, first=0, count=len(y), tile=None)

    def slope(params: Params, step: Array) -> Params:
        loss, gradient = jax.value_and_grad(model.batch_loss)(params, *rows.picked(places[step]))
        return steered(rule, loss, gradient, params, start)

    return local_update(slope, params, multiplier, step_size=step_size, steps=steps, momentum=rule.local_momentum)


@partial(jax.jit, static_argnums=0)
def _loss(model: Model, params: Params, x: Array, y: Array, share: Array) -> Array:
    return model.batch_loss(params, x, y, share)


@partial(jax.jit, static_argnums=0)
def _accuracy(model: Model, params: Params, x: Array, y: Array, share: Array) -> Array:
    return share @ model.hits(params, x, y).astype(share.dtype)


@dataclass
class Book:
    """The losses of the model that was looked at last: a line of the history and the round after it share them."""

    params: Params = None
    losses: dict[tuple[str, SplitName], float] = field(default_factory=dict)

    def loss(self, learner: Learner, params: Params, split: SplitName) -> float:
        if params is not self.params:
            self.params, self.losses = params, {}
        place = learner.name, split
        if place not in self.losses:
            self.losses[place] = learner.loss(params, split)
        return self.losses[place]


@dataclass(frozen=True)
class StreamingClients(SequentialClients):
    """As `SequentialClients`, but what is not needed is not measured: it is NaN."""

    needs: frozenset[Measurement]
    book: Book

    @property
    def everyone(self) -> Self:
        return replace(self, who=None, needs=EVERYTHING)

    def measure(self, params: Params) -> Measured:
        wanted: set[SplitName] = {self.training.gap_split} if "gaps" in self.needs else set()
        wanted |= {"train"} if "loss_at_global" in self.needs else set()
        wanted |= {"train", "validation"} if self.needs is EVERYTHING else set()
        train, validation = (
            jnp.array([self.book.loss(each, params, split) if split in wanted else jnp.nan for each in self.answering])
            for split in ("train", "validation")
        )
        loss = validation if self.training.gap_split == "validation" else train
        solo_losses = self.solo_losses if self.who is None else self.solo_losses[self.who]
        return Measured(train, validation, loss - solo_losses, self.who)

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        learners, measured = self.answering, self.measure(params)
        multipliers = measured.own(jnp.broadcast_to(multipliers, (len(self.learners),)))
        updates = [
            learner.fit(params, multiplier, round=self.round, rule=rule)
            for learner, multiplier in zip(learners, multipliers, strict=True)
        ]
        return Replies(
            updates=StackedUpdates(jax.tree.map(lambda *each: jnp.stack(each), *updates)),
            measured=measured,
            rows=jnp.array([learner.rows for learner in learners]),
            steps=jnp.array([learner.steps for learner in learners]),
            step_size=jnp.asarray(self.training.step),
            loss_after=jnp.array([self._after(*each, params) for each in zip(learners, updates, strict=True)]),
        )

    def _after(self, learner: Learner, update: Params, params: Params) -> float:
        if "loss_after" not in self.needs:
            return float("nan")
        return learner.loss(jax.tree.map(jnp.subtract, params, update), "train")


@dataclass(frozen=True)
class StreamingStepper(SequentialStepper):
    """A run of clients whose rows lie in files, one round at a time."""

    book: Book = field(default_factory=Book)

    @classmethod
    def learner(cls, client: Client, model: Model, training: Training, key: Array) -> StreamingLearner:
        return StreamingLearner(client, model, training, key)

    def _clients(self, round: int) -> StreamingClients:
        participants = self.training.participants(len(self.learners))
        who = None if participants is None else drawn(self.keys, round, participants)
        needs = self.algorithm.needs
        return StreamingClients(self.learners, self.training, self.solo_losses, round, who, needs, self.book)
