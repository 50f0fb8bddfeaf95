"""The hot paths beside the bare products of the same run: a regression shows as a ratio. `make bench` runs this."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from lossgap.engine.compiled import CompiledStepper

FEATURES, CLASSES = 784, 62
ROUNDS = 20

Walk = Callable[[], object]


@cache
def clients(rows: tuple[int, ...], shape: tuple[int, ...]) -> lg.Federation:
    rng = np.random.default_rng(0)

    def made(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.random((count, *shape), np.float32), rng.integers(0, CLASSES, count)

    splits = {
        f"client {k}": {"train": made(count), "validation": made(1 + count // 4), "test": made(1)}
        for k, count in enumerate(rows)
    }
    return lg.Federation.from_splits(splits, classes=CLASSES)


UNEVEN = (3200, 2000, 1200, 600, 400, 250, 150, 100, 60, 40)


def walk(federation: lg.Federation, model: lg.Model, algorithm: lg.Algorithm, rounds: int, **training: object) -> Walk:
    """So many rounds of a run that is compiled already."""
    count, shape = len(federation.clients), federation.features
    params = lg.models.initial_params(model, shape, CLASSES, seed=0)
    stepper = CompiledStepper.of(
        federation,
        model,
        algorithm,
        lg.Training(**({"rounds": rounds, "step_size": 0.1} | training)),
        params=params,
        solo_losses=np.zeros(count),
        key=jax.random.key(0),
    )
    carry = stepper.start()
    return lambda: jax.block_until_ready(stepper.advance(carry, 0, rounds))


@pytest.mark.benchmark(group="linear: 20 rounds of 8,000 × 784 → 62, ten uneven clients")
class TestLinear:
    def test_bare_products(self, benchmark) -> None:
        x, kernel = jnp.ones((sum(UNEVEN), FEATURES)), jnp.ones((FEATURES, CLASSES))
        loop = jax.jit(lambda x, k: jax.lax.fori_loop(0, ROUNDS, lambda _, k: k + 1e-9 * (x.T @ (x @ k)), k))
        benchmark(lambda: loop(x, kernel).block_until_ready())

    @pytest.mark.parametrize("algorithm", [lg.FedAvg(), lg.Eagle(gap_penalty=1.0), lg.QFFL(q=1.0)], ids=str)
    def test_rounds(self, benchmark, algorithm: lg.Algorithm) -> None:
        benchmark(walk(clients(UNEVEN, (FEATURES,)), lg.models.linear(), algorithm, ROUNDS))

    @pytest.mark.parametrize("work", [{"local_steps": 5}, {"local_epochs": 5, "batch_size": 32}], ids=str)
    def test_local_work_of_five_passes(self, benchmark, work: dict) -> None:
        rounds = ROUNDS // 5
        federation = clients(UNEVEN, (FEATURES,))
        benchmark(walk(federation, lg.models.linear(), lg.FedAvg(), rounds, record_every=rounds, **work))


@pytest.mark.benchmark(group="tiny: 1,000 rounds of 3 × 60 rows")
@pytest.mark.parametrize("algorithm", [lg.FedAvg(), lg.Eagle(gap_penalty=1.0)], ids=str)
def test_tiny_rounds(benchmark, algorithm: lg.Algorithm) -> None:
    benchmark(walk(clients((60, 60, 60), (2,)), lg.models.linear(), algorithm, 1000))


@pytest.mark.benchmark(group="network: one pass over 10 × 128 images in batches of 32")
def test_network(benchmark) -> None:
    federation = clients((128,) * 10, (28, 28))
    work = {"local_epochs": 1, "batch_size": 32, "record_every": 10}
    benchmark(walk(federation, lg.models.cnn(), lg.FedAvg(), 1, **work))
