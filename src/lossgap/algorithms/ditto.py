"""Ditto (Li, Hu, Beirami and Smith, ICML 2021): a model for each client, held near the shared one."""

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, Clients, Glance, Measurement, Params, State
from lossgap.algorithms.fedavg import FedAvg
from lossgap.algorithms.proximal import pulled
from lossgap.algorithms.value import value
from lossgap.errors import require


@value
class PullTo:
    """Steps on  F_k(v) + ω/2 ‖v − anchor‖²."""

    pull: Array | float
    anchor: Params

    def local_loss(self, loss: Array, params: Params, start: Params) -> Array:
        return pulled(loss, params, self.anchor, self.pull)

    @property
    def local_momentum(self) -> None:
        return None


@value
class Ditto(Algorithm):
    """A personal model beside the shared one, which any other method trains.

        v_k ← v_k − η (∇F_k(v_k) + ω (v_k − θ))         θ at the start of the round

    Clients are served v_k; the history follows the shared model.

    Args:
        base: what trains the shared model.
        pull: ω. Zero is training alone.
    """

    base: Algorithm = FedAvg()
    pull: float = 0.1

    # Personal models count as single updates; the rest is what any base may ask for.
    needs: ClassVar[frozenset[Measurement]] = frozenset({"updates", "loss_at_global", "gaps", "loss_after"})
    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.pull >= 0, f"Ditto: pull is {self.pull}, which would push models apart.", "Use a number ≥ 0.")
        require(
            not self.base.personal,
            f"Ditto: its base {self.base} is personal already.",
            "Use a base that trains one shared model.",
        )

    @property
    def needs_everyone(self) -> bool:
        return self.base.needs_everyone

    def remarks(self, rounds: np.ndarray, gaps: np.ndarray) -> tuple[str, ...]:
        return self.base.remarks(rounds, gaps)

    def init(self, params: Params, clients: int) -> State:
        personal = jax.tree.map(lambda p: jnp.broadcast_to(p, (clients, *jnp.shape(p))), params)
        return self.base.init(params, clients), personal

    def round(self, params: Params, state: State, clients: Clients) -> tuple[Params, State, Glance]:
        base, personal = state
        walked = clients.walk(personal, PullTo(pull=self.pull, anchor=params))
        params, base, glance = self.base.round(params, base, clients)
        return params, (base, walked), _watched(glance, personal)

    def glance(self, params: Params, state: State, clients: Clients) -> Glance:
        return _watched(self.base.glance(params, state[0], clients), state[1])

    def evaluated(self, params: Params, state: State) -> Params:
        return state[1]


def _watched(glance: Glance, personal: Params) -> Glance:
    """The shared model's losses, but NaN for a client whose own model has left every bound: that ends the run."""
    finite = [jnp.isfinite(p).reshape(len(p), -1).all(axis=1) for p in jax.tree.leaves(personal)]
    kept = glance.measured.own(jnp.stack(finite).all(axis=0))
    loss = jnp.where(kept, glance.measured.loss_at_global, jnp.nan)
    return replace(glance, measured=replace(glance.measured, loss_at_global=loss))
