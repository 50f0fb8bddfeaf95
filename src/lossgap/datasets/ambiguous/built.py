"""A built Ambiguous-MNIST on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lossgap.datasets.ambiguous.figures import Figures
from lossgap.datasets.ambiguous.place import COMMAND, MANIFEST, TENSORS
from lossgap.disk import file_digest, read_json, read_tensors
from lossgap.errors import FileError

FORMAT = "lossgap ambiguous-mnist"
VERSION = 2
DIGEST = f"{TENSORS} sha256"


@dataclass(frozen=True)
class Built:
    """What a build left: the training part, then the test part, of equal size.

    Args:
        images: bytes, [rows, height, width].
        labels: several for each image, [rows, labels].
        group: by number, of what each image is a mixture, [rows]. Images of one group are twins, or nearly.
        recipe: by which it was built.
        figures: how near it comes to the published data set.
    """

    images: np.ndarray
    labels: np.ndarray
    group: np.ndarray
    recipe: dict[str, Any]
    figures: Figures


def read(folder: Path) -> Built:
    """A built data set, if its files are what the build left there."""
    again = f"Delete {folder} and run `{COMMAND}`."
    manifest = read_json(folder / MANIFEST, again)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileError(f"{folder / MANIFEST} was not written by a build. {again}")
    if manifest.get("version") != VERSION:
        raise FileError(f"{folder} was built by lossgap {manifest.get('lossgap')}, in another format. {again}")
    path = folder / TENSORS
    tensors, _ = read_tensors(path, again)
    if file_digest(path) != manifest.get(DIGEST):
        raise FileError(f"{path} is not what the build left there: its checksum differs. {again}")
    figures = Figures(**manifest["figures"] | {"entropies": tuple(manifest["figures"]["entropies"])})
    return Built(tensors["images"], tensors["labels"], tensors["group"], manifest["recipe"], figures)
