"""Mixtures of different digits between which the autoencoder draws, and what the ensemble makes of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.datasets.ambiguous import lenet
from lossgap.datasets.ambiguous.recipe import DIGITS, MNIST_DEVIATION, MNIST_MEAN, Recipe

Params = Any
FEWEST, MOST = 2, 4
"""Classes in a group."""

CONTRAST, DARKER = 1.20, 0.15
"""Ink is made blacker and paper whiter: an autoencoder leaves both grey."""


class Scale(NamedTuple):
    """Mean and deviation of the decoder's pixels, which are to become MNIST's."""

    mean: Array
    deviation: Array


class Judgement(NamedTuple):
    """What the ensemble says of images: how unsure it is, and how much of that is its networks' disagreement."""

    entropy: Array
    disagreement: Array


def points(means: Array, rows_of: Array, counts: Array, key: Array, *, mixtures: int) -> Array:
    """Random convex mixtures [mixtures, latent] of images of two to four classes, one image of each class.

    Args:
        means: where the training images lie, [rows, latent].
        rows_of: row numbers of each class, [digits, most rows of a class].
        counts: rows of each class, [digits].
        key: of this group.
        mixtures: how many.
    """
    how_many, which, images, shares = jax.random.split(key, 4)
    classes = jax.random.choice(which, DIGITS, (MOST,), replace=False)
    place = jnp.floor(jax.random.uniform(images, (MOST,)) * counts[classes]).astype(int)
    used = jnp.arange(MOST) < jax.random.randint(how_many, (), FEWEST, MOST + 1)
    # Exponential variates that are divided by their sum are uniform on the simplex.
    weights = jnp.where(used, jax.random.exponential(shares, (mixtures, MOST)), 0)
    return weights / weights.sum(axis=1, keepdims=True) @ means[rows_of[classes, place]]


def rescaled(x: Array, scale: Scale) -> Array:
    """clip(1.20 · z − 0.15, 0, 1), z being the decoder's pixels with MNIST's mean and deviation."""
    z = (x - scale.mean) / scale.deviation * MNIST_DEVIATION + MNIST_MEAN
    return jnp.clip(CONTRAST * z - DARKER, 0, 1)


def predicted(networks: list[Params], x: Array) -> Array:
    """Each network's class probabilities, [network, rows, digits]."""
    return jax.nn.softmax(jnp.stack([lenet.apply(network, x) for network in networks]))


def judged(probabilities: Array) -> Judgement:
    """H(p̄) and the mutual information  H(p̄) − mean_n H(p_n)  of class and network, p̄ the networks' mean."""
    entropy = _entropy(probabilities.mean(axis=0))
    return Judgement(entropy, entropy - _entropy(probabilities).mean(axis=0))


def kept(judgement: Judgement, recipe: Recipe) -> Array:
    """Whether a mixture is ambiguous in itself, [rows]: the networks are unsure, but agree."""
    low, high = recipe.entropies
    unsure = (low <= judgement.entropy) & (judgement.entropy < high)
    return unsure & (judgement.disagreement <= recipe.most_disagreement)


def _entropy(p: Array) -> Array:
    """−Σ p log p over the last axis, in nats."""
    return -jax.scipy.special.xlogy(p, p).sum(axis=-1)
