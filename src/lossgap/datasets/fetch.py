"""Get published data sets, and look whether they are what was published."""

import gzip
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from lossgap.datasets import home
from lossgap.datasets.catalogue import CATALOGUE, File, Published, Source
from lossgap.datasets.download import Checksum, Kind, Patience, Progress, Unavailable, download
from lossgap.errors import FileError, SettingError
from lossgap.progress import progress_bar

State = Literal["missing", "as published", "whole", "damaged", "other contents"]
GOOD: tuple[State, ...] = ("as published", "whole")
BAD: tuple[State, ...] = ("damaged", "other contents")


@dataclass(frozen=True)
class Finding:
    """What became of one file. "whole" is undamaged, but no checksum was published to compare it with."""

    path: Path
    state: State

    @property
    def good(self) -> bool:
        return self.state in GOOD


def named(name: str) -> Published:
    """A data set of the catalogue, by its name or nearly so."""
    known = {published.name: published for published in CATALOGUE}
    alike = {_plain(each): published for each, published in known.items()}
    if _plain(name) in alike:
        return alike[_plain(name)]
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise SettingError(f"No data set is called {name!r}. {hint}Known are {', '.join(known)}.")


def there(published: Published) -> list[Path]:
    """The data set's files that this machine has."""
    found = (home.find(published.name, file.name) for file in published.files)
    return [path for path in found if path]


def verify(published: Published) -> list[Finding]:
    """Read every file of a data set to its end and compare it with what was published."""
    return [_verified(published, file) for file in published.files]


def fetch(published: Published, *, progress: bool | None = None, patience: Patience = Patience()) -> list[Path]:
    """Download what is missing or wrong; what is there and right stays. The paths of what arrived.

    Args:
        published: the data set.
        progress: show a progress bar; by default on a terminal.
        patience: with slow and broken connections.
    """
    findings = verify(published)
    good = {_unzipped(finding.path.name) for finding in findings if finding.good}
    arrived: list[Path] = []
    for source in published.sources:
        if not all(_unzipped(name) in good for name in source.brings):
            with progress_bar(f"{published.name}: {source.name}", source.size or 0, shown=progress, bytes=True) as bar:
                path = _get(source, home.folder() / published.name, bar, patience)
            arrived += _unpacked(source, path) if source.members else [path]
    _set_aside(findings, arrived)
    return arrived


def _set_aside(findings: Sequence[Finding], arrived: Sequence[Path]) -> None:
    """An unpacked file that is wrong would be read before the .gz that has arrived."""
    for path in (finding.path for finding in findings if finding.state in BAD):
        if path not in arrived and path.exists():
            path.replace(path.with_name(f"{path.name}.wrong-checksum"))


def _get(source: Source, folder: Path, progress: Progress, patience: Patience) -> Path:
    """The file from the first address that gives it."""
    problems, path = [], folder / source.name
    for address in source.addresses:
        try:
            download(address, path, source.checksum, size=source.size, progress=progress, patience=patience)
            return path
        except Unavailable as problem:
            problems.append(str(problem))
    by_hand = f"Or download {source.addresses[0]} by other means and put it into {folder}."
    raise FileError(" ".join([*problems, by_hand]))


def _unpacked(source: Source, archive: Path) -> list[Path]:
    """Take an archive's files out, each under its own name only once it is whole, and drop the archive."""
    paths = []
    try:
        with zipfile.ZipFile(archive) as content:
            for name, member in source.members:
                path = archive.with_name(name)
                part = path.with_name(f"{name}.part")
                with content.open(member) as packed, part.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                paths.append(part.replace(path))
    except (KeyError, zipfile.BadZipFile, zlib.error, OSError) as problem:
        fix = "Make room if the disk is full, and fetch again."
        raise FileError(f"{archive} cannot be unpacked: {problem}. {fix}") from problem
    archive.unlink()
    return paths


def _verified(published: Published, file: File) -> Finding:
    path = home.find(published.name, file.name)
    if path is None:
        return Finding(home.folder() / published.name / file.name, "missing")
    try:
        return Finding(path, _state(path, file))
    except (OSError, EOFError, zlib.error):
        return Finding(path, "damaged")


def _state(path: Path, file: File) -> State:
    packed = path.suffix == ".gz"
    checks = [(file.unpacked, True)] + ([(file.packed, False)] if packed else [])
    known = [(checksum, unpack and packed) for checksum, unpack in checks if checksum]
    if not known:
        _checksum(path, "sha256", unpack=packed)  # a .gz holds a checksum of its own
        return "whole"
    right = [_checksum(path, checksum.kind, unpack=unpack) == checksum for checksum, unpack in known]
    return "as published" if any(right) else "other contents"


def _checksum(path: Path, kind: Kind, *, unpack: bool) -> Checksum:
    if unpack:
        with gzip.open(path) as contents:
            return Checksum.of(contents, kind)
    with path.open("rb") as stream:
        return Checksum.of(stream, kind)


def _unzipped(name: str) -> str:
    return name.removesuffix(".gz")


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
