"""Pieces of work side by side, one per core: each is too small to keep several cores busy by itself."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Done = Callable[[int], None]


class _Stopped(Exception):
    """Somebody else's work failed or was interrupted."""


def side_by_side(tasks: Sequence[Callable[[Done], T]], progress: Done) -> list[T]:
    """The results, in the order of the tasks.

    Args:
        tasks: each is given a function to call, now and then, with how much of it is done; a task ends there if another
            one has failed.
        progress: called with how much of all is done.
    """
    counts, lock, stopped = [0] * len(tasks), threading.Lock(), threading.Event()

    def reporter(number: int) -> Done:
        def done(count: int) -> None:
            if stopped.is_set():
                raise _Stopped
            with lock:
                counts[number] = count
                progress(sum(counts))

        return done

    with ThreadPoolExecutor(os.cpu_count() or 1) as crew:
        futures = [crew.submit(task, reporter(number)) for number, task in enumerate(tasks)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stopped.set()
            crew.shutdown(wait=False, cancel_futures=True)
            raise
