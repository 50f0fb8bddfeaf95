"""Where a store keeps what, and whether a folder is one."""

import os
from dataclasses import dataclass
from pathlib import Path

import lossgap
from lossgap.disk import read_json, whole_file, write_json
from lossgap.engine.checkpoint import SECONDS, Checkpoints
from lossgap.errors import FileError
from lossgap.identity import Identity
from lossgap.store.shelf import Shelf

FORMAT = "lossgap store"
VERSION = 1
CARD = "store.json"
ROOMS = ("results", "solo", "unfinished", "locks")


@dataclass(frozen=True)
class Layout:
    """The rooms of a store."""

    folder: Path
    seconds: float = SECONDS  # between two times that work is saved

    @property
    def results(self) -> Shelf:
        return Shelf(self.folder / "results")

    @property
    def solos(self) -> Shelf:
        return Shelf(self.folder / "solo")

    @property
    def unfinished(self) -> Path:
        return self.folder / "unfinished"

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.unfinished, self.seconds)

    @property
    def planning(self) -> Path:
        """Held while a process chooses what to do next."""
        return self.folder / "locks" / "planning.lock"

    def lock(self, identity: Identity) -> Path:
        """Held while a process works on this."""
        return self.folder / "locks" / f"{identity.key}.lock"


def opened(folder: str | Path, seconds: float = SECONDS) -> Layout:
    """A store, made if there is none yet; refused, before any work is done, if it could not be read or written."""
    layout = Layout(Path(folder), seconds)
    card = layout.folder / CARD
    if card.exists():
        _check_card(card)
    else:
        _check_free(layout.folder)
        with whole_file(card) as draft:
            write_json(draft, {"format": FORMAT, "version": VERSION, "lossgap": lossgap.__version__})
    return layout


def check_writable(layout: Layout) -> None:
    if not os.access(layout.folder, os.W_OK):
        raise FileError(f"{layout.folder} cannot be written by you. Choose another folder, or make it writable.")


def _check_card(path: Path) -> None:
    card = read_json(path, "Restore it from a backup, or choose another folder for the store.")
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise FileError(f"{path} was not written by lossgap. Choose another folder for the store.")
    if card.get("version") != VERSION:
        raise FileError(
            f"{path} has format version {card.get('version')}, and this lossgap {lossgap.__version__} reads version "
            f"{VERSION}. Use lossgap {card.get('lossgap')}, which wrote it, or choose another folder."
        )


def _check_free(folder: Path) -> None:
    taken = [name for name in ROOMS if (folder / name).exists()]
    if taken:
        raise FileError(
            f"{folder} is no store, yet holds {' and '.join(taken)}, where a store would write. Choose another folder."
        )
    ground = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not (ground.is_dir() and os.access(ground, os.W_OK)):
        raise FileError(f"{folder} cannot be written: {ground} is no folder that you may write to. Choose another.")
