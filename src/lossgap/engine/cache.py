"""Compiled programs are kept on disk, so that the second run of the same shape compiles nothing."""

import os
from pathlib import Path

import jax

from lossgap.datasets.home import user_cache

SECONDS = 0.1
"""Programs that compile faster than this are not worth a file."""


def keep_programs() -> None:
    """Use JAX's persistent cache, in LOSSGAP_CACHE or the user's cache folder, unless a cache is set already.

    LOSSGAP_CACHE=off leaves JAX as it is.
    """
    wish = os.environ.get("LOSSGAP_CACHE")
    if wish == "off" or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = Path(wish) if wish else user_cache()
    settings = {
        "jax_compilation_cache_dir": str(folder / "programs"),
        "jax_persistent_cache_min_compile_time_secs": SECONDS,
    }
    for name, setting in settings.items():
        jax.config.update(name, setting)  # type: ignore[no-untyped-call]
