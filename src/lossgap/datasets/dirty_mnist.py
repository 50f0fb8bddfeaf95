"""DirtyMNIST: clear digits at one end, digits that two people would read differently at the other."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np

from lossgap.datasets import home, images
from lossgap.datasets.ambiguous import place
from lossgap.datasets.parts import PARTS, Part, chosen
from lossgap.errors import FileError, is_count, require
from lossgap.federation import SPLITS, Federation, Fractions, Split

Source = Literal["published", "built"]
SAMPLES, LABELS = "amnist_samples.pt", "amnist_labels.pt"
CLASSES, SIDE = 10, 28
LEAST = 10
"""Rows that every client holds."""

CLEAR, AMBIGUOUS, NOISE = range(3)
"""What is drawn from the seed: each from a stream of its own."""


@dataclass(frozen=True)
class _Ambiguous:
    """Ambiguous images from 0 to 1, [image, height, width], each with several labels, [image, label].

    Twins, images that are alike or nearly so, have one number, [image].
    """

    images: np.ndarray
    labels: np.ndarray
    twins: np.ndarray

    def part(self, name: Part) -> "_Ambiguous":
        half = len(self.images) // len(PARTS)  # the training images come first
        rows = slice(None, half) if name == "train" else slice(half, None)
        return _Ambiguous(self.images[rows], self.labels[rows], self.twins[rows])


@dataclass(frozen=True)
class _Holding:
    """One client's rows, and which of them show the same image or its twin."""

    x: np.ndarray
    y: np.ndarray
    image: np.ndarray  # the number of each row's image, one number for twins, [rows]
    ambiguous: np.ndarray  # whether the row's image is, [rows]


def dirty_mnist(
    *,
    clients: int = 5,
    rows: int = 8_000,
    seed: int = 0,
    noise: float = 0.05,
    fractions: Fractions = (0.6, 0.2, 0.2),
    parts: Sequence[Part] | None = None,
    source: Source | None = None,
) -> Federation:
    """MNIST and Ambiguous-MNIST (Mukhoti et al. 2023): of client k's rows, the share k / (K − 1) is ambiguous.

    All clients hold equally many rows: of the first all are clear, of the last all are ambiguous. An ambiguous image
    comes with ten labels, drawn from what several networks read in it; a row is an image with one of them. All rows
    that show the same image, or mixtures of the same digits, belong to one client, and to one split of it: splits are
    dealt out image by image, so that their rows are `fractions` only nearly. Images are [28, 28] with pixels around
    [0, 1].

    Args:
        clients: how many to divide the rows among.
        rows: of all clients together.
        seed: of the rows, of their division, of each client's split and of the noise.
        noise: deviation of the normal noise that is added to every pixel, clear and ambiguous alike, so that rows with
            the same image differ.
        fractions: of training, validation and test images.
        parts: of the publishers' "train" and "test" images; by default both are pooled.
        source: "published" reads Ambiguous-MNIST as its authors published it, "built" what `lossgap data build
            ambiguous-mnist` made of MNIST on this machine; by default the former if it is here.
    """
    _check(clients, rows, noise)
    used = chosen("dirty_mnist", parts, there=PARTS)
    ambiguous = _read(source)
    halves = [ambiguous.part(part) for part in used]
    pool = _Ambiguous(*(np.concatenate(parts) for parts in zip(*map(_arrays, halves), strict=True)))
    sizes = [len(own) for own in np.array_split(np.arange(rows), clients)]
    dirty = [round(size * k / (clients - 1)) for k, size in enumerate(sizes)]
    clean = [size - count for size, count in zip(sizes, dirty, strict=True)]
    holdings = {}
    for k, (clear, unclear) in enumerate(zip(_clear(clean, seed, used), _unclear(pool, dirty, seed), strict=True)):
        name = f"client {k}"
        holdings[name] = _noisy(_together(clear, unclear), noise, seed, name)
    return _split(holdings, fractions, seed)


def _check(clients: int, rows: int, noise: float) -> None:
    require(
        is_count(clients) and clients > 1,
        f"dirty_mnist: clients is {clients}.",
        "Use at least 2, from no ambiguous image to nothing else.",
    )
    require(
        is_count(rows) and rows >= LEAST * clients,
        f"dirty_mnist: rows is {rows} for {clients} clients.",
        f"Use at least {LEAST} for each client.",
    )
    require(0 <= noise < np.inf, f"dirty_mnist: noise is {noise}.", "Use a deviation such as 0.05, or 0 for none.")


def _clear(counts: Sequence[int], seed: int, parts: Sequence[Part]) -> list[_Holding]:
    """As many of MNIST's images for each client, none twice."""
    rows = images.read(images.MNIST, rows=sum(counts), seed=seed, parts=parts)
    order = np.random.default_rng([seed, CLEAR]).permutation(len(rows))
    return [
        _Holding(rows.take(own).x, rows.y[own], own, np.zeros(len(own), bool))
        for own in np.split(order, np.cumsum(counts)[:-1])
    ]


def _unclear(pool: _Ambiguous, counts: Sequence[int], seed: int) -> list[_Holding]:
    """Each client draws so many rows, none twice, from images of its own: as large a share of all as its rows are."""
    rng = np.random.default_rng([seed, AMBIGUOUS])
    owners = dealt(pool.twins, np.cumsum(counts)[:-1] / sum(counts), rng)
    labels = pool.labels.shape[1]
    require(
        all(count <= len(own) * labels for own, count in zip(owners, counts, strict=True)),
        f"dirty_mnist: {sum(counts)} ambiguous rows are asked for, and there are {len(pool.images)} images with "
        f"{labels} labels each.",
        "Ask for fewer rows, or for all parts.",
    )
    return [_drawn(pool, own, count, rng) for own, count in zip(owners, counts, strict=True)]


def dealt(twins: np.ndarray, cuts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The images in random order, cut at these shares of them. A cut between twins waits for the last of them."""
    _, number, copies = np.unique(twins, return_inverse=True, return_counts=True)
    order = rng.permutation(len(copies))
    start, sizes = np.empty(len(copies), int), copies[order]
    start[order] = np.cumsum(sizes) - sizes
    owner = np.searchsorted(cuts * len(twins), start[number], side="right")
    return [np.flatnonzero(owner == k) for k in range(len(cuts) + 1)]


def _drawn(pool: _Ambiguous, own: np.ndarray, count: int, rng: np.random.Generator) -> _Holding:
    labels = pool.labels.shape[1]
    image, label = divmod(rng.choice(len(own) * labels, count, replace=False), labels)
    shown = own[image]
    # Numbers below 0, so that they are not those of clear images.
    return _Holding(pool.images[shown], pool.labels[shown, label], -1 - pool.twins[shown], np.ones(count, bool))


def _together(clear: _Holding, unclear: _Holding) -> _Holding:
    names = [field.name for field in fields(_Holding)]
    return _Holding(*(np.concatenate([getattr(clear, name), getattr(unclear, name)]) for name in names))


def _arrays(part: _Ambiguous) -> list[np.ndarray]:
    return [getattr(part, field.name) for field in fields(part)]


def _noisy(rows: _Holding, noise: float, seed: int, name: str) -> _Holding:
    rng = np.random.default_rng([seed, NOISE, zlib.crc32(name.encode())])
    added = rng.normal(0, noise, rows.x.shape) if noise else 0
    return _Holding((rows.x + added).astype(np.float32), rows.y, rows.image, rows.ambiguous)


def _split(holdings: dict[str, _Holding], fractions: Fractions, seed: int) -> Federation:
    """Images are split, class by class and clear apart from ambiguous ones; their rows follow them."""
    shown = {}
    for name, held in holdings.items():
        numbers, first = np.unique(held.image, return_index=True)
        shown[name] = (numbers[:, None], held.y[first] + CLASSES * held.ambiguous[first])
    dealt = Federation.from_arrays(shown, fractions=fractions, seed=seed, classes=2 * CLASSES)
    splits = {}
    for client in dealt.clients:
        held = holdings[client.name]
        own = {name: np.flatnonzero(np.isin(held.image, client.split(name).kept)) for name in SPLITS}
        splits[client.name] = {name: Split(held.x[rows], held.y[rows]) for name, rows in own.items()}
    return Federation.from_splits(splits, classes=CLASSES)


def _read(source: Source | None) -> _Ambiguous:
    require(
        source in (None, "published", "built"),
        f"dirty_mnist: source is {source!r}.",
        'Use "published", "built", or None for the first of them that is here.',
    )
    published = [home.find(place.NAME, name) for name in (SAMPLES, LABELS)]
    if all(published) and source != "built":
        return _read_published([path for path in published if path])
    built = place.found()
    if built and source != "published":
        return _read_built(built)
    raise FileError(
        f"Ambiguous-MNIST{f' as {source}' if source else ''} is not on this machine. Run `lossgap data fetch "
        f"{place.NAME}` to download what its authors published, or `{place.COMMAND}` to build it from MNIST, which "
        "takes about half an hour."
    )


def _read_built(folder: Path) -> _Ambiguous:
    from lossgap.datasets.ambiguous import built  # imported late: it loads JAX, which rows do not need

    found = built.read(folder)
    return _Ambiguous(
        Split(found.images, found.labels, unit=images.WHITE).x, found.labels.astype(np.int32), found.group
    )


def _read_published(paths: Sequence[Path]) -> _Ambiguous:
    from lossgap.datasets import fetch  # imported late: rows from MNIST alone need no downloads
    from lossgap.datasets.tensors import tensor

    for finding in fetch.verify(fetch.named(place.NAME)):
        if not finding.good:
            raise FileError(
                f"{finding.path}: these are not the bytes that were published. Run `lossgap data fetch {place.NAME}`."
            )
    samples, labels = (tensor(path) for path in paths)
    if samples.shape[1:] != (1, SIDE, SIDE) or labels.ndim != 2 or len(labels) != len(samples):
        raise FileError(f"{paths[0]}: samples have shape {samples.shape} and labels {labels.shape}. Fetch them again.")
    _, copy = np.unique(samples.reshape(len(samples), -1), axis=0, return_inverse=True)
    return _Ambiguous(samples[:, 0].astype(np.float32), labels.astype(np.int32), copy)
