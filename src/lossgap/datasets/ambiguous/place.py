"""Where a built Ambiguous-MNIST lies: among the data sets, or in the user's cache if nothing may be written there."""

import os
import stat
from pathlib import Path

from lossgap.datasets import home

NAME = "ambiguous-mnist"
TENSORS, MANIFEST, SHEET = "ambiguous-mnist.safetensors", "manifest.json", "contact-sheet.png"
ANY_WRITER = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
COMMAND = f"lossgap data build {NAME}"


def found() -> Path | None:
    """The folder of the built data set, if there is one."""
    return next((each for each in _places() if (each / MANIFEST).is_file()), None)


def room() -> Path:
    """The folder to build it in: the first that may be written."""
    return next((each for each in _places() if _writable(each)), _places()[-1])


def _places() -> tuple[Path, ...]:
    own = home.user_cache() / "data" / NAME / "built"
    return tuple(dict.fromkeys((home.folder() / NAME / "built", own)))


def _writable(folder: Path) -> bool:
    ground = next(path for path in (folder, *folder.parents) if path.exists())
    marked_read_only = not ground.stat().st_mode & ANY_WRITER  # to be respected by root as well, who may do all
    return ground.is_dir() and os.access(ground, os.W_OK) and not marked_read_only
