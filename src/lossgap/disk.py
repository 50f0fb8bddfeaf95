"""Files that are whole or not there: written beside their place, then moved into it.

Arrays go into safetensors, everything else into JSON; nothing is ever pickled.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lossgap.errors import FileError

SHORT = 12
"""So many digits of a hash name a folder; the whole hash is kept inside and compared."""

Tensors = Mapping[str, np.ndarray]


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A draft to write into, which takes the folder's place once the block has ended well."""
    with _named(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.parent / f".{folder.name}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            yield draft
            for path in draft.iterdir():
                _settle(path)
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(draft, folder)
            _settle(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A draft to write, which takes the file's place once the block has ended well."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            _settle(draft)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def remove_drafts(path: Path) -> None:
    """Drafts of a file that were left by processes that were killed while they wrote it."""
    for draft in path.parent.glob(f".{path.name}.*.draft"):
        draft.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except (OSError, SafetensorError) as problem:
        cause = getattr(problem, "strerror", None) or str(problem)
        raise FileError(
            f"{path} cannot be written: {cause}. What was there before is still there; make room, or choose another "
            "folder, and start again."
        ) from problem


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, default=plain) + "\n")


def read_json(path: Path, again: str) -> Any:
    """What a JSON file holds; `again` says how to come by it anew."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FileError(f"{path} is missing. {again}") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {problem}. It may be cut off. {again}") from problem


def plain(number: Any) -> Any:
    """NumPy's and JAX's numbers and arrays, which JSON does not know."""
    return np.asarray(number).tolist()


def write_tensors(path: Path, tensors: Tensors, about: Mapping[str, str] | None = None) -> None:
    # As bytes: `save_file` makes files that nobody else may read, and stores are shared.
    path.write_bytes(save({name: np.asarray(a, order="C") for name, a in tensors.items()}, dict(about or {})))


def read_tensors(path: Path, again: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a file, and what it says about them."""
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise FileError(f"{path} is missing. {again}") from None
    except (SafetensorError, OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {problem}. It may be cut off. {again}") from problem


def leaves(tree: Any) -> dict[str, Any]:
    """A tree's arrays by their paths."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settle(path: Path) -> None:
    """Have a file or a folder's entries outlast a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
