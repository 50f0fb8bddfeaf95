"""lossgap, installed from this checkout, through its public functions alone."""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import jax
import numpy as np
import protocol

import lossgap as lg


def prepare(workload: protocol.Workload) -> protocol.Train:
    """FedAvg, with nothing recorded before the last round."""
    return training_with(workload, lg.FedAvg(), record_every=None)


def training_with(workload: protocol.Workload, algorithm: lg.Algorithm, record_every: int | None) -> protocol.Train:
    federation = federation_of(workload)
    model = lg.models.cnn() if "first.kernel" in workload.params else lg.models.linear()
    solo = [0.0] * len(workload.clients)

    def train(rounds: int) -> protocol.Params:
        result = lg.train(
            federation,
            model,
            algorithm,
            training(workload, rounds, record_every or rounds),
            initial_params=initial_params(workload),
            solo=solo,
        )
        return flat(jax.tree.map(np.asarray, result.params))

    return train


def marginal(train: protocol.Train, rounds: int) -> tuple[float, protocol.Params]:
    """Seconds of so many further rounds.

    Around its rounds, `lg.train` puts the rows onto the devices and tells what every client gets on all its rows, which
    no other contestant does. A run of one round is therefore timed as well and subtracted.
    """
    params = train(rounds)
    return seconds(train, rounds + 1) - around(train), params


@cache
def around(train: protocol.Train) -> float:
    train(1)
    return min(seconds(train, 1) for _ in range(5))


def seconds(train: Callable[[int], object], rounds: int) -> float:
    start = perf_counter()
    train(rounds)
    return perf_counter() - start


def federation_of(workload: protocol.Workload) -> lg.Federation:
    """The race's rows as they are; clients without validation rows measure on their training rows."""
    held_out = workload.validation or workload.clients
    names = [f"client {index}" for index in range(len(workload.clients))]
    rows = zip(names, workload.clients, held_out, strict=True)
    return lg.Federation.from_splits(
        {name: {"train": train, "validation": other, "test": other} for name, train, other in rows}
    )


def training(workload: protocol.Workload, rounds: int, record_every: int) -> lg.Training:
    return lg.Training(
        rounds=rounds,
        step_size=workload.step_size,
        local_epochs=1,
        batch_size=workload.batch_size,
        shuffle=False,
        record_every=record_every,
    )


def initial_params(workload: protocol.Workload) -> dict:
    """lossgap nests layers and flattens a convolution's kernel to [9 × inputs, outputs]."""
    nested: dict = {}
    for name, value in workload.params.items():
        *layer, kind = name.split(".")
        target = nested.setdefault(layer[0], {}) if layer else nested
        target[kind] = value.reshape(-1, value.shape[-1]) if value.ndim == 4 else value
    return nested


def flat(params: dict) -> protocol.Params:
    if "kernel" in params:
        return params
    arrays = {f"{layer}.{kind}": value for layer, values in params.items() for kind, value in values.items()}
    for layer in ("first", "second"):
        kernel = arrays[f"{layer}.kernel"]
        arrays[f"{layer}.kernel"] = kernel.reshape(3, 3, -1, kernel.shape[-1])
    return arrays


if __name__ == "__main__":
    protocol.main("lossgap", prepare, distributions=("lossgap", "jax"), timer=marginal)
