"""Small federations that many tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import lossgap as lg

jax.config.update("jax_num_cpu_devices", 3)  # on any machine, so that sharing work out among devices is tested

ROWS = {"one": 1, "few": 3, "some": 10, "many": 23}


def made(rng: np.random.Generator, rows: int, shape: tuple[int, ...] = (5,), classes: int = 3) -> tuple:
    return rng.normal(size=(rows, *shape)), rng.integers(0, classes, rows)


@pytest.fixture(scope="module", autouse=True)
def _forgotten_programs() -> Iterator[None]:
    """Thousands of compiled programs would use up what the system allows a process of mapped memory."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def ragged() -> lg.Federation:
    """Four clients of very different sizes, one of them with a single training row."""
    rng = np.random.default_rng(7)
    splits = {
        name: {"train": made(rng, rows), "validation": made(rng, 4 + rows // 2), "test": made(rng, 6)}
        for name, rows in ROWS.items()
    }
    with pytest.warns(lg.DataWarning, match="'one'"):
        return lg.Federation.from_splits(splits, classes=3)


@pytest.fixture(scope="session")
def images() -> lg.Federation:
    """Three clients with images of 10×10 pixels."""
    rng = np.random.default_rng(8)
    arrays = {f"site {k}": made(rng, rows, (10, 10)) for k, rows in enumerate((9, 14, 30))}
    return lg.Federation.from_arrays(arrays, classes=3)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets."""
    folder = os.environ.get("LOSSGAP_DATA")
    if not folder:
        pytest.skip("LOSSGAP_DATA does not name the folder of real data sets")
    return Path(folder)
