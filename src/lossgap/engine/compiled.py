"""The compiled run: rounds inside one program, with clients inside each round.

The number of rounds, the step size and a method's numbers are inputs of the program, not part of it: one compilation
serves them all. `engine.sequential` is the plain twin that tests compare this with.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from lossgap.algorithms.base import Algorithm, Glance, Params
from lossgap.engine.clients import CompiledClients, LocalClients, OneStepClients
from lossgap.engine.columns import Columns
from lossgap.engine.devices import compiler_options, everywhere
from lossgap.engine.problem import problem_of
from lossgap.engine.run import Carry
from lossgap.federation import Federation
from lossgap.models import Model
from lossgap.training import Training, client_keys

BUFFER = 2**16
"""Numbers of each kind that one segment of a run may note down before the host collects them."""


@dataclass(frozen=True)
class CompiledStepper:
    """A run of JAX clients, many rounds at a time."""

    algorithm: Algorithm
    clients: CompiledClients
    params: Params
    columns: Columns
    names: tuple[str, ...]
    every: int
    most_lines: int

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
        work = training.local_work
        together = work.one_full_step and "updates" not in algorithm.needs
        kind = OneStepClients if together else LocalClients
        # Personal models come in an arrangement of their own, which `widen` does not know.
        columns = Columns(None, None) if algorithm.personal else Columns.of(federation, model)
        problem = problem_of(
            federation,
            model,
            training,
            columns,
            params=sum(np.size(leaf) for leaf in jax.tree.leaves(params)),
            solo_losses=solo_losses,
            key=key,
            whole_clients=not together,
            spread_out=exchanges_in_order(algorithm),
        )
        lines = -(-training.rounds // training.record_every)
        return cls(
            algorithm,
            kind(
                problem,
                jnp.asarray(training.step, training.precision),
                0,
                model,
                work,
                training.participants(problem.clients),
                algorithm.needs,
            ),
            params,
            columns,
            federation.names,
            every=training.record_every,
            # A power of two, so that runs of nearly the same length share one program.
            most_lines=min(max(1, BUFFER // problem.clients), 1 << (lines - 1).bit_length()),
        )

    def again(self, algorithm: Algorithm, *, params: Params, solo_losses: np.ndarray, key: Array) -> Self:
        """Another run on the same rows with the same program: other numbers, another start."""
        problem, names = self.clients.problem, self.names
        solo = jnp.asarray(solo_losses, problem.solo_losses.dtype)
        problem = replace(problem, keys=client_keys(key, names), solo_losses=solo)
        return replace(self, algorithm=algorithm, clients=replace(self.clients, problem=problem), params=params)

    def start(self) -> Carry:
        params = self.columns.narrow(self.params)
        carry = params, self.algorithm.init(params, self.clients.problem.clients)
        return everywhere(carry, self.clients.problem.mesh)

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        problem = self.clients.problem
        walked = program(segment, problem.mesh, "room", "glance_each_round", small=problem.small)
        return walked(self.algorithm, self.clients, carry, first, rounds, **self.recording)

    def glance(self, carry: Carry, round: int) -> Glance:
        problem = self.clients.problem
        return program(glance, problem.mesh, small=problem.small)(self.algorithm, self.clients, carry, round)

    def finish(self, carry: Carry) -> Params:
        return self.columns.widen(self.algorithm.evaluated(*carry), self.params)

    @property
    def recording(self) -> dict[str, int | bool]:
        everyone_each_round = self.every == 1 and self.clients.participants is None
        return {"every": self.every, "room": self.most_lines, "glance_each_round": everyone_each_round}


def segment(
    algorithm: Algorithm,
    clients: CompiledClients,
    carry: Carry,
    first: int,
    rounds: int,
    *,
    every: int,
    room: int,
    glance_each_round: bool,
) -> tuple[Carry, Glance]:
    """Some rounds, and a glance [line, client] at every `every`-th of them."""

    def one_round(t: Array, carry: Carry) -> tuple[Carry, Glance]:
        params, state, glance = algorithm.round(*carry, replace(clients, round=t))
        return (params, state), glance

    def one_line(i: Array, walk: tuple[Carry, Glance]) -> tuple[Carry, Glance]:
        carry, book = walk
        t = first + i * every
        if glance_each_round:  # what a round measures anyhow costs nothing to note down
            carry, glance = one_round(t, carry)
        else:
            glance = algorithm.glance(*carry, replace(clients, round=t))
            carry = clients.once_done(glance, carry)
            end = jnp.minimum(t + every, first + rounds)
            carry = jax.lax.fori_loop(t, end, lambda t, carry: one_round(t, carry)[0], carry)
        return carry, jax.tree.map(lambda lines, line: lines.at[i].set(line), book, glance)

    line = jax.eval_shape(lambda: algorithm.glance(*carry, clients))
    book = jax.tree.map(lambda a: jnp.zeros((room, *a.shape), a.dtype), line)
    return jax.lax.fori_loop(0, -(-rounds // every), one_line, (carry, book))


def glance(algorithm: Algorithm, clients: CompiledClients, carry: Carry, round: int) -> Glance:
    """What this round would see."""
    return algorithm.glance(*carry, replace(clients, round=round))


def exchanges_in_order(algorithm: Algorithm) -> bool:
    """Whether each thing that a round exchanges needs the one before, so that devices cannot wait for each other."""
    return type(algorithm).round is Algorithm.round and not algorithm.looks_first


@cache
def program(function: Callable[..., Any], mesh: Mesh | None, *static: str, small: bool = False) -> Callable[..., Any]:
    """A function compiled for these devices, and for rounds of this size."""
    return jax.jit(function, static_argnames=static, compiler_options=compiler_options(mesh, small=small))
