"""Several runs on one federation in one pass: a λ path, or several initialisations.

Runs of one method share their rows and one compiled program, in which each lane takes its rounds in turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Glance, Params
from lossgap.engine.clients import CompiledClients
from lossgap.engine.compiled import BUFFER, CompiledStepper, glance, program, segment
from lossgap.engine.devices import everywhere
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
        return everywhere(_stacked([stepper.start() for stepper in self.steppers]), self.clients.problem.mesh)

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        recording = self.steppers[0].recording | {"room": self.most_lines}
        problem = self.clients.problem
        walked = program(segments, problem.mesh, "room", "glance_each_round", small=problem.small)
        carry, lines = walked(self.algorithms, self.clients, carry, first, rounds, **recording)
        return carry, jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1), lines)

    def glance(self, carry: Carry, round: int) -> Glance:
        problem = self.clients.problem
        lines = program(glances, problem.mesh, small=problem.small)(self.algorithms, self.clients, carry, round)
        return jax.tree.map(lambda a: a.reshape(-1), lines)

    def finish(self, carry: Carry) -> Params:
        """The parameters of every lane, as a tuple."""
        return tuple(stepper.finish(_lane(carry, i)) for i, stepper in enumerate(self.steppers))

    @property
    def _clients(self) -> int:
        return self.steppers[0].clients.problem.clients


def segments(
    algorithms: Algorithm, clients: CompiledClients, carry: Carry, first: int, rounds: int, **recording: Any
) -> tuple[Carry, Glance]:
    """`segment` for every lane."""

    def one(algorithm: Algorithm, clients: CompiledClients, carry: Carry) -> tuple[Carry, Glance]:
        return segment(algorithm, clients, carry, first, rounds, **recording)

    return _each_lane(one, algorithms, clients, carry)


def glances(algorithms: Algorithm, clients: CompiledClients, carry: Carry, round: int) -> Glance:
    """`glance` for every lane."""

    def one(algorithm: Algorithm, clients: CompiledClients, carry: Carry) -> Glance:
        return glance(algorithm, clients, carry, round)

    return _each_lane(one, algorithms, clients, carry)


def _each_lane(function: Callable[..., Any], algorithms: Algorithm, clients: CompiledClients, carry: Carry) -> Any:
    """One lane after another, each on all devices: side by side, they would cost more than one by one.

    Products gain nothing from being wider, and a small round runs as one piece only by itself.
    """
    problem = clients.problem

    def one(lane: tuple[Algorithm, Array, Array, Carry]) -> Any:
        algorithm, keys, solo_losses, carry = lane
        own = replace(clients, problem=replace(problem, keys=keys, solo_losses=solo_losses))
        return function(algorithm, own, carry)

    return jax.lax.map(one, (algorithms, problem.keys, problem.solo_losses, carry))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *each: jnp.stack([jnp.asarray(a) for a in each]), *trees)


def _lane(tree: Any, lane: int) -> Any:
    return jax.tree.map(lambda a: a[lane], tree)
