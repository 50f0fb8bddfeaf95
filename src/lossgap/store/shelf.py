"""Entries on disk, each in a folder that is named after its hash and is there as a whole or not at all.

Beside its files an entry holds a card: what it is the result of, when and how it came about, and a digest of each file.
"""

import platform
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import jax

import lossgap
from lossgap.disk import file_digest, read_json, whole_folder, write_json
from lossgap.errors import DataWarning, FileError
from lossgap.federation import Federation
from lossgap.identity import Identity

T = TypeVar("T")

CARD = "entry.json"
FORMAT = "lossgap entry"
VERSION = 1
AGAIN = "Remove its folder, and it will be made again."


class Damaged(FileError):
    """An entry that is not as it was written."""


@dataclass(frozen=True)
class Entry:
    """What a card says."""

    folder: Path
    key: str
    label: str
    identity: Mapping[str, Any]
    about: Mapping[str, Any]  # when and how it came about, and its summary
    files: Mapping[str, str]  # digest by name
    lossgap: str

    @property
    def diverged(self) -> str | None:
        """How the run diverged, if it did."""
        message: str | None = self.about.get("diverged")
        return message

    def check(self) -> None:
        """Refuse files that are not as they were written."""
        for name, digest in self.files.items():
            path = self.folder / name
            if not path.is_file():
                raise Damaged(f"{path} is missing. {AGAIN}")
            if file_digest(path) != digest:
                raise Damaged(f"{path} is damaged: it is not as it was written. {AGAIN}")


@dataclass(frozen=True)
class Shelf:
    """A folder of entries."""

    folder: Path

    def place(self, identity: Identity) -> Path:
        return self.folder / identity.name

    def holds(self, identity: Identity) -> bool:
        return (self.place(identity) / CARD).is_file()

    def land(self, identity: Identity, write: Callable[[Path], None], about: Mapping[str, Any]) -> Path:
        """Put an entry onto the shelf, all or nothing. Who does so holds the claim on it."""
        place = self.place(identity)
        for draft in self.folder.glob(f".{place.name}-*"):  # of a process that was killed while it wrote
            shutil.rmtree(draft, ignore_errors=True)
        with whole_folder(place) as draft:
            write(draft)
            card = {
                "format": FORMAT,
                "version": VERSION,
                "lossgap": lossgap.__version__,
                "key": identity.key,
                "label": identity.label,
                "identity": identity.content,
                "about": about,
                "files": {path.name: file_digest(path) for path in sorted(draft.iterdir())},
            }
            write_json(draft / CARD, card)
        return place

    def entry(self, identity: Identity) -> Entry:
        """One entry, whose files are as they were written and which is what it should be."""
        entry = read_entry(self.place(identity))
        if entry.key != identity.key or entry.identity != identity.content:
            raise Damaged(f"{entry.folder} holds something else than its name says. {AGAIN}")
        entry.check()
        return entry

    def remove(self, identity: Identity) -> None:
        shutil.rmtree(self.place(identity), ignore_errors=True)

    def __iter__(self) -> Iterator[Entry]:
        """Every entry whose card can be read, in order of their names."""
        for folder in sorted(self.folder.glob("*/")):
            if not folder.name.startswith(".") and (folder / CARD).is_file():
                yield read_entry(folder)


def read_entry(folder: Path) -> Entry:
    """What the card of an entry says."""
    path = folder / CARD
    try:
        card = read_json(path, AGAIN)
    except FileError as problem:
        raise Damaged(str(problem)) from problem
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise FileError(f"{path} was not written by lossgap. {AGAIN}")
    if card.get("version") != VERSION:
        raise FileError(
            f"{path} has format version {card.get('version')}, and this lossgap {lossgap.__version__} reads version "
            f"{VERSION}. Read it with lossgap {card.get('lossgap')}, which wrote it."
        )
    try:
        return Entry(folder, *(card[name] for name in ("key", "label", "identity", "about", "files", "lossgap")))
    except KeyError as missing:
        raise Damaged(f"{path} lacks {missing}. {AGAIN}") from missing


def read(shelf: Shelf, identity: Identity, reader: Callable[[Entry], T]) -> T | None:
    """An entry, or None if there is none; one that is damaged is taken off the shelf, with a warning."""
    if not shelf.holds(identity):
        return None
    try:
        return reader(shelf.entry(identity))
    except Damaged as problem:
        warnings.warn(f"{problem} It is trained again.", DataWarning, stacklevel=2)
        shelf.remove(identity)
        return None


def provenance(federation: Federation, seconds: float) -> dict[str, Any]:
    """When and where something was computed, and on what; for people to read."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "machine": f"{platform.node()} ({platform.machine()})",
        "jax": jax.__version__,
        "federation": str(federation),
    }
