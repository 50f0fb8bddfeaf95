"""A variational autoencoder (Kingma & Welling 2014) of MNIST's digits: images become points that can be mixed."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.datasets.ambiguous import adam
from lossgap.datasets.ambiguous.adam import Adam
from lossgap.datasets.ambiguous.pixels import pixels, shuffled, whitened
from lossgap.datasets.ambiguous.recipe import PIXELS, Recipe
from lossgap.models import mlp

Params = Any


class Training(NamedTuple):
    """An autoencoder on its way, and the mean loss of the last epoch."""

    adam: Adam
    loss: Array


def start(recipe: Recipe, key: Array) -> Training:
    """An untrained autoencoder."""
    first, second = jax.random.split(key)
    encoder = mlp(recipe.hidden).init(first, jnp.zeros((1, PIXELS)), 2 * recipe.latent)
    decoder = mlp(recipe.hidden[::-1]).init(second, jnp.zeros((1, recipe.latent)), PIXELS)
    return Training(adam.start({"encoder": encoder, "decoder": decoder}), jnp.array(jnp.inf))


def encode(params: Params, x: Array) -> tuple[Array, Array]:
    """Mean and log variance [rows, latent] of where images [rows, pixels] lie."""
    mean, log_variance = jnp.split(mlp().apply(params["encoder"], whitened(x)), 2, axis=1)
    return mean, log_variance


def decode(params: Params, points: Array) -> Array:
    """Images [rows, pixels] for points [rows, latent]."""
    return jax.nn.sigmoid(mlp().apply(params["decoder"], points))


def loss(params: Params, x: Array, noise: Array) -> Array:
    """−Σ x log x̂ + (1 − x) log(1 − x̂)  −  ½ Σ 1 + log σ² − μ² − σ²  of each image, x̂ decoded from μ + σ · noise."""
    mean, log_variance = encode(params, x)
    logits = mlp().apply(params["decoder"], mean + jnp.exp(log_variance / 2) * noise)
    cross_entropy = jnp.sum(jax.nn.softplus(logits) - x * logits, axis=1)
    divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), axis=1)
    return cross_entropy + divergence


def step_size(recipe: Recipe, epoch: int) -> float:
    """η in epoch 0, 1, …"""
    return recipe.step_size * recipe.drop ** sum(epoch >= drop for drop in recipe.drops)


@partial(jax.jit, static_argnames="batch")
def epoch(state: Training, images: Array, key: Array, step_size: float, *, batch: int) -> Training:
    """One pass over the images."""
    order, noises = jax.random.split(key)
    batches = shuffled(order, len(images), batch)
    latent = state.adam.params["decoder"][0]["kernel"].shape[0]

    def one(state: Adam, at: tuple[Array, Array]) -> tuple[Adam, Array]:
        rows, key = at
        x, noise = pixels(images[rows]), jax.random.normal(key, (batch, latent))
        total, gradient = jax.value_and_grad(lambda params: loss(params, x, noise).sum())(state.params)
        return adam.step(state, gradient, step_size), total / batch

    moved, losses = jax.lax.scan(one, state.adam, (batches, jax.random.split(noises, len(batches))))
    return Training(moved, losses.mean())
