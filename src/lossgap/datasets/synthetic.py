"""The paper's synthetic clients: two classes in the plane, easy for one client and hard for another."""

from typing import Literal

import numpy as np

from lossgap.errors import require
from lossgap.federation import Federation, Fractions

CLASS_MEANS = (2.0, 0.5, 0.1)
"""Client k's classes lie around ±(m, m): far apart, close together, almost on top of each other."""


def synthetic(
    *,
    seed: int = 0,
    rows: int = 100,
    fractions: Fractions = (0.6, 0.2, 0.2),
    rotated: Literal["client 2", "clients 1 and 2"] = "client 2",
) -> Federation:
    """Three clients of increasing difficulty; client 2's data are rotated by 45° around the origin.

        client 0:  x | y = ±1 ~ N(±[2, 2], I)
        client 1:  x | y = ±1 ~ N(±[0.5, 0.5], I)
        client 2:  x | y = ±1 ~ N(±[0.1, 0.1], I), rotated

    Args:
        seed: for the rows and their split.
        rows: rows per client.
        fractions: of training, validation and test rows.
        rotated: the paper's text rotates client 2 only, so that clients 0 and 1 share their best separator; the
            caption of its appendix figure says that clients 1 and 2 do.
    """
    require(
        rotated in ("client 2", "clients 1 and 2"),
        f"synthetic: rotated is {rotated!r}.",
        'Use "client 2" (the paper\'s text) or "clients 1 and 2" (its appendix).',
    )
    turned = {"client 2": (2,), "clients 1 and 2": (1, 2)}[rotated]
    arrays = {}
    for k, mean in enumerate(CLASS_MEANS):
        x, y = _two_gaussians(np.random.default_rng([seed, k]), rows, mean)
        arrays[f"client {k}"] = (x @ _rotation(45).T if k in turned else x, y)
    return Federation.from_arrays(arrays, fractions=fractions, seed=seed, classes=2)


def two_clients(*, seed: int = 0, rows: int = 200, fractions: Fractions = (0.6, 0.2, 0.2)) -> Federation:
    """Two clients in the spirit of the paper's first figure, whose distributions it does not state.

    Client 0 has well separated classes. Client 1 has a harder task along another direction, and one label in five is
    wrong.
    """
    easy = _two_gaussians(np.random.default_rng([seed, 0]), rows, 2.0)
    rng = np.random.default_rng([seed, 1])
    x, y = _two_gaussians(rng, rows, 1.0)
    noisy = (x @ _rotation(60).T, np.where(rng.random(rows) < 0.2, 1 - y, y))
    return Federation.from_arrays({"client 0": easy, "client 1": noisy}, fractions=fractions, seed=seed, classes=2)


def _two_gaussians(rng: np.random.Generator, rows: int, mean: float) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(rows) % 2
    return rng.normal(size=(rows, 2)) + np.where(y[:, None] == 1, mean, -mean), y


def _rotation(degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
