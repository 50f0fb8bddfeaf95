"""LeNet-5 (LeCun et al. 1998) with max pooling and ReLU: the networks whose disagreement is measured."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.datasets.ambiguous import adam
from lossgap.datasets.ambiguous.adam import Adam
from lossgap.datasets.ambiguous.pixels import pixels, shuffled, whitened
from lossgap.datasets.ambiguous.recipe import DIGITS, SIDE
from lossgap.models import cross_entropy, mlp

Params = Any
Rows = tuple[Array, Array]
"""Images as bytes [rows, pixels] and labels [rows]."""

KERNEL = 5
CHANNELS = 6, 16
HIDDEN = 120, 84

AT_ONCE = 500
"""Images per product when a network only answers: more fall out of the processor's cache."""


class Training(NamedTuple):
    """A network on its way, and the best that it has been."""

    adam: Adam
    best: Params
    best_loss: Array


def start(key: Array) -> Training:
    """An untrained network."""
    params = init(key)
    return Training(adam.start(params), params, jnp.array(jnp.inf))


def init(key: Array) -> Params:
    first, second, dense = jax.random.split(key, 3)
    side = (((SIDE - KERNEL + 1) // 2) - KERNEL + 1) // 2
    return {
        "first": _init_conv(first, 1, CHANNELS[0]),
        "second": _init_conv(second, *CHANNELS),
        "dense": mlp(HIDDEN).init(dense, jnp.zeros((1, side * side * CHANNELS[1])), DIGITS),
    }


def apply(params: Params, x: Array) -> Array:
    """Outputs [rows, digits] for images [rows, pixels]."""
    x = whitened(x).reshape(-1, SIDE, SIDE, 1)
    x = jax.nn.relu(_pool(conv(params["first"], x)))
    x = jax.nn.relu(_pool(conv(params["second"], x)))
    return mlp().apply(params["dense"], x)


def conv(params: Params, x: Array) -> Array:
    """A convolution without padding: x [rows, height, width, channels], kernel [height, width, inputs, outputs].

    Its kernel becomes a banded matrix that computes a whole line of the result from five lines of the image. Most of
    the matrix is zero, yet one wide product of five slices is faster than a narrow one of twenty-five.
    """
    height, width = x.shape[1] - KERNEL + 1, x.shape[2] - KERNEL + 1
    lines = x.reshape(*x.shape[:2], -1)
    slices = jnp.concatenate([lines[:, i : i + height] for i in range(KERNEL)], axis=-1)
    result = slices @ _banded(params["kernel"], x.shape[2])
    return result.reshape(-1, height, width, params["bias"].size) + params["bias"]


@partial(jax.jit, static_argnames="batch")
def epoch(state: Training, train: Rows, test: Rows, key: Array, step_size: float, *, batch: int) -> Training:
    """One pass over the training images; then the network is the best so far if its loss on the test images is."""
    images, labels = train

    def one(state: Adam, rows: Array) -> tuple[Adam, None]:
        gradient = jax.grad(_loss)(state.params, pixels(images[rows]), labels[rows])
        return adam.step(state, gradient, step_size), None

    moved, _ = jax.lax.scan(one, state.adam, shuffled(key, len(images), batch))
    loss = _test_loss(moved.params, *test)
    better = loss < state.best_loss
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), moved.params, state.best)
    return Training(moved, best, jnp.minimum(loss, state.best_loss))


def _loss(params: Params, x: Array, labels: Array) -> Array:
    return cross_entropy(apply(params, x), labels).mean()


def _test_loss(params: Params, images: Array, labels: Array) -> Array:
    outputs = jax.lax.map(lambda image: apply(params, pixels(image[None]))[0], images, batch_size=AT_ONCE)
    return cross_entropy(outputs, labels).mean()


def _init_conv(key: Array, inputs: int, outputs: int) -> Params:
    fan_in = KERNEL * KERNEL * inputs
    kernel = jax.random.normal(key, (KERNEL, KERNEL, inputs, outputs)) / np.sqrt(fan_in)
    return {"kernel": kernel, "bias": jnp.zeros(outputs)}


def _banded(kernel: Array, width: int) -> Array:
    """[kernel height · width · inputs, (width − 4) · outputs]: place v of a line takes from places v … v + 4."""
    place = np.arange(width)[:, None, None] == np.arange(width - KERNEL + 1)[:, None] + np.arange(KERNEL)
    matrix = jnp.einsum("wvj,ijcd->iwcvd", place.astype(np.float32), kernel)
    return matrix.reshape(KERNEL * width * kernel.shape[2], -1)


def _pool(x: Array) -> Array:
    """2×2 max pooling."""
    rows, height, width, channels = x.shape
    x = x.reshape(rows, height // 2, 2, width // 2, 2, channels)
    x = jnp.maximum(x[:, :, 0], x[:, :, 1])
    return jnp.maximum(x[:, :, :, 0], x[:, :, :, 1])
