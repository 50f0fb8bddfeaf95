"""MNIST as the recipe uses it."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from lossgap.datasets.ambiguous.recipe import DIGITS, PIXELS
from lossgap.datasets.images import MNIST, read
from lossgap.errors import require_data


@dataclass(frozen=True)
class Digits:
    """Training and test images as bytes [rows, pixels], with their labels [rows]."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def __post_init__(self) -> None:
        missing = sorted(set(range(DIGITS)) - set(self.labels.tolist()))
        require_data(not missing, f"MNIST's training images hold no {missing}.", "Give images of all ten digits.")

    @classmethod
    def published(cls) -> Self:
        """MNIST's own parts."""
        train, test = (read(MNIST, rows=None, seed=0, parts=(part,)) for part in ("train", "test"))
        return cls(train.kept.reshape(-1, PIXELS), train.y, test.kept.reshape(-1, PIXELS), test.y)

    @property
    def digest(self) -> str:
        """A hash of all images and labels."""
        found = hashlib.sha256()
        for array in (self.images, self.labels, self.test_images, self.test_labels):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    @property
    def by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of each class, [digits, most rows of a class], and how many of them count, [digits]."""
        counts = np.bincount(self.labels, minlength=DIGITS)
        rows = np.zeros((DIGITS, counts.max()), np.int32)
        for digit, count in enumerate(counts):
            rows[digit, :count] = np.flatnonzero(self.labels == digit)
        return rows, counts.astype(np.int32)
