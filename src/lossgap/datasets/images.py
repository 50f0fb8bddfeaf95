"""EMNIST, MNIST and Fashion-MNIST: real images of 28×28 pixels, divided class by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lossgap.datasets import home, idx
from lossgap.datasets.divide import by_class
from lossgap.datasets.parts import Part, chosen
from lossgap.errors import FileError, require
from lossgap.federation import Federation, Fractions, Split
from lossgap.skew import Skew

Source = Literal["byclass", "bymerge", "balanced", "letters", "digits"]

WHITE = 255
"""The byte that stands for a pixel of 1."""


@dataclass(frozen=True)
class Archive:
    """A published pair of files, images and labels, for each part."""

    name: str  # what `lossgap data fetch` calls it
    stem: str  # of the files, with {part}
    parts: dict[Part, str]  # what the files call each part
    classes: int
    first_label: int = 0
    transposed: bool = False

    def path(self, part: Part, kind: Literal["images-idx3", "labels-idx1"]) -> tuple[str, str]:
        return self.name, f"{self.stem.format(part=self.parts[part])}-{kind}-ubyte"

    def there(self) -> list[Part]:
        """The parts that this machine has."""
        return [part for part in self.parts if home.find(*self.path(part, "images-idx3"))]


EMNIST: dict[str, Archive] = {
    source: Archive(
        "emnist",
        f"emnist-{source}-{{part}}",
        {"train": "train", "test": "test"},
        classes,
        first_label=1 if source == "letters" else 0,
        transposed=True,
    )
    for source, classes in (("byclass", 62), ("bymerge", 47), ("balanced", 47), ("letters", 26), ("digits", 10))
}
MNIST, FASHION_MNIST = (
    Archive(name, "{part}", {"train": "train", "test": "t10k"}, classes=10) for name in ("mnist", "fashion_mnist")
)


def emnist(
    *,
    clients: int = 10,
    alpha: float = 0.1,
    rows: int | None = 20_000,
    seed: int = 0,
    source: Source = "byclass",
    fractions: Fractions = (0.6, 0.2, 0.2),
    parts: Sequence[Part] | None = None,
    skew: Skew | None = None,
) -> Federation:
    """Handwritten letters and digits, divided class by class with Dirichlet(α): small α gives clients that hold few.

    Images [28, 28] are upright. They are kept as bytes; `x` are floats in [0, 1]. Every client holds at least ten.

    Args:
        clients: how many to divide the rows among.
        alpha: of the Dirichlet distribution.
        rows: a random subset of this many; None takes all.
        seed: of the subset, of the division and of each client's split.
        source: "byclass" (62 classes), "bymerge", "balanced" (47), "letters" (26) or "digits" (10).
        fractions: of training, validation and test rows.
        parts: the publisher's "train" and "test" images are pooled, since every client splits its own rows; name one
            to use it alone. By default those that are there, so name them where another machine must draw the same.
        skew: other ways in which clients differ, such as `lossgap.Skew(classes_each=5)`.
    """
    require(source in EMNIST, f"emnist: source is {source!r}.", f"Use one of {', '.join(EMNIST)}.")
    return _divided(EMNIST[source], clients, alpha, rows, seed, fractions, parts, skew)


def mnist(
    *,
    clients: int = 10,
    alpha: float = 0.1,
    rows: int | None = 20_000,
    seed: int = 0,
    fractions: Fractions = (0.6, 0.2, 0.2),
    parts: Sequence[Part] | None = None,
    skew: Skew | None = None,
) -> Federation:
    """Handwritten digits, divided class by class with Dirichlet(α). Arguments are those of `emnist`."""
    return _divided(MNIST, clients, alpha, rows, seed, fractions, parts, skew)


def fashion_mnist(
    *,
    clients: int = 10,
    alpha: float = 0.1,
    rows: int | None = 20_000,
    seed: int = 0,
    fractions: Fractions = (0.6, 0.2, 0.2),
    parts: Sequence[Part] | None = None,
    skew: Skew | None = None,
) -> Federation:
    """Pictures of clothes, divided class by class with Dirichlet(α). Arguments are those of `emnist`."""
    return _divided(FASHION_MNIST, clients, alpha, rows, seed, fractions, parts, skew)


def read(archive: Archive, *, rows: int | None, seed: int, parts: Sequence[Part] | None = None) -> Split:
    """Upright images as bytes, with labels from 0: all, or a random subset in the order of the files."""
    used = chosen(archive.name, parts, there=archive.there())
    labels = [_labels(archive, part) for part in used]
    total = sum(map(len, labels))
    require(
        rows is None or 1 <= rows <= total,
        f"{archive.name}: rows is {rows}, and {' and '.join(used)} together hold {total}.",
        "Ask for fewer, or for rows=None to have all.",
    )
    picked = np.arange(total)
    if rows is not None:
        picked = np.sort(np.random.default_rng(seed).choice(total, rows, replace=False))
    starts = np.cumsum([0, *map(len, labels)])[:-1]
    within = np.split(picked, np.searchsorted(picked, starts[1:]))
    images = [
        _images(archive, part, own - start, len(y))
        for part, own, start, y in zip(used, within, starts, labels, strict=True)
    ]
    return Split(np.concatenate(images), np.concatenate(labels)[picked], unit=WHITE)


def _divided(
    archive: Archive,
    clients: int,
    alpha: float,
    rows: int | None,
    seed: int,
    fractions: Fractions,
    parts: Sequence[Part] | None,
    skew: Skew | None,
) -> Federation:
    pool = read(archive, rows=rows, seed=seed, parts=parts)
    return by_class(
        pool, clients=clients, alpha=alpha, seed=seed, fractions=fractions, classes=archive.classes, skew=skew
    )


def _labels(archive: Archive, part: Part) -> np.ndarray:
    path = home.need(*archive.path(part, "labels-idx1"), name=archive.name)
    stored = idx.labels(path)
    labels = stored.astype(np.int32) - archive.first_label
    _check_labels(path, stored, labels, archive)
    return labels


def _images(archive: Archive, part: Part, rows: np.ndarray, labels: int) -> np.ndarray:
    path = home.need(*archive.path(part, "images-idx3"), name=archive.name)
    stored = idx.images(path, rows, count=labels)
    return stored.transpose(0, 2, 1) if archive.transposed else stored


def _check_labels(path: Path, stored: np.ndarray, labels: np.ndarray, archive: Archive) -> None:
    bad = np.flatnonzero((labels < 0) | (labels >= archive.classes))
    if len(bad):
        first, last = archive.first_label, archive.first_label + archive.classes - 1
        raise FileError(
            f"{path}: the label of row {bad[0]} is {stored[bad[0]]}, but {archive.name} has labels {first} to {last}. "
            f"{idx.AGAIN}"
        )
