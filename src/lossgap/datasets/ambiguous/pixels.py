"""Images on their way into a network."""

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.datasets.ambiguous.recipe import MNIST_DEVIATION, MNIST_MEAN

WHITE = 255


def pixels(kept: Array) -> Array:
    """Bytes as numbers from 0 to 1."""
    return kept.astype(jnp.float32) / WHITE


def whitened(x: Array) -> Array:
    """Pixels whose mean over MNIST is 0 and whose deviation is 1."""
    return (x - MNIST_MEAN) / MNIST_DEVIATION


def shuffled(key: Array, rows: int, batch: int) -> Array:
    """The row numbers of an epoch's batches, [step, batch]. Rows that do not fill a batch wait for the next epoch."""
    steps = rows // batch
    return jax.random.permutation(key, rows)[: steps * batch].reshape(steps, batch)
