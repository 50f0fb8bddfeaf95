"""A run on the terminal while a command trains it, and in MLflow afterwards."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lossgap.errors import require

if TYPE_CHECKING:
    from lossgap.result import Result


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


def logging_to(uri: str | None) -> "Callable[[Result], None]":
    """What logs a result to MLflow, which is asked at once; without an address, nothing does."""
    if not uri:
        return lambda result: None
    from lossgap.tracking import Mlflow

    server = Mlflow(uri)

    def log(result: "Result") -> None:
        click.echo(f"Logged to MLflow at {uri} as run {server.log(result)}.")

    return log
