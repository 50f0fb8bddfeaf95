"""What every contestant is compared with: float64, one client and one batch after the other, no cleverness."""

import jax
import jax.numpy as jnp
import numpy as np
import protocol
from jax import Array, lax

jax.config.update("jax_enable_x64", True)

ArrayParams = dict[str, Array]


def main() -> None:
    arguments = protocol.arguments()
    workload = protocol.load(arguments.arrays)
    shared = jax.tree.map(double, workload.params)
    for _ in range(workload.checked_rounds):
        locals_ = [local_params(shared, workload, client) for client in range(len(workload.clients))]
        shared = jax.tree.map(lambda *values: sum(values) / len(values), *locals_)
    np.savez(arguments.params, **shared)


@jax.jit
def gradient(params: ArrayParams, x: Array, y: Array) -> ArrayParams:
    return jax.grad(loss)(params, x, y)


def local_params(params: ArrayParams, workload: protocol.Workload, client: int) -> ArrayParams:
    """θ_k after one client's pass."""
    for x, y in workload.batches(client):
        steps = gradient(params, double(x), y)
        params = jax.tree.map(lambda p, g: p - workload.step_size * g, params, steps)
    return params


def double(values: np.ndarray) -> Array:
    return jnp.asarray(values, jnp.float64)


def loss(params: ArrayParams, x: Array, y: Array) -> Array:
    """Mean cross-entropy."""
    logits = linear(params, x) if "kernel" in params else convolutional(params, x)
    return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()


def linear(params: ArrayParams, x: Array) -> Array:
    return x @ params["kernel"] + params["bias"]


def convolutional(params: ArrayParams, x: Array) -> Array:
    x = x[..., None]
    for layer in ("first", "second"):
        x = lax.conv_general_dilated(
            x, params[f"{layer}.kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + params[f"{layer}.bias"])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ params["hidden.kernel"] + params["hidden.bias"])
    return x @ params["last.kernel"] + params["last.bias"]


if __name__ == "__main__":
    main()
