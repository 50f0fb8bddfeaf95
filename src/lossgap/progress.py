"""Progress on the terminal, for work that lasts long enough to wonder about."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 1.0


@contextmanager
def progress_bar(
    label: str, total: int, *, shown: bool | None = None, bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with how much is done. `shown=None` shows a bar on a terminal only.

    A total of 0 is unknown. Counts of `bytes` are shown as megabytes, with the speed.

    Nothing appears during the first second, so that short work leaves no trace.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda done: None
        return

    from rich import progress as rich
    from rich.console import Console

    counts = (rich.DownloadColumn(), rich.TransferSpeedColumn()) if bytes else (rich.MofNCompleteColumn(),)
    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), *counts, rich.TimeRemainingColumn()
    bar = rich.Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=total or None)
    started = time.monotonic()

    def update(done: int) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and time.monotonic() - started > PATIENCE_SECONDS:
            bar.start()

    try:
        yield update
    finally:
        bar.stop()
