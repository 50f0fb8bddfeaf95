"""The clients of one compiled round, in two kinds that answer alike.

`OneStepClients` take one full-batch step from the same θ, so that all of them together cost one forward and one
backward product. `LocalClients` hold parameters of their own for several steps or for minibatches.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Measured, Params, Replies, Updates
from lossgap.engine.problem import Problem, Rows, client_losses
from lossgap.engine.updates import SharedGradient, StackedUpdates
from lossgap.models import Model
from lossgap.training import LocalWork, local_update


@dataclass(frozen=True)
class CompiledClients(ABC):
    """What both kinds share: how a θ is measured, and the form of a reply."""

    problem: Problem
    step_size: Array
    round: Array | int  # its number
    model: Model = field(metadata={"static": True})
    work: LocalWork = field(metadata={"static": True})

    @abstractmethod
    def train(self, params: Params, multipliers: Array) -> Replies:
        """One round of local work from θ, every gradient scaled by its client's multiplier."""

    def measure(self, params: Params) -> Measured:
        return self._measured(params, client_losses(self.model, params, self.problem.train, self.problem.clients))

    def _measured(self, params: Params, loss_at_global: Array) -> Measured:
        problem = self.problem
        validation = client_losses(self.model, params, (problem.validation,), problem.clients)
        loss = validation if problem.gap_split == "validation" else loss_at_global
        return Measured(loss_at_global, validation, loss - problem.solo_losses)

    def _replies(self, updates: Updates, measured: Measured) -> Replies:
        rows = self.problem.rows
        return Replies(updates, measured, rows, jnp.broadcast_to(self.work.steps(rows), rows.shape), self.step_size)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneStepClients(CompiledClients):
    """One full-batch step from one θ, all clients at once."""

    def train(self, params: Params, multipliers: Array) -> Replies:
        problem = self.problem
        losses, pull_back = jax.vjp(lambda p: client_losses(self.model, p, problem.train, problem.clients), params)
        scales = jnp.broadcast_to(self.step_size * multipliers, losses.shape)
        updates = SharedGradient(lambda c: pull_back(c.astype(losses.dtype))[0], scales)
        return self._replies(updates, self._measured(params, losses))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LocalClients(CompiledClients):
    """Any local work: each client walks from θ by itself, in blocks of clients of similar size."""

    def train(self, params: Params, multipliers: Array) -> Replies:
        multipliers = jnp.broadcast_to(multipliers, (self.problem.clients,))
        per_block = [self._block_updates(block, params, multipliers) for block in self.problem.train]
        back = jnp.argsort(jnp.concatenate([block.client for block in self.problem.train]))
        stacked = jax.tree.map(lambda *blocks: jnp.concatenate(blocks)[back], *per_block)
        return self._replies(StackedUpdates(stacked), self.measure(params))

    def _block_updates(self, block: Rows, params: Params, multipliers: Array) -> Params:
        def update(k: Array, rows: tuple[Array, Array, Array]) -> Params:
            return local_update(
                self.model.batch_loss,
                params,
                multipliers[k],
                rows,
                step_size=self.step_size,
                steps=self.work.steps(1),
                batches=self._batches(k, block),
            )

        return jax.vmap(update)(block.client, (block.x, block.y, block.share))

    def _batches(self, k: Array, block: Rows) -> Array | None:
        if self.work.batch_size is None:
            return None
        key = jax.random.fold_in(self.problem.keys[k], self.round)
        return self.work.batches(key, self.problem.rows[k], block.sizes)
