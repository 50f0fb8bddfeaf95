"""What a store holds, for people to look through: finished runs, runs under way, and what cannot be read."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from lossgap.disk import SHORT, read_json, read_tensors
from lossgap.engine.checkpoint import FILE
from lossgap.errors import FileError, require
from lossgap.metrics import ClientRow, Summary
from lossgap.store.claims import holder
from lossgap.store.layout import Layout
from lossgap.store.plans import PLAN
from lossgap.store.results import rows_of
from lossgap.store.shelf import CARD, Damaged, Entry, read_entry

SHOWN = 8
"""So many digits of a hash are shown; as few as tell runs apart are enough to name one."""


@dataclass(frozen=True)
class Found:
    """A folder of a store.

    Args:
        key: its hash, or as much of it as is known.
        label: for people.
        state: "done", or what else is the matter.
        entry: what its card says, if that can be read.
        problem: why something cannot be read.
    """

    folder: Path
    key: str
    label: str
    state: str
    entry: Entry | None = None
    problem: str = ""

    @property
    def whole(self) -> bool:
        return self.state == "done"

    @property
    def settings(self) -> dict[str, Any]:
        assert self.entry is not None
        return dict(self.entry.identity)

    def clients(self) -> tuple[ClientRow, ...]:
        return rows_of(self.folder)

    def summary(self) -> Summary:
        return Summary.of(self.clients())


def runs(layout: Layout) -> list[Found]:
    """Every run on the shelf, in order of method and seed."""
    found = [_entry(folder) for folder in _folders(layout.results.folder)]
    return sorted(found, key=lambda run: (run.label, run.key))


def solos(layout: Layout) -> list[Found]:
    """Solo models."""
    return [_entry(folder) for folder in _folders(layout.solos.folder)]


def under_way(layout: Layout) -> list[Found]:
    """Passes that have begun and not ended, and solo training."""
    return [_unfinished(layout, folder) for folder in _folders(layout.unfinished)]


def named(found: Sequence[Found], names: Sequence[str]) -> list[Found]:
    """Those that the names stand for: the first digits of a hash, a label, or a pattern such as "Eagle*".

    Without names, all of them.
    """
    chosen: list[Found] = []
    for name in names:
        hits = [each for each in found if each.key.startswith(name) or fnmatch(each.label, name)]
        require(hits, f"{name!r} names nothing in this store.", "`lossgap runs list` shows what there is.")
        chosen += [hit for hit in hits if hit not in chosen]
    return chosen if names else list(found)


def remove(layout: Layout, found: Found) -> None:
    """Take something out of a store, unless somebody is at work on it."""
    owner = _owner(layout, found)
    require(owner is None, f"{owner} is at work on {found.label}.", "Wait, or stop that process first.")
    shutil.rmtree(found.folder)


def size(found: Found) -> int:
    """In bytes."""
    return sum(path.stat().st_size for path in found.folder.rglob("*") if path.is_file())


def _folders(room: Path) -> Iterator[Path]:
    for folder in sorted(room.glob("*/")):
        if not folder.name.startswith("."):
            yield folder


def _entry(folder: Path) -> Found:
    label, _, key = folder.name.rpartition("-")
    if not (folder / CARD).is_file():
        return Found(folder, key, label, "damaged", problem=f"{folder} has no {CARD}.")
    try:
        entry = read_entry(folder)
        entry.check()
    except Damaged as problem:
        return Found(folder, key, label, "damaged", problem=str(problem))
    except FileError as problem:
        return Found(folder, key, label, "of another version", problem=str(problem))
    return Found(folder, entry.key, entry.label, "diverged" if entry.diverged else "done", entry)


def _unfinished(layout: Layout, folder: Path) -> Found:
    """How far a pass, or solo training, has come, and who is at work on it."""
    plan = _plan(folder)
    label = " + ".join(plan["labels"]) if plan else "solo models"
    try:
        done = f"saved after {read_tensors(folder / FILE, '')[1]['done']} {'rounds' if plan else 'epochs'}"
    except (FileError, KeyError):
        done = "not saved yet"
    found = Found(folder, folder.name, label, done)
    owner = _owner(layout, found)
    return Found(folder, folder.name, label, f"{done}, {f'{owner} is at work' if owner else 'cut off'}")


def _plan(folder: Path) -> dict[str, Any] | None:
    try:
        plan = read_json(folder / PLAN, "")
        return {"runs": [str(key) for key in plan["runs"]], "labels": [str(label) for label in plan["labels"]]}
    except (FileError, KeyError, TypeError):
        return None


def _owner(layout: Layout, found: Found) -> str | None:
    """Who is at work on it."""
    locks = layout.planning.parent
    plan = _plan(found.folder)
    keys = plan["runs"] if plan else [found.key]
    places = [place for key in keys for place in locks.glob(f"{key}*.lock")]
    return next((owner for place in places if (owner := holder(place))), None)


def setting(run: Found) -> str:
    """All that a run follows from but its method and its seed: runs that share it may be compared."""
    content = run.settings
    same = {name: content[name] for name in ("model", "training", "lossgap")}
    solo = content["solo"].get("stop", "given")
    return json.dumps([same, solo, [client.name for client in run.clients()]], sort_keys=True)


def federation(run: Found) -> str:
    """The hash of the rows."""
    return str(run.settings["federation"])[:SHORT]
