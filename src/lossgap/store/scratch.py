"""A store for the time of one command: it is removed with the last of its users, and kept if they are cut off."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lossgap.engine.checkpoint import FILE, SECONDS
from lossgap.store.layout import CARD
from lossgap.store.results import DESCRIPTION
from lossgap.store.store import Store


@contextmanager
def scratch(folder: Path, *, checkpoint_seconds: float = SECONDS) -> Iterator[Store]:
    """A store that goes once the block has ended well, or if there is nothing in it that would be missed.

    Commands that run at the same time may share it.
    """
    ground = [each for each in (folder.parent, *folder.parent.parents) if not each.exists()]
    store, handle = _entered(folder, checkpoint_seconds)
    ended_well = False
    try:
        yield store
        ended_well = True
    finally:
        if (ended_well or not _worth_keeping(folder)) and _is_last(handle):
            shutil.rmtree(folder, ignore_errors=True)
            for each in ground:  # made by us, and given back if nothing came of it
                if each.is_dir() and not any(each.iterdir()):
                    each.rmdir()
        os.close(handle)


def _entered(folder: Path, seconds: float) -> tuple[Store, int]:
    """The store, and a lock on it that others may hold as well, but nobody who removes it."""
    while True:
        store = Store(folder, checkpoint_seconds=seconds)
        try:
            handle = os.open(folder / CARD, os.O_RDONLY)
        except FileNotFoundError:
            continue  # its last user has removed it this very moment
        fcntl.flock(handle, fcntl.LOCK_SH)
        if (folder / CARD).exists():
            return store, handle
        os.close(handle)


def _is_last(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _worth_keeping(folder: Path) -> bool:
    patterns = f"results/*/{DESCRIPTION}", "solo/*", f"unfinished/*/{FILE}"
    return any(any(folder.glob(pattern)) for pattern in patterns)
