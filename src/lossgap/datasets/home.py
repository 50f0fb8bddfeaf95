"""Where data sets lie on this machine."""

import os
from pathlib import Path

from lossgap.errors import FileError


def user_cache() -> Path:
    """The folder that belongs to lossgap among the user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lossgap"


def folder() -> Path:
    """The folder of all data sets, one folder each: LOSSGAP_DATA, or `data` in the user's cache."""
    wish = os.environ.get("LOSSGAP_DATA")
    return Path(wish).expanduser() if wish else user_cache() / "data"


def find(*parts: str) -> Path | None:
    """A data set's file as it is published or unpacked: with or without .gz. None if neither is there.

    It may lie in a folder "gzip" or "raw" as archives and other libraries unpack it, or have a dot for its last dash
    but one, as some tools name what was "train-images-idx3-ubyte.gz".
    """
    path = folder().joinpath(*parts)
    dotted = path.with_name(path.name.replace("-idx", ".idx"))
    found = (
        place / name
        for place in (path.parent, path.parent / "gzip", path.parent / "raw")
        for name in dict.fromkeys((path.name, f"{path.name}.gz", dotted.name, f"{dotted.name}.gz"))
    )
    return next((each for each in found if each.is_file()), None)


def need(*parts: str, name: str) -> Path:
    """As `find`, but a file that is not there is an error that says how to get the data set `name`."""
    path = find(*parts)
    if path is None:
        raise FileError(
            f"{folder().joinpath(*parts)}: neither this file nor the same with .gz is there. Run `lossgap data fetch "
            f"{name}`, or set LOSSGAP_DATA to the folder that holds {parts[0]}/."
        )
    return path
