"""Compiled programs are kept on disk, so that the second run of the same shape compiles nothing."""

import os
from pathlib import Path

import jax

from lossgap.datasets.home import user_cache

SECONDS = 0.1
"""Programs that compile faster than this are not worth a file."""


def keep_programs(own: Path | None = None) -> None:
    """Use JAX's persistent cache, in LOSSGAP_CACHE, the given folder or the user's, unless a cache is set already.

    LOSSGAP_CACHE=off leaves JAX as it is.
    """
    wish, held, common = os.environ.get("LOSSGAP_CACHE"), jax.config.values["jax_compilation_cache_dir"], user_cache()
    if wish == "off" or (held is not None and (own is None or held != _programs(common))):
        return
    settings = {
        "jax_compilation_cache_dir": _programs(Path(wish) if wish else own or common),
        "jax_persistent_cache_min_compile_time_secs": SECONDS,
    }
    for name, setting in settings.items():
        jax.config.update(name, setting)  # type: ignore[no-untyped-call]


def _programs(folder: Path) -> str:
    return str(folder / "programs")
