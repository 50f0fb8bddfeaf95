"""Models: an `init` and an `apply`, and the loss of every row.

Anything with these two functions trains; `linear`, `mlp` and `cnn` come ready. Images are rows of shape
[height, width] or [height, width, channels]; `linear` and `mlp` flatten whatever they are given.
"""

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.affine import affine
from lossgap.convolution import convolve_and_pool, pooled_side
from lossgap.errors import SettingError, require

Params = Any
RowLoss = Callable[[Array, Array], Array]

INITIALISATION, BATCHES, RESAMPLING = range(3)
"""What a run draws from its seed: each from a stream of its own."""


@dataclass(frozen=True)
class Model:
    """A network as two pure functions.

    Args:
        init: `init(key, x, outputs)` makes parameters for rows like `x` [1, ...] and this many outputs.
        apply: `apply(params, x)` gives the outputs [rows, outputs].
        loss: `loss(outputs, y)` gives the loss of each row, [rows]; None is cross-entropy for classes and squared
            error for numbers.
        name: what a saved result calls it.
        rows_at_once: how many rows pass through the network together when all of a client's rows are asked for; None
            is all of them. A number keeps the memory of deep networks small, at the price of a second forward pass
            in full-batch training.
        convex: whether every row's loss is convex in the parameters, so that a best local model can be certified.
        first_kernel: the path of the parameter that is multiplied with the flattened features, such as "['kernel']";
            with it, features that are zero everywhere cost nothing. None if there is no such parameter.
    """

    init: Callable[[Array, Array, int], Params]
    apply: Callable[[Params, Array], Array]
    loss: RowLoss | None = None
    name: str = "custom"
    rows_at_once: int | None = None
    convex: bool = False
    first_kernel: str | None = None

    def outputs(self, params: Params, x: Array) -> Array:
        """The network's outputs [rows, outputs]."""
        return self._in_chunks(lambda x: self.apply(params, x), x)

    def row_losses(self, params: Params, x: Array, y: Array) -> Array:
        """ℓ(θ, x_i, y_i) for each row."""
        loss = self.loss or (squared_error if jnp.issubdtype(y.dtype, jnp.floating) else cross_entropy)
        return self._in_chunks(lambda x, y: loss(self.apply(params, x), y), x, y)

    def hits(self, params: Params, x: Array, y: Array) -> Array:
        """Whether the largest output of each row is that of its label; NaN where targets are numbers."""
        if jnp.issubdtype(y.dtype, jnp.floating):
            return jnp.full(y.shape[0], jnp.nan, y.dtype)
        return self.outputs(params, x).argmax(axis=-1) == y

    def batch_loss(self, params: Params, x: Array, y: Array, share: Array) -> Array:
        """Σ_i share_i ℓ(θ, x_i, y_i)."""
        return share @ self.row_losses(params, x, y)

    def _in_chunks(self, function: Callable[..., Array], *rows: Array) -> Array:
        count = len(rows[0])
        if self.rows_at_once is None or count <= self.rows_at_once:
            return function(*rows)
        # Without the checkpoint, differentiation would keep the activations of all chunks at once.
        chunked = jax.checkpoint(lambda chunk: function(*chunk))
        results = jax.lax.map(chunked, tuple(_chunks(a, self.rows_at_once) for a in rows))
        return results.reshape(-1, *results.shape[2:])[:count]


def initial_params(
    model: Model, features: tuple[int, ...], outputs: int, *, seed: int, precision: str = "float32"
) -> Params:
    """The initialisation that all parties share, drawn in single precision so that both precisions start alike."""
    key = jax.random.fold_in(jax.random.key(seed), INITIALISATION)
    with jax.enable_x64(False):
        params = model.init(key, jnp.zeros((1, *features)), outputs)
    return jax.tree.map(lambda p: np.asarray(p, precision), params)


def _chunks(a: Array, size: int) -> Array:
    """[rows, ...] as [chunk, size, ...]; the last chunk is filled up with copies of the last row."""
    missing = -len(a) % size
    padded = jnp.concatenate([a, jnp.broadcast_to(a[-1:], (missing, *a.shape[1:]))])
    return padded.reshape(-1, size, *a.shape[1:])


def cross_entropy(logits: Array, labels: Array) -> Array:
    """−log softmax(logits)[label] of each row."""
    # A comparison instead of a gather: its gradient is a product, where a gather's is a slow scatter.
    is_label = jnp.arange(logits.shape[-1]) == labels[:, None]
    return jax.nn.logsumexp(logits, axis=-1) - jnp.where(is_label, logits, 0).sum(axis=-1)


def squared_error(outputs: Array, targets: Array) -> Array:
    """½ ‖output − target‖² of each row."""
    return 0.5 * jnp.square(outputs - targets.reshape(outputs.shape)).sum(axis=-1)


@functools.cache  # the same arguments give the same Model, so that nothing compiles twice
def linear(loss: RowLoss | None = None) -> Model:
    """Softmax (or least-squares) regression: x · kernel + bias."""
    return Model(
        init=_init_linear,
        apply=_apply_linear,
        loss=loss,
        name=_name("linear", loss),
        convex=loss is None,
        first_kernel="['kernel']",
    )


def mlp(hidden: tuple[int, ...] = (128,), loss: RowLoss | None = None) -> Model:
    """A multilayer perceptron with ReLU between its layers."""
    require(all(width > 0 for width in hidden), f"mlp: hidden is {hidden}.", "Every width must be at least 1.")
    return _mlp(tuple(hidden), loss)


@functools.cache
def _mlp(hidden: tuple[int, ...], loss: RowLoss | None) -> Model:
    name = _name(f"mlp({','.join(map(str, hidden))})", loss)
    init = functools.partial(_init_mlp, hidden)
    return Model(init=init, apply=_apply_mlp, loss=loss, name=name, first_kernel="[0]['kernel']")


@functools.cache
def cnn(channels: tuple[int, int] = (32, 64), hidden: int = 128, loss: RowLoss | None = None) -> Model:
    """Two 3×3 convolutions, each with ReLU and 2×2 max pooling, then one hidden layer."""
    init = functools.partial(_init_cnn, channels, hidden)
    name = _name(f"cnn({channels[0]},{channels[1]},{hidden})", loss)
    return Model(init=init, apply=_apply_cnn, loss=loss, name=name, rows_at_once=32)


def by_name(name: str) -> Model:
    """One of this module's models, by the name it gives itself: "linear", "mlp(128,64)", "cnn(32,64,128)"."""
    kind, _, numbers = name.removesuffix(")").partition("(")
    with contextlib.suppress(ValueError, TypeError):
        widths = tuple(int(number) for number in numbers.split(",") if number)
        if name == "linear":
            return linear()
        if kind == "mlp":
            return mlp(widths)
        if kind == "cnn":
            first, second, hidden = widths
            return cnn((first, second), hidden)
    raise SettingError(f"the model {name!r} is not one of lossgap's. Pass model=… to load.")


def _name(name: str, loss: RowLoss | None) -> str:
    return name if loss is None else f"{name} with {getattr(loss, '__name__', 'its own loss')}"


def _dense(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
    kernel = jax.random.normal(key, (inputs, outputs)) / math.sqrt(inputs)
    return {"kernel": kernel, "bias": jnp.zeros(outputs)}


def _flat(x: Array) -> Array:
    return x.reshape(x.shape[0], -1)


def _init_linear(key: Array, x: Array, outputs: int) -> Params:
    return _dense(key, _flat(x).shape[1], outputs)


def _apply_linear(params: Params, x: Array) -> Array:
    return affine(params, _flat(x))


def _init_mlp(hidden: tuple[int, ...], key: Array, x: Array, outputs: int) -> Params:
    widths = [_flat(x).shape[1], *hidden, outputs]
    keys = jax.random.split(key, len(widths) - 1)
    return [_dense(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:], strict=True)]


def _apply_mlp(params: Params, x: Array) -> Array:
    *hidden, last = params
    x = _flat(x)
    for layer in hidden:
        x = jax.nn.relu(affine(layer, x))
    return affine(last, x)


def _init_cnn(channels: tuple[int, int], hidden: int, key: Array, x: Array, outputs: int) -> Params:
    height, width, depth = _image(x).shape[1:]
    side = [pooled_side(pooled_side(n)) for n in (height, width)]
    if min(side) < 1:
        raise SettingError(f"cnn: images of {height}×{width} pixels vanish after two poolings. Use at least 10×10.")
    keys = jax.random.split(key, 4)
    return {
        "first": _dense(keys[0], 9 * depth, channels[0]),
        "second": _dense(keys[1], 9 * channels[0], channels[1]),
        "hidden": _dense(keys[2], side[0] * side[1] * channels[1], hidden),
        "last": _dense(keys[3], hidden, outputs),
    }


def _apply_cnn(params: Params, x: Array) -> Array:
    x = convolve_and_pool(params["first"], _image(x))
    x = convolve_and_pool(params["second"], x)
    x = jax.nn.relu(affine(params["hidden"], _flat(x)))
    return affine(params["last"], x)


def _image(x: Array) -> Array:
    if x.ndim not in (3, 4):
        raise SettingError(
            f"cnn: a row has shape {x.shape[1:]}, but an image has [height, width] or [height, width, channels]. "
            "Reshape the rows, or use linear() or mlp()."
        )
    return x if x.ndim == 4 else x[..., None]
