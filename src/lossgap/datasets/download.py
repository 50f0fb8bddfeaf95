"""One file from its publisher: resumed where it broke off, checked before it is used.

Bytes go to `NAME.part`. Only what has the right checksum gets its real name; anything else is kept aside as
`NAME.wrong-checksum`, where nothing reads it.
"""

import contextlib
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

from lossgap.errors import FileError, LossgapError

CHUNK = 1 << 16
TRIES = 5
"""Broken connections in a row, without a byte gained, before giving up."""

STALLED_SECONDS = 30.0
PAUSE_SECONDS = 1.0
Progress = Callable[[int], None]
Kind = Literal["md5", "sha256"]


class Readable(Protocol):
    """Bytes in order."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Checksum:
    """What a publisher says of a file's bytes."""

    kind: Kind
    digits: str

    @classmethod
    def of(cls, stream: Readable, kind: Kind) -> Self:
        digest = hashlib.new(kind, usedforsecurity=False)
        while block := stream.read(1 << 20):
            digest.update(block)
        return cls(kind, digest.hexdigest())

    def __str__(self) -> str:
        return f"{self.kind} {self.digits}"


class Unavailable(FileError):
    """This address does not give the file, now or ever; another one may."""


class _Broken(Exception):
    """The connection broke; what has arrived is kept."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for a server, and how often to ask again."""

    stalled_seconds: float = STALLED_SECONDS
    pause_seconds: float = PAUSE_SECONDS
    tries: int = TRIES


def download(
    address: str,
    path: Path,
    checksum: Checksum,
    *,
    size: int | None = None,
    progress: Progress = lambda bytes_done: None,
    patience: Patience = Patience(),
) -> None:
    """Get one file. A download that broke off earlier goes on from there.

    Args:
        address: of http or https.
        path: where it goes.
        checksum: what its bytes must give.
        size: of the file, in bytes, if that is known: a server that sends more is cut short.
        progress: called with the number of bytes that are there.
        patience: with slow and broken connections.
    """
    part = path.with_name(f"{path.name}.part")
    with _room(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    resumed = _length(part) > 0
    found = _gathered(address, part, checksum.kind, size, progress, patience)
    if found != checksum and resumed:  # what lay there may have been the beginning of another file
        part.unlink()
        found = _gathered(address, part, checksum.kind, size, progress, patience)
    if found != checksum:
        aside = path.with_name(f"{path.name}.wrong-checksum")
        part.replace(aside)
        raise Unavailable(
            f"{address} sent a file whose checksum is {found}, but {checksum} was published. It is kept aside as "
            f"{aside} and never used. Try again later; if that ends the same way, the file was changed where it lies, "
            "or something between you and its publisher answers in its place."
        )
    part.replace(path)


def _gathered(
    address: str, part: Path, kind: Kind, size: int | None, progress: Progress, patience: Patience
) -> Checksum:
    _gather(address, part, size, progress, patience)
    with part.open("rb") as stream:
        return Checksum.of(stream, kind)


def _gather(address: str, part: Path, size: int | None, progress: Progress, patience: Patience) -> None:
    """Ask until all bytes are there, or until `tries` answers in a row brought none."""
    fruitless = 0
    while True:
        before = _length(part)
        try:
            return _once(address, part, size, progress, patience)
        except _Broken as broken:
            fruitless = 0 if _length(part) > before else fruitless + 1
            if fruitless == patience.tries:
                raise Unavailable(
                    f"{address}: the connection breaks again and again ({broken}). {_length(part):,} bytes are kept in "
                    f"{part}: run the command again to go on from there."
                ) from broken
            time.sleep(patience.pause_seconds)


def _once(address: str, part: Path, size: int | None, progress: Progress, patience: Patience) -> None:
    """One request, for the bytes that are still missing."""
    have = _length(part)
    if size is not None and have > size:
        part.unlink()
        have = 0
    progress(have)
    if have != size:
        with _answer(address, have, patience) as answer:
            if answer is not None:  # without one there is nothing beyond what we have; the checksum decides
                _write(answer, part, _resumed(answer, part, have), size, progress)


def _resumed(answer: http.client.HTTPResponse, part: Path, have: int) -> int:
    """How many bytes that are there the answer goes on from: a server may send all of them again."""
    if not have or answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    if not (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
        part.unlink()
        raise _Broken("the server sent other bytes than were asked for")
    return have


@contextlib.contextmanager
def _answer(address: str, have: int, patience: Patience) -> Iterator[http.client.HTTPResponse | None]:
    """What the server says to a request for all bytes after the first `have`; None if there are none."""
    headers = {"User-Agent": "lossgap", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=patience.stalled_seconds) as answer:
            yield answer
    except urllib.error.HTTPError as refusal:
        if have and refusal.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            yield None
        else:
            raise _refused(address, refusal) from refusal
    except urllib.error.URLError as problem:
        raise _unreachable(address, problem) from problem
    except (LossgapError, _Broken):
        raise
    except (OSError, http.client.HTTPException) as problem:
        words = "the server stopped sending" if isinstance(problem, TimeoutError) else _first_line(problem)
        raise _Broken(words or type(problem).__name__) from problem


def _refused(address: str, refusal: urllib.error.HTTPError) -> Exception:
    words = f"the server answers {refusal.code}, {_first_line(refusal.reason)}"
    if refusal.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return _Broken(words)
    return Unavailable(f"{address}: {words}. Look on the data set's page for its new place.")


def _unreachable(address: str, problem: urllib.error.URLError) -> Exception:
    if isinstance(problem.reason, TimeoutError):
        return _Broken("the server does not answer")
    host = urllib.parse.urlsplit(address).hostname
    return Unavailable(f"{address}: {host} cannot be reached ({problem.reason}). Check that this machine is online.")


def _write(answer: http.client.HTTPResponse, part: Path, start: int, size: int | None, progress: Progress) -> None:
    announced, done = int(answer.headers.get("Content-Length") or 0), start
    with _room(part):
        file = part.open("ab" if start else "wb")
    with file:
        while block := answer.read1(CHUNK):
            with _room(part):
                file.write(block)
            done += len(block)
            progress(done)
            if size is not None and done > size:
                return  # more than was published: the checksum will say so
    if done < max(start + announced, size or 0):
        raise _Broken(f"the server hung up after {done:,} bytes")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    """What goes wrong with this machine's own files, not with the connection."""
    try:
        yield
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise FileError(
            f"{path} cannot be written: {reason}. Make room or allow it, or set LOSSGAP_DATA to another folder."
        ) from problem


def _first_line(words: object) -> str:
    return (str(words).splitlines() or [""])[0][:200]
