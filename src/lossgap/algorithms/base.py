"""What every method is made of: a value of pure functions that one round walks through.

A round is a straight line, the same in the compiled engine, in its plain twin and across real sites:

    multipliers   = algorithm.multipliers(state)                    # [client], scales local gradients
    replies       = clients.train(params, multipliers, algorithm)   # updates and a few scalars per client
    params, state = algorithm.server_step(params, state, replies)   # the paper's formula, written once

Most methods implement `weights` only: a pure function from a few scalars per client to aggregation weights.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.value import value
from lossgap.models import Model

Params = Any
"""A pytree of arrays: the parameters of one network."""

State = Any
"""A pytree that a method carries from round to round."""

SMALL = 1e-30
"""Keeps 0/0 at 0, in single precision as well."""

Measurement = Literal["loss_at_global", "gaps", "updates", "loss_after"]


class Updates(Protocol):
    """The updates Δ_k = θ − θ_k of those who answered, held in whichever form their engine computes fastest.

    A method that looks at single updates, or lets clients keep models of their own, lists "updates" in its `needs`.
    """

    def combine(self, weights: Array) -> Params:
        """Σ_k weights_k Δ_k. Never renormalised: methods whose weights do not sum to one mean it."""
        ...

    def inner_products(self) -> Array:
        """⟨Δ_k, Δ_j⟩, [answer, answer]."""
        ...

    def squared_norms(self) -> Array:
        """‖Δ_k‖², [answer]."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Measured:
    """What those clients who answered say of one model before they train on it, each [answer]."""

    loss_at_global: Array  # F_k(θ), on training rows
    validation_loss: Array
    gaps: Array  # r_k(θ)
    who: Array | None = None  # [answer] their numbers in ascending order; None: everybody answered

    def own(self, per_client: Array) -> Array:
        """From a record of all clients [client, ...], what belongs to those who answered."""
        return per_client if self.who is None else per_client[self.who]

    def filed(self, record: Array, news: Array) -> Array:
        """A record of all clients [client, ...], with the news [answer, ...] of those who answered."""
        return news if self.who is None else record.at[self.who].set(news)


@dataclass(frozen=True)
class Replies:
    """What comes back in one round from the clients who answered."""

    updates: Updates
    measured: Measured  # at θ, before local work
    rows: Array  # [answer] training rows
    steps: Array  # [answer] local steps taken
    step_size: Array
    loss_after: Array  # [answer] training loss of θ_k, after local work

    @property
    def loss_at_global(self) -> Array:
        return self.measured.loss_at_global

    @property
    def gaps(self) -> Array:
        return self.measured.gaps

    @property
    def answers(self) -> int:
        return self.rows.shape[0]


class LocalRule(Protocol):
    """What a method changes about the steps that a client takes."""

    def local_loss(self, loss: Array, params: Params, start: Params) -> Array:
        """What the client's steps go down on, given its batch's loss at `params` and where its round began."""
        ...

    @property
    def local_momentum(self) -> Array | float | None:
        """ρ of heavy-ball steps, v ← ρ v + ∇ and θ_k ← θ_k − η v; None for plain ones."""
        ...


class Clients(Protocol):
    """The parties of one round, wherever they run. Some of them may not answer, all round long."""

    @property
    def everyone(self) -> Self:
        """The same parties, all of them answering: what a simulation may look at for its records."""
        ...

    def measure(self, params: Params) -> Measured:
        """Losses and gaps of one model."""
        ...

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        """A round of local work from one θ, every gradient scaled by its client's multiplier, [client] or one."""
        ...

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        """A round of local work from a start of each client's own, [client, ...]; where each arrives or stays."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Glance:
    """What a round saw at the θ it started from: a line of the history."""

    measured: Measured
    multipliers: Array  # [answer]

    @classmethod
    def of(cls, measured: Measured, multipliers: Array) -> Self:
        own = measured.own(multipliers) if multipliers.ndim else multipliers
        return cls(measured, jnp.broadcast_to(own, measured.gaps.shape))


@value
class Algorithm:
    """A method: what the server does with what the clients say. Subclasses are values, see `value`."""

    needs: ClassVar[frozenset[Measurement]] = frozenset()
    """What the method reads of the replies; clients need not compute anything else."""

    personal: ClassVar[bool] = False
    """Whether each client ends with a model of its own."""

    def __str__(self) -> str:
        """The method and what differs from its defaults, as a legend would name it."""
        changed = [
            f"{f.name}={_shown(getattr(self, f.name))}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})" if changed else type(self).__name__

    @property
    def looks_first(self) -> bool:
        """Whether clients are asked for their measurements at θ before they train (one more exchange of scalars)."""
        return False

    @property
    def needs_everyone(self) -> bool:
        """Whether every client has to answer in each round."""
        return False

    def init(self, params: Params, clients: int) -> State:
        return ()

    def observe(self, state: State, measured: Measured) -> State:
        """Take note of what clients measured at the current θ."""
        return state

    def multipliers(self, state: State) -> Array:
        """What scales each client's gradients this round: [client], or one number for all."""
        return jnp.ones(())

    def local_loss(self, loss: Array, params: Params, start: Params) -> Array:
        return loss

    @property
    def local_momentum(self) -> Array | float | None:
        return None

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        """Aggregation weights, [answer], and the next state."""
        raise TypeError(f"{type(self).__name__} must define `weights` or override `server_step`.")

    def server_step(self, params: Params, state: State, replies: Replies) -> tuple[Params, State]:
        """θ ← θ − Σ_k weights_k Δ_k."""
        weights, state = self.weights(state, replies)
        return jax.tree.map(jnp.subtract, params, replies.updates.combine(weights)), state

    def round(self, params: Params, state: State, clients: Clients) -> tuple[Params, State, Glance]:
        """One round, wherever the clients are."""
        if self.looks_first:
            state = self.observe(state, clients.measure(params))
        multipliers = self.multipliers(state)
        replies = clients.train(params, multipliers, self)
        return *self.server_step(params, state, replies), Glance.of(replies.measured, multipliers)

    def glance(self, params: Params, state: State, clients: Clients) -> Glance:
        """What the next round would see, without taking it."""
        if self.looks_first:
            state = self.observe(state, clients.measure(params))
        return Glance.of(clients.everyone.measure(params), self.multipliers(state))

    def evaluated(self, params: Params, state: State) -> Params:
        """The parameters to use once training has ended; [client, ...] if `personal`."""
        return params

    def remarks(self, rounds: np.ndarray, gaps: np.ndarray) -> tuple[str, ...]:
        """What a user should know of how a run went, given the gaps [line, client] at some rounds [line]."""
        return ()

    def served(self, model: Model) -> Model:
        """The network that those parameters belong to."""
        return model


def _shown(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def uniform_weights(replies: Replies) -> Array:
    """1/K each: every client that answered counts the same, however many rows it holds."""
    return jnp.full(replies.answers, 1 / replies.answers)
