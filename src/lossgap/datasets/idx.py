"""IDX files, the format of MNIST and its descendants: a few big-endian numbers, then one byte per pixel or label.

    0  0  8  dimensions  |  size of each dimension, 4 bytes each  |  the bytes

A file is read whole or refused: nothing is loaded from one that is cut off, too long, damaged or of another kind.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lossgap.errors import FileError

GZIP = b"\x1f\x8b"
BYTES = 8
"""The number that says: unsigned bytes."""

LARGEST_PACKING = 1032
"""Deflate makes nothing smaller than one byte in this many."""

CHUNK = 1 << 20
AGAIN = "Fetch or copy the file again."


def labels(path: Path) -> np.ndarray:
    """One label per row, [rows]."""
    with _opened(path) as stream:
        (count,) = _sizes(path, stream, dimensions=1)
        return _body(path, stream, (count,), None)


def images(path: Path, rows: np.ndarray | None = None, *, count: int | None = None) -> np.ndarray:
    """Images as they are stored, [rows, first, second]: all of them, or those of ascending row numbers.

    The others are read and checked as well, but never kept. `count` is how many there must be in the file.
    """
    with _opened(path) as stream:
        sizes = _sizes(path, stream, dimensions=3)
        if count is not None and sizes[0] != count:
            raise FileError(f"{path}: the file holds {sizes[0]} images for {count} labels. {AGAIN}")
        return _body(path, stream, sizes, rows)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file, packed or not, whatever its name says."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(GZIP)) == GZIP
            raw.seek(0)
            with gzip.open(raw) if packed else raw as stream:
                yield stream  # type: ignore[misc]  # GzipFile reads like any file
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file. Check the path.") from None
    except EOFError:
        raise FileError(f"{path}: the file is cut off. {AGAIN}") from None
    except zlib.error as problem:
        raise FileError(f"{path}: the file is damaged: {problem}. {AGAIN}") from problem
    except FileError:
        raise
    except OSError as problem:  # among them the checksum at the end of a .gz
        raise FileError(f"{path}: the file cannot be read: {problem}. {AGAIN}") from problem


def _sizes(path: Path, stream: BinaryIO, *, dimensions: int) -> tuple[int, ...]:
    head = _read(path, stream, 4)
    if head != bytes([0, 0, BYTES, dimensions]):
        raise FileError(
            f"{path}: the file begins with the bytes {head.hex(' ')}, but an IDX file of "
            f"{'images' if dimensions == 3 else 'labels'} begins with 00 00 08 {dimensions:02x}. "
            "Check that it is the right file, and fetch it again if so."
        )
    sizes = struct.unpack(f">{dimensions}I", _read(path, stream, 4 * dimensions))
    _check_sizes(path, sizes)
    return sizes


def _check_sizes(path: Path, sizes: tuple[int, ...]) -> None:
    most = LARGEST_PACKING * path.stat().st_size
    if not 0 < math.prod(sizes) <= most:
        shown = " × ".join(map(str, sizes))
        raise FileError(f"{path}: the header speaks of {shown} values, which the file cannot hold. {AGAIN}")


def _body(path: Path, stream: BinaryIO, sizes: tuple[int, ...], rows: np.ndarray | None) -> np.ndarray:
    count, width = sizes[0], math.prod(sizes[1:])
    kept = np.empty((count if rows is None else len(rows), width), np.uint8)
    at_once, done = max(1, CHUNK // width), 0
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        block = np.frombuffer(_read(path, stream, (last - first) * width), np.uint8).reshape(-1, width)
        if rows is not None:
            low, high = np.searchsorted(rows, (first, last))
            block = block[rows[low:high] - first]
        kept[done : done + len(block)] = block
        done += len(block)
    if stream.read(1):  # also makes gzip check what it has read
        raise FileError(f"{path}: the file goes on after the {count} rows that its header speaks of. {AGAIN}")
    return kept.reshape(-1, *sizes[1:])


def _read(path: Path, stream: BinaryIO, count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise FileError(f"{path}: the file is cut off. {AGAIN}")
    return content
