"""A ready project for real sites: apps, scripts and instructions, copied from the files beside this one.

`base/` works as it stands, under the name my-federation; a folder of an example holds what differs there.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from lossgap.errors import require

HERE = Path(__file__).parent
NAME, PACKAGE = "my-federation", "my_federation"
"""What the files call the project, until it gets its own name."""

LONGEST_NAME = 32
Example = Literal["hospitals"]
EXAMPLES: tuple[Example, ...] = ("hospitals",)


def write(folder: Path, example: Example | None = None) -> list[Path]:
    """Write a project of the folder's name, and give the paths of its files."""
    name = folder.absolute().name
    _check(folder, name)
    written = []
    for source, place in sorted(_files(example).items(), key=lambda pair: pair[1]):
        path = folder / _named(str(place), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_named(source.read_text(), name))
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
        written.append(path)
    return written


def _check(folder: Path, name: str) -> None:
    require(
        re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name) and len(name) <= LONGEST_NAME,
        f"{name!r} cannot be the name of a Flower project.",
        f"Use a folder of letters, digits and hyphens, at most {LONGEST_NAME}, such as my-federation.",
    )
    package = _named(PACKAGE, name)
    require(
        package not in (*sys.stdlib_module_names, "lossgap", "flwr", "rehearse", "site"),
        f"{name!r} would hide the Python package {package!r}.",
        "Choose another name.",
    )
    require(
        not folder.exists() or (folder.is_dir() and not any(folder.iterdir())),
        f"{folder} exists and is not empty.",
        "Choose another folder.",
    )
    require(shutil.which("bash"), "The project's scripts need bash.", "Work on Linux or macOS, or in WSL on Windows.")


def _files(example: Example | None) -> dict[Path, Path]:
    """Where each file of the project comes from; an example's files stand in for those of the same place."""
    layers = [HERE / "base", *([HERE / example] if example else [])]
    places = {path.relative_to(layer): path for layer in layers for path in _within(layer)}
    return {source: place for place, source in places.items()}


def _within(layer: Path) -> Iterator[Path]:
    return (path for path in layer.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _named(text: str, name: str) -> str:
    return text.replace(PACKAGE, name.lower().replace("-", "_")).replace(NAME, name)
