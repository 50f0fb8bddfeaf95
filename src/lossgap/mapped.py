"""Rows that stay in a file until they are asked for.

A memory-mapped array (`numpy.load(path, mmap_mode="r")`, `numpy.memmap`) takes no memory of its own. Choosing rows of
it as NumPy does would copy them; `Mapped` remembers which are chosen and reads them when they are needed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

BLOCK_BYTES = 1 << 22
"""Rows are looked at in blocks of about this size."""


class Mapped(Sequence[np.ndarray]):
    """Some rows of a memory-mapped array, [rows, ...]."""

    def __init__(self, source: np.ndarray, chosen: np.ndarray) -> None:
        self.source, self.chosen = source, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.source.shape[1:])

    @property
    def ndim(self) -> int:
        return self.source.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype

    def __getitem__(self, rows: Any) -> Any:
        """A row, or those of a slice or an array of row numbers, read into memory."""
        wanted = self.chosen[rows]
        if wanted.ndim == 0:
            return np.array(self.source[wanted])
        if (np.diff(wanted) >= 0).all():
            return np.asarray(self.source[wanted])
        order = np.argsort(wanted, kind="stable")  # a disk is read forwards
        read = np.empty((len(wanted), *self.source.shape[1:]), self.dtype)
        read[order] = self.source[wanted[order]]
        return read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in memory."""
        return self[:] if dtype is None else self[:].astype(dtype)

    def reshape(self, *shape: int) -> np.ndarray:
        return self[:].reshape(*shape)

    def take(self, rows: np.ndarray) -> "Mapped":
        """Some of these rows, still in their file."""
        return Mapped(self.source, self.chosen[rows])

    def __repr__(self) -> str:
        return f"{len(self)} of the {len(self.source)} rows of {getattr(self.source, 'filename', 'an array')}"


def is_mapped(rows: object) -> bool:
    """Whether these rows lie in a file."""
    return isinstance(rows, (Mapped, np.memmap))


def chosen(rows: Any, numbers: np.ndarray) -> Any:
    """Some rows of an array, [rows, ...]; those that lie in a file stay there."""
    if isinstance(rows, Mapped):
        return rows.take(numbers)
    return Mapped(rows, np.asarray(numbers)) if is_mapped(rows) else rows[numbers]


def in_blocks(rows: Any) -> Iterator[tuple[int, np.ndarray]]:
    """All rows, a block at a time, and the number of each block's first row."""
    width = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.dtype.itemsize
    at_once = max(1, BLOCK_BYTES // max(1, width))
    for first in range(0, len(rows), at_once):
        yield first, np.asarray(rows[first : first + at_once])
