"""A convolution with its ReLU and pooling as one layer, written for speed on the CPU.

XLA's own convolution is 20 times slower inside a loop there, and a third of what remains goes into differentiating the
pooling. So the convolution is nine slices and one product, and the backward pass is written out.
"""

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.affine import Layer, kernel_slope

PLACES = [(i, j) for i in range(3) for j in range(3)]
"""Of a kernel [9 × channels, outputs], row by row."""


def pooled_side(side: int) -> int:
    """What is left of an image's side."""
    return (side - 2) // 2


def convolve_and_pool(layer: Layer, x: Array) -> Array:
    """max over 2×2 of relu(kernel ∗ x + bias), [rows, height, width, channels] to half the size; an odd rest is cut."""
    height, width = (2 * pooled_side(side) + 2 for side in x.shape[1:3])
    return _layer(layer, x[:, :height, :width])


@jax.custom_vjp
def _layer(layer: Layer, x: Array) -> Array:
    return _forward(layer, x)[0]


def _forward(layer: Layer, x: Array) -> tuple[Array, Any]:
    # The bias and ReLU are monotonous, so that they may come after the maximum, on a quarter of the numbers.
    patches = jnp.concatenate(_slices(x), axis=-1)
    sums = _in_quads(patches @ layer["kernel"])
    largest = reduce(jnp.maximum, _corners(sums))
    return jax.nn.relu(largest + layer["bias"]), (layer, patches, sums, largest)


def _backward(kept: Any, slope: Array) -> tuple[Layer, Array]:
    """Each slope goes back to where the maximum was; where several were as large, they share it."""
    layer, patches, sums, largest = kept
    slope = jnp.where(largest + layer["bias"] > 0, slope, 0)
    winners = sum((corner == largest).astype(slope.dtype) for corner in _corners(sums))
    shared = jax.lax.optimization_barrier(slope / winners)  # type: ignore[no-untyped-call]
    back = jnp.where(sums == largest[:, :, None, :, None], shared[:, :, None, :, None], 0)
    back = back.reshape(-1, back.shape[-1])

    kernel = kernel_slope(patches.reshape(-1, patches.shape[-1]), back)
    per_place = (back @ layer["kernel"].T).reshape(*patches.shape[:3], 9, -1)
    return {"kernel": kernel, "bias": slope.sum(axis=(0, 1, 2))}, _summed(per_place)


_layer.defvjp(_forward, _backward)


def _slices(x: Array) -> list[Array]:
    """What each of the kernel's nine places sees."""
    height, width = x.shape[1] - 2, x.shape[2] - 2
    return [x[:, i : i + height, j : j + width] for i, j in PLACES]


def _summed(per_place: Array) -> Array:
    """The transpose of `_slices`, from [rows, height, width, place, channels]."""
    edges = [((0, 0), (i, 2 - i), (j, 2 - j), (0, 0)) for i, j in PLACES]
    return reduce(jnp.add, [jnp.pad(per_place[:, :, :, place], edge) for place, edge in enumerate(edges)])


def _in_quads(x: Array) -> Array:
    """[rows, height, width, channels] as [rows, height / 2, 2, width / 2, 2, channels]."""
    rows, height, width, channels = x.shape
    return x.reshape(rows, height // 2, 2, width // 2, 2, channels)


def _corners(quads: Array) -> list[Array]:
    """The four numbers of which pooling takes the largest."""
    return [quads[:, :, i, :, j] for i in range(2) for j in range(2)]
