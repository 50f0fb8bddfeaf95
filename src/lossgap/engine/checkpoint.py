"""Where work stands, on disk: what a process that is killed leaves for the next one to go on from."""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lossgap
from lossgap.disk import SHORT, Tensors, leaves, read_tensors, remove_drafts, whole_file, write_tensors
from lossgap.errors import DataWarning, FileError, require

FORMAT = "lossgap checkpoint"
VERSION = 1
FILE = "checkpoint.safetensors"
SECONDS = 10.0
WORTH = 50
"""Saving waits until this many times as long has passed as it took the last time: it never costs more than 2 %."""

Tree = Any


@dataclass(frozen=True)
class Standing:
    """How far work has come.

    Args:
        done: rounds, or whatever the work counts.
        tree: arrays and random keys, in any arrangement.
        notes: further arrays of any length, put together only when they are written.
    """

    done: int
    tree: Tree
    notes: Callable[[], Tensors]


@dataclass(frozen=True)
class Checkpoint:
    """One file that holds how far one piece of work has come. One process at a time may use it.

    Args:
        path: where.
        key: the hash of what the work is. A file with another key is set aside, never read.
        seconds: between two times that it is written.
    """

    path: Path
    key: str
    seconds: float = SECONDS

    def read(self, like: Tree) -> Standing | None:
        """How far the work has come; None if it is to begin. What cannot be gone on from is set aside with a warning.

        Args:
            like: a tree of the arrangement, shapes and types that the work has.
        """
        remove_drafts(self.path)
        if not self.path.exists():
            return None
        try:
            return self._read(like)
        except FileError as problem:
            aside = self._set_aside()
            warnings.warn(f"{problem} It is set aside as {aside.name}, and work begins anew.", DataWarning, 2)
            return None

    def spent(self) -> float:
        """Seconds that went into what is saved."""
        try:
            return float(read_tensors(self.path, "")[1]["seconds"])
        except (FileError, KeyError, ValueError):
            return 0.0

    def write(self, standing: Standing, seconds: float = 0.0) -> None:
        """Save, all or nothing, after so many seconds of work."""
        tensors = _tensors(standing)
        about = {
            "format": FORMAT,
            "version": str(VERSION),
            "lossgap": lossgap.__version__,
            "key": self.key,
            "done": str(standing.done),
            "seconds": f"{seconds:.3f}",
            "digest": _digest(tensors),
        }
        with whole_file(self.path) as draft:
            write_tensors(draft, tensors, about)

    def remove(self) -> None:
        """The work is finished. The folder goes as well if nothing else is in it."""
        self.path.unlink(missing_ok=True)
        remove_drafts(self.path)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _read(self, like: Tree) -> Standing:
        tensors, about = read_tensors(self.path, "")
        _check(self.path, self.key, tensors, about)
        tree = _restored(self.path, like, {name[5:]: a for name, a in tensors.items() if name.startswith("tree ")})
        notes = {name[5:]: a for name, a in tensors.items() if name.startswith("note ")}
        return Standing(int(about["done"]), tree, lambda: notes)

    def _set_aside(self) -> Path:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.aside-{number}")).exists():
            number += 1
        return self.path.rename(aside)


@dataclass(frozen=True)
class Checkpoints:
    """Where runs are saved while they are trained, and how often.

    Args:
        folder: each run has a folder of its own in it, until it has ended.
        seconds: between two saves: what is lost at most if the process is killed.
    """

    folder: str | Path
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        require(self.seconds >= 0, f"Checkpoints: seconds is {self.seconds}.", "Use a number such as 10.")

    def of(self, key: str) -> Checkpoint:
        """The checkpoint of the work with this hash."""
        return Checkpoint(Path(self.folder) / key[:SHORT] / FILE, key, self.seconds)


Saves = Checkpoints | str | Path
"""Checkpoints, or the folder that they go to."""


@contextmanager
def kept(wish: Saves | Checkpoint | None, key: Callable[[], str]) -> Iterator[Checkpoint | None]:
    """The checkpoint of the work with this hash, removed once the block has ended well.

    One that is bound to some work already is left to whoever made it.
    """
    if wish is None or isinstance(wish, Checkpoint):
        yield wish
        return
    checkpoint = (wish if isinstance(wish, Checkpoints) else Checkpoints(wish)).of(key())
    yield checkpoint
    checkpoint.remove()


@contextmanager
def saving(checkpoint: Checkpoint | None) -> Iterator[Callable[[Standing], None]]:
    """Yields a function to be told how far work has come: that is saved at intervals, and if it is interrupted."""
    if checkpoint is None:
        yield lambda standing: None
        return
    started = time.monotonic() - checkpoint.spent()
    latest: Standing | None = None
    due = time.monotonic() + checkpoint.seconds

    def save(standing: Standing) -> None:
        checkpoint.write(standing, time.monotonic() - started)

    def told(standing: Standing) -> None:
        nonlocal latest, due
        latest, now = standing, time.monotonic()
        if now >= due:
            save(standing)
            took = time.monotonic() - now
            due = now + took + max(checkpoint.seconds, WORTH * took)

    try:
        yield told
    except (KeyboardInterrupt, SystemExit):
        if latest is not None:
            save(latest)
        raise


def _tensors(standing: Standing) -> dict[str, np.ndarray]:
    tree = {f"tree {path}": _bare(leaf) for path, leaf in leaves(standing.tree).items()}
    return tree | {f"note {name}": np.asarray(a) for name, a in standing.notes().items()}


def _bare(leaf: Any) -> np.ndarray:
    """An array as safetensors can hold it: random keys as the numbers, unusual types as the bytes they are made of."""
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else jnp.asarray(leaf))
    return array[..., None].view(np.uint8) if array.dtype.kind == "V" else array


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _restored(path: Path, like: Tree, stored: Tensors) -> Tree:
    wanted = leaves(like)
    if _kinds(stored) != _kinds({name: _bare(a) for name, a in wanted.items()}):
        raise FileError(f"{path} holds a state of another shape.")
    return jax.tree.unflatten(jax.tree.structure(like), [_dressed(stored[name], a) for name, a in wanted.items()])


def _kinds(tensors: Tensors) -> dict[str, Any]:
    return {name: (a.shape, a.dtype) for name, a in tensors.items()}


def _dressed(array: np.ndarray, like: Any) -> Any:
    """What was stored, as the work has it."""
    if _is_key(like):
        dressed = jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    else:
        kind = jnp.asarray(like).dtype
        dressed = jnp.asarray(array.view(kind)[..., 0] if kind.kind == "V" else array)
    placed = isinstance(like, jax.Array) and like.committed  # to the devices that share the work
    return jax.device_put(dressed, like.sharding) if placed else dressed


def _check(path: Path, key: str, tensors: Tensors, about: Mapping[str, str]) -> None:
    if about.get("format") != FORMAT:
        raise FileError(f"{path} was not written by lossgap.")
    if about.get("version") != str(VERSION):
        raise FileError(f"{path} has format version {about.get('version')}, of lossgap {about.get('lossgap')}.")
    if about.get("key") != key:
        raise FileError(f"{path} is of other work, or of another version of lossgap ({about.get('lossgap')}).")
    if about.get("digest") != _digest(tensors):
        raise FileError(f"{path} is damaged: it is not as it was written.")


def _digest(tensors: Tensors) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
