"""Several runs on one federation in one pass: a λ path, or several initialisations.

Runs of one method share the rows, so their parameters stand side by side as columns of one wider product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from lossgap.algorithms.base import Algorithm, Glance, Params
from lossgap.engine.clients import CompiledClients
from lossgap.engine.compiled import BUFFER, CompiledStepper, glance, segment
from lossgap.engine.run import Carry


@dataclass(frozen=True)
class LaneStepper:
    """Steppers of one method on one federation, walked together. Their clients count as lanes × clients."""

    steppers: tuple[CompiledStepper, ...]
    algorithms: Algorithm  # [lane, ...]
    clients: CompiledClients  # one lane's, but for what differs between lanes: [lane, ...]

    @classmethod
    def of(cls, steppers: Sequence[CompiledStepper]) -> "LaneStepper":
        first = steppers[0].clients
        problem = replace(
            first.problem,
            keys=jnp.stack([stepper.clients.problem.keys for stepper in steppers]),
            solo_losses=jnp.stack([stepper.clients.problem.solo_losses for stepper in steppers]),
        )
        algorithms = _stacked([stepper.algorithm for stepper in steppers])
        return cls(tuple(steppers), algorithms, replace(first, problem=problem))

    @property
    def most_lines(self) -> int:
        return min(self.steppers[0].most_lines, max(1, BUFFER // (len(self.steppers) * self._clients)))

    def start(self) -> Carry:
        return _stacked([stepper.start() for stepper in self.steppers])

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        recording = self.steppers[0].recording | {"room": self.most_lines}
        carry, lines = _segments(self.algorithms, self.clients, carry, first, rounds, **recording)
        return carry, jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1), lines)

    def glance(self, carry: Carry, round: int) -> Glance:
        return jax.tree.map(lambda a: a.reshape(-1), _glances(self.algorithms, self.clients, carry, round))

    def finish(self, carry: Carry) -> Params:
        """The parameters of every lane, as a tuple."""
        return tuple(stepper.finish(_lane(carry, i)) for i, stepper in enumerate(self.steppers))

    @property
    def _clients(self) -> int:
        return self.steppers[0].clients.problem.clients


def _axes(clients: CompiledClients) -> CompiledClients:
    """Which arrays of the clients differ between lanes."""
    same: Any = jax.tree.map(lambda _: None, clients)
    return replace(same, problem=replace(same.problem, keys=0, solo_losses=0))


@partial(jax.jit, static_argnames=("room", "glance_each_round"))
def _segments(
    algorithms: Algorithm, clients: CompiledClients, carry: Carry, first: int, rounds: int, **recording: Any
) -> tuple[Carry, Glance]:
    def one(algorithm: Algorithm, clients: CompiledClients, carry: Carry) -> tuple[Carry, Glance]:
        return segment(algorithm, clients, carry, first, rounds, **recording)

    return jax.vmap(one, in_axes=(0, _axes(clients), 0))(algorithms, clients, carry)


@jax.jit
def _glances(algorithms: Algorithm, clients: CompiledClients, carry: Carry, round: int) -> Glance:
    return jax.vmap(glance, in_axes=(0, _axes(clients), 0, None))(algorithms, clients, carry, round)


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *each: jnp.stack([jnp.asarray(a) for a in each]), *trees)


def _lane(tree: Any, lane: int) -> Any:
    return jax.tree.map(lambda a: a[lane], tree)
