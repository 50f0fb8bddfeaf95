"""The simplest fast JAX: a whole run is one lax.scan over rounds inside one jit, written for these workloads alone."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import protocol
from jax import Array, lax

ArrayParams = dict[str, Array]
Round = Callable[[ArrayParams], ArrayParams]


def prepare(workload: protocol.Workload) -> protocol.Train:
    one_round = minibatch_round(workload) if workload.batch_size else full_batch_round(workload)
    initial = jax.tree.map(jnp.asarray, workload.params)

    @functools.partial(jax.jit, static_argnums=0)
    def run(rounds: int) -> ArrayParams:
        return lax.scan(lambda params, _: (one_round(params), None), initial, length=rounds)[0]

    return lambda rounds: jax.tree.map(np.asarray, run(rounds))


def full_batch_round(workload: protocol.Workload) -> Round:
    """With one step from the same θ, the clients' mean is one step on all rows, each counted 1 / (K n_k)."""
    x, y = (jnp.concatenate(arrays) for arrays in zip(*workload.clients, strict=True))
    share = jnp.concatenate([jnp.full(len(y), 1 / len(y) / len(workload.clients)) for _, y in workload.clients])

    def loss(params: ArrayParams) -> Array:
        return share @ row_losses(x @ params["kernel"] + params["bias"], y)

    return lambda params: descend(params, jax.grad(loss)(params), workload.step_size)


def minibatch_round(workload: protocol.Workload) -> Round:
    """One pass over every client: a scan over clients around a scan over batches, then the smaller last batch."""
    x, y = (jnp.stack(arrays) for arrays in zip(*workload.clients, strict=True))
    clients, rows = y.shape
    full, rest = divmod(rows, workload.batch_size)
    tail = slice(rows - rest, rows)

    def in_batches(values: Array) -> Array:
        kept = values[:, : full * workload.batch_size]
        return kept.reshape(clients, full, workload.batch_size, *values.shape[2:])

    def loss(params: ArrayParams, x: Array, y: Array) -> Array:
        return row_losses(network(params, x), y).mean()

    def step(params: ArrayParams, batch: tuple[Array, Array]) -> tuple[ArrayParams, None]:
        return descend(params, jax.grad(loss)(params, *batch), workload.step_size), None

    def one_round(shared: ArrayParams) -> ArrayParams:
        def add_client(total: ArrayParams, client: tuple) -> tuple[ArrayParams, None]:
            whole_batches, last_batch = client
            local, _ = lax.scan(step, shared, whole_batches)
            local, _ = step(local, last_batch)
            return jax.tree.map(jnp.add, total, local), None

        zero = jax.tree.map(jnp.zeros_like, shared)
        passes = (in_batches(x), in_batches(y)), (x[:, tail], y[:, tail])
        total, _ = lax.scan(add_client, zero, passes)
        return jax.tree.map(lambda value: value / clients, total)

    return one_round


def descend(params: ArrayParams, gradient: ArrayParams, step_size: float) -> ArrayParams:
    return jax.tree.map(lambda p, g: p - step_size * g, params, gradient)


def row_losses(logits: Array, labels: Array) -> Array:
    """Cross-entropy of each row; by comparison with the label, as the gradient of a gather is a slow scatter."""
    is_label = jnp.arange(logits.shape[-1]) == labels[:, None]
    return jax.nn.logsumexp(logits, axis=-1) - jnp.where(is_label, logits, 0).sum(axis=-1)


def network(params: ArrayParams, x: Array) -> Array:
    x = pool(jax.nn.relu(convolve(params["first.kernel"], params["first.bias"], x[..., None])))
    x = pool(jax.nn.relu(convolve(params["second.kernel"], params["second.bias"], x)))
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ params["hidden.kernel"] + params["hidden.bias"])
    return x @ params["last.kernel"] + params["last.bias"]


def convolve(kernel: Array, bias: Array, x: Array) -> Array:
    """3×3 as nine slices and one product: XLA's own convolution is many times slower inside a scan on the CPU."""
    height, width = x.shape[1] - 2, x.shape[2] - 2
    slices = [x[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return jnp.concatenate(slices, axis=-1) @ kernel.reshape(-1, kernel.shape[-1]) + bias


def pool(x: Array) -> Array:
    """2×2 maxima; an odd last row or column is left out."""
    height, width = x.shape[1] // 2, x.shape[2] // 2
    return x[:, : 2 * height, : 2 * width].reshape(len(x), height, 2, width, 2, -1).max(axis=(2, 4))


if __name__ == "__main__":
    protocol.main("bare_jax", prepare, distributions=("jax", "jaxlib"))
