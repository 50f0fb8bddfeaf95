"""A contact sheet: some images of a built set as one picture, for people to look at."""

import struct
import zlib

import numpy as np

from lossgap.datasets.ambiguous.pixels import WHITE

LINES, COLUMNS = 12, 24
GAP = 2
SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY_BYTES = 8, 0, 0, 0, 0
"""Bits per pixel, kind of colour, and the only choice for packing, filtering and interlacing."""


def contact_sheet(images: np.ndarray, entropy: np.ndarray) -> bytes:
    """A PNG of images [rows, height, width], black on white: the clearest in the first line, the least clear last.

    Images that are there several times are shown once.
    """
    wanted = LINES * COLUMNS
    _, once = np.unique(images, axis=0, return_index=True)
    images, entropy = images[once], entropy[once]
    shown = np.linspace(0, len(images) - 1, min(wanted, len(images))).astype(int)
    chosen = images[np.argsort(entropy, kind="stable")[shown]]
    height, width = images.shape[1] + GAP, images.shape[2] + GAP
    tiles = np.zeros((wanted, height, width), np.uint8)
    tiles[: len(chosen), GAP:, GAP:] = chosen
    return png(WHITE - tiles.reshape(LINES, COLUMNS, height, width).swapaxes(1, 2).reshape(LINES * height, -1))


def png(picture: np.ndarray) -> bytes:
    """A picture of bytes [height, width] as a PNG file."""
    height, width = picture.shape
    lines = np.pad(picture, ((0, 0), (1, 0)))  # each line begins with the number of its filter: none
    chunks = (
        (b"IHDR", struct.pack(">II5B", width, height, *GREY_BYTES)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(*each) for each in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
