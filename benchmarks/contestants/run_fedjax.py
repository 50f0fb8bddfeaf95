"""FedJAX: `for_each_client` with its jit backend, the one meant for a single CPU."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
import protocol
from jax import Array, lax

ArrayParams = dict[str, Array]


def prepare(workload: protocol.Workload) -> protocol.Train:
    def client_init(shared: ArrayParams, _: None) -> ArrayParams:
        return shared

    def client_step(params: ArrayParams, batch: dict[str, Array]) -> ArrayParams:
        gradient = jax.grad(loss)(params, batch["x"], batch["y"])
        return jax.tree.map(lambda p, g: p - workload.step_size * g, params, gradient)

    def client_final(_: ArrayParams, params: ArrayParams) -> ArrayParams:
        return params

    train_clients = fedjax.for_each_client(client_init, client_step, client_final)
    clients = [(client, device_batches(workload, client), None) for client in range(len(workload.clients))]
    initial = jax.tree.map(jnp.asarray, workload.params)

    def train(rounds: int) -> protocol.Params:
        shared = initial
        for _ in range(rounds):
            # fedjax.algorithms.fed_avg weighs clients by their rows; this race weighs them evenly.
            shared = mean([params for _, params in train_clients(shared, clients)])
        return jax.tree.map(np.asarray, shared)

    return train


def device_batches(workload: protocol.Workload, client: int) -> list[dict[str, Array]]:
    """Batches that are already on the device, so that no round copies them."""
    return [{"x": jnp.asarray(x), "y": jnp.asarray(y)} for x, y in workload.batches(client)]


@jax.jit
def mean(clients: list[ArrayParams]) -> ArrayParams:
    return jax.tree.map(lambda *values: sum(values) / len(values), *clients)


def loss(params: ArrayParams, x: Array, y: Array) -> Array:
    logits = dense(params, "", x) if "kernel" in params else convolutional(params, x)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean()


def convolutional(params: ArrayParams, x: Array) -> Array:
    x = x[..., None]
    for layer in ("first", "second"):
        kernel, bias = params[f"{layer}.kernel"], params[f"{layer}.bias"]
        x = lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(jax.nn.relu(x + bias), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(dense(params, "hidden.", x.reshape(len(x), -1)))
    return dense(params, "last.", x)


def dense(params: ArrayParams, layer: str, x: Array) -> Array:
    return x @ params[f"{layer}kernel"] + params[f"{layer}bias"]


if __name__ == "__main__":
    protocol.main("fedjax", prepare, distributions=("fedjax", "jax"))
