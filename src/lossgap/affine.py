"""A dense layer whose gradient's product is computed in the order that the CPU runs faster."""

import jax
import jax.numpy as jnp
from jax import Array

Layer = dict[str, Array]
"""A kernel [inputs, outputs] and a bias [outputs]."""

LARGE = 1 << 16
"""Numbers in x from which the order matters; small layers lose more by a step that nothing can be fused with."""


def affine(layer: Layer, x: Array) -> Array:
    """x · kernel + bias, [rows, outputs]."""
    return _ordered(layer, x) if x.size >= LARGE else _plain(layer, x)


def _plain(layer: Layer, x: Array) -> Array:
    return x @ layer["kernel"] + layer["bias"]


@jax.custom_vjp
def _ordered(layer: Layer, x: Array) -> Array:
    return _plain(layer, x)


def _forward(layer: Layer, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return _plain(layer, x), (layer["kernel"], x)


def _backward(kept: tuple[Array, Array], slopes: Array) -> tuple[Layer, Array]:
    """∂kernel = (slopesᵀ · x)ᵀ: with its many inputs last, XLA multiplies a quarter faster than as xᵀ · slopes.

    The barrier keeps the compiler from turning the product round again.
    """
    kernel, x = kept
    across = jax.lax.optimization_barrier(slopes.T @ x)  # type: ignore[no-untyped-call]
    return {"kernel": across.T, "bias": jnp.sum(slopes, axis=0)}, slopes @ kernel.T


_ordered.defvjp(_forward, _backward)
