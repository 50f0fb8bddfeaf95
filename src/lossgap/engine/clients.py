"""The clients of one compiled round, in two kinds that answer alike.

`OneStepClients` take one full-batch step from the same θ, so that all of them together cost one forward and one
backward product. `LocalClients` hold parameters of their own for several steps or for minibatches.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from lossgap.algorithms.base import LocalRule, Measured, Measurement, Params, Replies, Updates
from lossgap.engine.devices import AXIS, EVERYWHERE, HERE
from lossgap.engine.local import OwnRows, own_loss, own_update
from lossgap.engine.problem import Problem, Shards, client_losses
from lossgap.engine.updates import UNDECLARED, SharedGradient, StackedUpdates
from lossgap.models import Model
from lossgap.training import LocalWork, drawn


@dataclass(frozen=True)
class CompiledClients(ABC):
    """What both kinds share: how a θ is measured, and the form of a reply."""

    problem: Problem
    step_size: Array
    round: Array | int  # its number
    model: Model = field(metadata={"static": True})
    work: LocalWork = field(metadata={"static": True})
    participants: int | None = field(metadata={"static": True})  # how many answer each round; None: everybody
    needs: frozenset[Measurement] = field(metadata={"static": True})  # what the method looks at

    @property
    def everyone(self) -> Self:
        return replace(self, participants=None)

    @property
    def who(self) -> Array | None:
        """Those who answer this round. The others' work is computed as well and left aside: shapes stay the same."""
        return None if self.participants is None else drawn(self.problem.keys, self.round, self.participants)

    @abstractmethod
    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies: ...

    @abstractmethod
    def walk(self, starts: Params, rule: LocalRule) -> Params: ...

    def measure(self, params: Params) -> Measured:
        return self._measured(params, self._losses(params, self.problem.train))

    def _losses(self, params: Params, shards: Shards) -> Array:
        return client_losses(self.model, params, shards, self.problem.clients, self.problem.mesh)

    def once_done(self, first: Any, second: Any) -> Any:
        """`second`, but not before `first` is there: devices that exchange two things at once may do so in different
        orders, and then wait for each other for ever."""
        if self.problem.mesh is None:
            return second
        return jax.lax.optimization_barrier((second, first))[0]  # type: ignore[no-untyped-call]

    def _measured(self, params: Params, loss_at_global: Array) -> Measured:
        problem = self.problem
        validation = self._losses(self.once_done(loss_at_global, params), problem.validation)
        loss = validation if problem.gap_split == "validation" else loss_at_global
        everyone = Measured(loss_at_global, validation, loss - problem.solo_losses)
        who = self.who
        return everyone if who is None else replace(jax.tree.map(lambda a: a[who], everyone), who=who)

    def _replies(self, updates: Updates, measured: Measured, loss_after: Array) -> Replies:
        rows = measured.own(self.problem.rows)
        steps = jnp.broadcast_to(self.work.steps(rows), rows.shape)
        return Replies(updates, measured, rows, steps, self.step_size, measured.own(loss_after))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneStepClients(CompiledClients):
    """One full-batch step from one θ, all clients at once."""

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        problem = self.problem

        def losses(p: Params) -> tuple[Array, Array]:
            plain = self._losses(p, problem.train)
            return jax.vmap(lambda loss: rule.local_loss(loss, p, params))(plain), plain

        _, pull_back, plain = jax.vjp(losses, params, has_aux=True)
        scales = jnp.broadcast_to(self.step_size * multipliers, plain.shape)
        # Multipliers that are constants would be folded into other sums than those that a method computes. With the
        # barrier both take the same way, and λ = 0 is FedAvg to the last bit.
        scales, plain = jax.lax.optimization_barrier((scales, plain))  # type: ignore[no-untyped-call]
        measured = self._measured(params, plain)
        scales = self.once_done(measured.validation_loss, scales)

        def pulled_back(c: Array) -> Params:
            return pull_back(measured.filed(jnp.zeros_like(plain), c.astype(plain.dtype)))[0]

        updates = SharedGradient(pulled_back, measured.own(scales))
        return self._replies(updates, measured, jnp.full_like(plain, jnp.nan))

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        raise TypeError(UNDECLARED)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LocalClients(CompiledClients):
    """Any local work: each device walks through its clients, one after another."""

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        multipliers = jnp.broadcast_to(multipliers, (self.problem.clients,))

        def update(k: Array, rows: OwnRows) -> tuple[Params, Array]:
            moved = self._moved(params, multipliers[k], k, rows, rule)
            if "loss_after" not in self.needs:  # which would cost one more pass through all rows
                return moved, jnp.full((), jnp.nan, multipliers.dtype)
            return moved, own_loss(self.model, jax.tree.map(jnp.subtract, params, moved), rows)

        stacked, loss_after = self._each(update)
        measured = self.measure(self.once_done(stacked, params))
        return self._replies(StackedUpdates(jax.tree.map(measured.own, stacked)), measured, loss_after)

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        def arrive(k: Array, rows: OwnRows) -> Params:
            start = jax.tree.map(lambda a: a[k], starts)
            moved = self._moved(start, jnp.ones((), self.step_size.dtype), k, rows, rule)
            return jax.tree.map(jnp.subtract, start, moved)

        arrived, who = self._each(arrive), self.who
        return arrived if who is None else jax.tree.map(lambda start, end: start.at[who].set(end[who]), starts, arrived)

    def _each(self, function: Callable[[Array, OwnRows], Any]) -> Any:
        """`function(client, its rows)` for every client, stacked in client order."""
        mesh, place = self.problem.mesh, self.problem.place

        def on_device(shards: Shards) -> Any:
            x, y = shards.x[0], shards.y[0]

            def one(slot: tuple[Array, Array, Array]) -> Any:
                owner, first, count = slot
                return function(owner, OwnRows(x, y, first, count, self.problem.tile))

            return jax.lax.map(one, (shards.owner[0], shards.first[0], shards.count[0]))

        def exchanged(shards: Shards) -> Any:
            by_slot = on_device(shards)
            flat, unravel = ravel_pytree(by_slot)  # one exchange for all of them
            everyone = jax.lax.all_gather(flat, AXIS)
            return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[place], jax.vmap(unravel)(everyone))

        if mesh is None:  # whose slots are in client order already
            return on_device(self.problem.train)
        everywhere = jax.shard_map(exchanged, mesh=mesh, in_specs=HERE, out_specs=EVERYWHERE, check_vma=False)
        return everywhere(self.problem.train)

    def _moved(self, start: Params, multiplier: Array, k: Array, rows: OwnRows, rule: LocalRule) -> Params:
        return own_update(
            self.model,
            rule,
            self.work,
            start,
            multiplier,
            rows,
            step_size=self.step_size,
            steps=jnp.where(rows.count > 0, self.work.steps(rows.count), 0),
            key=jax.random.fold_in(self.problem.keys[k], self.round),
        )
