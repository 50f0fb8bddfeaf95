"""FOCUS (Chu et al., 2023, arXiv 2207.10265): clusters of models by expectation maximisation."""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import SMALL, Algorithm, Clients, Glance, Measured, Params, State
from lossgap.algorithms.value import static, value
from lossgap.errors import require
from lossgap.models import Model


@value
class Focus(Algorithm):
    """Several models; each client mixes them by how well they explain its rows.

        E-step   π_km ∝ π_km exp(−L_k(θ_m))                       L_k the mean training loss, in log space
        M-step   θ_m ← Σ_k π_km θ_km / Σ_k π_km                   θ_km: client k's local work from θ_m
        serve    Σ_m π_km softmax(f(θ_m, x))                      to client k; Σ_m π_km f(θ_m, x) if targets are numbers

    Implemented from the paper's text. Its clusters start from different random models; here the first starts at the
    shared initialisation and the others at the same numbers in another order and with other signs, so that one cluster
    is FedAvg. The history follows the mixture's mean loss  Σ_m π_km L_k(θ_m).

    Args:
        clusters: how many models there are.
    """

    clusters: int = static(default=2)

    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.clusters >= 1, f"Focus: clusters is {self.clusters}.", "Use a whole number of at least 1.")

    def init(self, params: Params, clients: int) -> State:
        models = [params, *(_shuffled(params, jax.random.key(m)) for m in range(1, self.clusters))]
        stacked = jax.tree.map(lambda *each: jnp.stack(each), *models)
        return stacked, jnp.full((clients, self.clusters), -jnp.log(self.clusters))

    def round(self, params: Params, state: State, clients: Clients) -> tuple[Params, State, Glance]:
        models, log_mixture = state
        replies = [clients.train(model, jnp.ones(()), self) for model in _unstacked(models)]
        said = replies[0].measured
        losses = jnp.stack([reply.loss_at_global for reply in replies], axis=1)
        before = said.own(log_mixture)
        own = jax.nn.log_softmax(before - losses, axis=1)
        log_mixture, mixture = said.filed(log_mixture, own), jnp.exp(own)
        shares = mixture / jnp.maximum(mixture.sum(axis=0), SMALL)
        moved = [
            jax.tree.map(jnp.subtract, model, reply.updates.combine(share))
            for model, reply, share in zip(_unstacked(models), replies, shares.T, strict=True)
        ]
        glance = self._mixed([reply.measured for reply in replies], jnp.exp(before))  # what clients were served so far
        return moved[0], (_stacked(moved), log_mixture), glance

    def glance(self, params: Params, state: State, clients: Clients) -> Glance:
        models, log_mixture = state
        everyone = clients.everyone
        return self._mixed([everyone.measure(model) for model in _unstacked(models)], jnp.exp(log_mixture))

    def evaluated(self, params: Params, state: State) -> Params:
        models, log_mixture = state
        every = jax.tree.map(lambda m: jnp.broadcast_to(m, (len(log_mixture), *m.shape)), models)
        return {"models": every, "log_mixture": log_mixture}

    def served(self, model: Model) -> Model:
        return _mixture_of(model)

    def _mixed(self, measured: list[Measured], mixture: Array) -> Glance:
        losses = [replace(each, who=None) for each in measured]
        mean = jax.tree.map(lambda *each: (jnp.stack(each, axis=1) * mixture).sum(axis=1), *losses)
        return Glance.of(replace(mean, who=measured[0].who), jnp.ones(()))


def _mixture_of(model: Model) -> Model:
    """The network that answers Σ_m π_m softmax(f(θ_m, x)), as log probabilities; of one output, the mean."""

    def init(key: Array, x: Array, outputs: int) -> Params:
        raise TypeError("A mixture is made of trained models.")

    def apply(params: Any, x: Array) -> Array:
        logits = jax.vmap(model.apply, (0, None))(params["models"], x)
        if logits.shape[-1] == 1:  # a number, not a class
            return jnp.tensordot(jnp.exp(params["log_mixture"]), logits, axes=1)
        weighted = jax.nn.log_softmax(logits, axis=-1) + params["log_mixture"][:, None, None]
        return jax.nn.logsumexp(weighted, axis=0)

    return Model(init, apply, loss=model.loss, name=f"mixture of {model.name}", rows_at_once=model.rows_at_once)


def _shuffled(params: Params, key: Array) -> Params:
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    shuffled = [_turned(k, leaf.reshape(-1)).reshape(leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, shuffled)


def _turned(key: Array, numbers: Array) -> Array:
    order, signs = jax.random.split(key)
    return jax.random.permutation(order, numbers) * jax.random.rademacher(signs, numbers.shape, numbers.dtype)


def _stacked(models: list[Params]) -> Params:
    return jax.tree.map(lambda *each: jnp.stack(each), *models)


def _unstacked(models: Params) -> list[Params]:
    count = len(jax.tree.leaves(models)[0])
    return [jax.tree.map(lambda a, m=m: a[m], models) for m in range(count)]
