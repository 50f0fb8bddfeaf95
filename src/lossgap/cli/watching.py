"""A run on the terminal while a command trains it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lossgap.errors import require


def check_terminal(live: bool) -> None:
    """Refuse a live view, before any work is done, where nobody would see it."""
    require(
        not live or sys.stderr.isatty(),
        "--live draws on a terminal, and standard error is none.",
        "Leave it out; a progress bar is shown on terminals anyhow.",
    )


@contextmanager
def watched(live: bool, title: str, names: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yields what `train` is to be told besides: an onlooker that draws, in place of a progress bar."""
    if not live:
        yield {}
        return
    from lossgap.live import LiveView

    with LiveView(title, names, rounds) as view:
        yield {"onlooker": view, "progress": False}
