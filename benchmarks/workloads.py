"""The three workloads of the race as seeded arrays."""

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from contestants.protocol import Params, Rows, Workload

SEED = 20260
EMNIST_CLASSES = 62


class MissingData(Exception):
    """The images are not where LOSSGAP_DATA points."""


def tiny() -> Workload:
    """3 clients × 60 rows, 2 features, 2 classes: what a round costs beyond its arithmetic."""
    rng = np.random.default_rng([SEED, 1])
    clients = [_two_clouds(rng, rows=80, angle=angle) for angle in (0.0, 0.7, 2.0)]
    return Workload(
        name="tiny",
        clients=[(x[:60], y[:60]) for x, y in clients],
        validation=[(x[60:], y[60:]) for x, y in clients],
        params=dense_params(rng, "", 2, 2),
        classes=2,
        step_size=0.5,
        batch_size=None,
        checked_rounds=100,
    )


def linear() -> Workload:
    """8,000 images over 10 unequal clients, softmax regression, full batch: two matrix products a round."""
    rng = np.random.default_rng([SEED, 2])
    x, y = emnist(rng, rows=10_000)
    x = x.reshape(len(x), -1)
    shares = rng.dirichlet(np.full(10, 0.1), size=EMNIST_CLASSES)  # [class, client], a draw of its own per class
    return Workload(
        name="linear",
        clients=deal(x[:8000], y[:8000], shares),
        validation=deal(x[8000:], y[8000:], shares),
        params=dense_params(rng, "", 784, EMNIST_CLASSES),
        classes=EMNIST_CLASSES,
        step_size=1.0,
        batch_size=None,
        checked_rounds=10,
    )


def cnn() -> Workload:
    """10 clients × 400 images, batch 32, one pass a round, two convolutions: the arithmetic itself."""
    rng = np.random.default_rng([SEED, 3])
    x, y = emnist(rng, rows=4000)
    params = {
        **conv_params(rng, "first.", 1, 32),
        **conv_params(rng, "second.", 32, 64),
        **dense_params(rng, "hidden.", 5 * 5 * 64, 128),
        **dense_params(rng, "last.", 128, EMNIST_CLASSES),
    }
    return Workload(
        name="cnn",
        clients=list(zip(np.split(x, 10), np.split(y, 10), strict=True)),
        validation=[],
        params=params,
        classes=EMNIST_CLASSES,
        step_size=0.05,
        batch_size=32,
        checked_rounds=1,  # rounding decides near-ties of the maxima, and from there float32 runs part
    )


@dataclass(frozen=True)
class Event:
    """A workload, the number its table shows, and how far float32 may end from the reference."""

    make: Callable[[], Workload]
    title: str
    unit: str
    shown: Callable[[float, int], float]  # (seconds per round, training rows) -> the number in that unit
    tolerance: float


EVENTS = {
    "tiny": Event(tiny, "tiny: 3 × 60 rows", "rounds/s", lambda seconds, _: 1 / seconds, tolerance=1e-5),
    "linear": Event(linear, "linear: 8,000 × 784 → 62", "ms/round", lambda seconds, _: 1e3 * seconds, tolerance=1e-5),
    "cnn": Event(cnn, "CNN: 10 × 400 images", "images/s", lambda seconds, rows: rows / seconds, tolerance=1e-3),
}


def emnist(rng: np.random.Generator, rows: int) -> Rows:
    """Images [rows, 28, 28] with pixels in [0, 1] and their labels, drawn without replacement."""
    images, labels = (read_idx(emnist_file(kind)) for kind in ("images-idx3", "labels-idx1"))
    chosen = rng.permutation(len(labels))[:rows]
    upright = images[chosen].transpose(0, 2, 1)  # EMNIST stores its images transposed
    return (upright / np.float32(255)).astype(np.float32), labels[chosen].astype(np.int32)


def emnist_file(kind: str) -> Path:
    root = os.environ.get("LOSSGAP_DATA")
    if root is None:
        raise MissingData("LOSSGAP_DATA is not set. Set it to the folder that holds emnist/emnist-byclass-test-*.gz.")
    path = Path(root) / "emnist" / f"emnist-byclass-test-{kind}-ubyte.gz"
    if not path.exists():
        raise MissingData(f"{path} does not exist. Put the EMNIST ByClass test files there, or change LOSSGAP_DATA.")
    return path


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes: two zeros, the type, the number of axes, each length in 4 bytes, then the values."""
    raw = gzip.decompress(path.read_bytes())
    axes = raw[3]
    shape = np.frombuffer(raw, ">u4", count=axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def deal(x: np.ndarray, y: np.ndarray, shares: np.ndarray) -> list[Rows]:
    """Deal the rows of each class over the clients in the proportions `shares` [class, client]; each row once."""
    owned: list[list[np.ndarray]] = [[] for _ in shares[0]]
    for label, share in enumerate(shares):
        rows = np.flatnonzero(y == label)
        cuts = np.round(np.cumsum(share)[:-1] * len(rows)).astype(int)
        for client, part in zip(owned, np.split(rows, cuts), strict=True):
            client.append(part)
    chosen = [np.concatenate(parts) for parts in owned]
    assert min(map(len, chosen)) > 1, "a client without rows: choose another SEED"
    return [(x[rows], y[rows]) for rows in chosen]


def _two_clouds(rng: np.random.Generator, rows: int, angle: float) -> Rows:
    """Two overlapping classes on either side of the origin, along a direction that differs between clients."""
    y = np.arange(rows, dtype=np.int32) % 2
    direction = np.array([np.cos(angle), np.sin(angle)])
    x = (2 * y[:, None] - 1) * direction + rng.normal(size=(rows, 2))
    return x.astype(np.float32), y


def dense_params(rng: np.random.Generator, prefix: str, inputs: int, outputs: int) -> Params:
    kernel = rng.normal(size=(inputs, outputs)) / np.sqrt(inputs)
    return {f"{prefix}kernel": kernel.astype(np.float32), f"{prefix}bias": np.zeros(outputs, np.float32)}


def conv_params(rng: np.random.Generator, prefix: str, inputs: int, outputs: int) -> Params:
    """A 3×3 kernel [height, width, inputs, outputs]."""
    params = dense_params(rng, prefix, 9 * inputs, outputs)
    return params | {f"{prefix}kernel": params[f"{prefix}kernel"].reshape(3, 3, inputs, outputs)}
