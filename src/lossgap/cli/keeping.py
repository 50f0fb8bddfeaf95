"""Where commands keep runs while they work, and how they stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lossgap.store import Store

UNFINISHED = ".unfinished"


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--store and --checkpoint-seconds."""
    where = click.option(
        "--store",
        type=click.Path(path_type=Path, file_okay=False),
        help="A store that runs are read from and kept in, see `lossgap runs`. Without it, runs are kept beside the "
        "results until all are there, so that the same command goes on where it was cut off.",
    )
    often = click.option(
        "--checkpoint-seconds",
        type=click.FloatRange(min=0),
        default=10.0,
        show_default=True,
        help="Between two times that a run is saved while it is trained.",
    )
    return where(often(command))


@contextmanager
def kept(store: Path | None, out: Path, checkpoint_seconds: float) -> "Iterator[Store]":
    """The store that the user names, or one for the time of this command. SIGTERM stops it as Ctrl-C does."""
    from lossgap.store import Store
    from lossgap.store.scratch import scratch

    with _terminated_as_interrupted():
        try:
            if store:
                yield Store(store, checkpoint_seconds=checkpoint_seconds)
            else:
                with scratch(out / UNFINISHED, checkpoint_seconds=checkpoint_seconds) as found:
                    yield found
        except KeyboardInterrupt:
            place = store or out / UNFINISHED
            if place.exists():
                click.echo(f"Stopped. What is done is kept in {place}: the same command goes on from there.", err=True)
            raise


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
