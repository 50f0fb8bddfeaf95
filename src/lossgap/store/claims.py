"""Who works on what: a claim ends with the process that made it, even if that is killed without warning."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Claim:
    """A lock that the operating system holds for this process, and gives back when the process ends in any way."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.handle = path, handle

    @classmethod
    def attempt(cls, path: Path) -> "Claim | None":
        """The claim, or None while somebody else holds it."""
        return cls._taken(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def wait_for(cls, path: Path) -> "Claim":
        """The claim, as soon as nobody else holds it."""
        claim = cls._taken(path, fcntl.LOCK_EX)
        assert claim is not None
        return claim

    @classmethod
    def _taken(cls, path: Path, how: int) -> "Claim | None":
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, how)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if _is_at(path, handle):
                os.truncate(handle, 0)
                os.write(handle, json.dumps({"process": os.getpid(), "machine": socket.gethostname()}).encode())
                return cls(path, handle)
            os.close(handle)  # its last owner has removed the file meanwhile: take the new one

    def release(self) -> None:
        self.path.unlink(missing_ok=True)  # before the lock is given back: who waits for it sees that it is gone
        os.close(self.handle)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """A block that one process at a time goes through."""
    claim = Claim.wait_for(path)
    try:
        yield
    finally:
        claim.release()


def holder(path: Path) -> str | None:
    """Who holds a claim, as a person would say it; None if nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(os.read(handle, 1000))
    finally:
        os.close(handle)
    return None


def _owner(text: bytes) -> str:
    try:
        owner: dict[str, Any] = json.loads(text)
        return f"process {owner['process']} on {owner['machine']}"
    except (ValueError, KeyError, TypeError):
        return "another process"  # which is about to write its name


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
