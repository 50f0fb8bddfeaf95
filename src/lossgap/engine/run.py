"""What every engine shares: pacing, the history, and the watch for diverging losses.

An engine offers a `Stepper`; `drive` walks it from round 0 to the end.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Protocol

import jax
import numpy as np

from lossgap.algorithms.base import Glance, Params, State
from lossgap.engine.checkpoint import Checkpoint, Standing, saving
from lossgap.errors import DivergedError, Stopped
from lossgap.training import Training

Carry = tuple[Params, State]
Progress = Callable[[int], None]
"""Called with the number of rounds done."""

SafeStep = Callable[[float], float]
"""A step size that is safe for every client, given the largest multiplier that gradients may get."""

Remark = Callable[[], str]
"""What else to say to whose run has diverged; worked out only then."""

SEGMENT_SECONDS = 0.25
GROWTH = 4
EXPLODED = 1000
"""A loss this many times the larger of one nat and its start has diverged."""


class Stepper(Protocol):
    """A run that can be taken a few rounds further."""

    @property
    def most_lines(self) -> int:
        """How many lines of the history one segment can note down."""
        ...

    def start(self) -> Carry: ...

    def advance(self, carry: Carry, first: int, rounds: int) -> tuple[Carry, Glance]:
        """`rounds` rounds from round `first` on, and a stacked glance [line, client] at every `record_every`-th."""
        ...

    def glance(self, carry: Carry, round: int) -> Glance:
        """What this round would see, without taking it."""
        ...

    def finish(self, carry: Carry) -> Params:
        """The parameters to use."""
        ...


@dataclass(frozen=True)
class History:
    """What each recorded round saw at the θ it started from; the last line is the end of training."""

    rounds: np.ndarray  # [line]
    train_loss: np.ndarray  # [line, client]
    validation_loss: np.ndarray
    gap: np.ndarray
    multiplier: np.ndarray

    def __len__(self) -> int:
        return len(self.rounds)

    def of(self, clients: slice) -> "History":
        """The history of some clients."""
        columns = (getattr(self, f.name)[:, clients] for f in fields(self) if f.name != "rounds")
        return History(self.rounds, *columns)


Onlooker = Callable[[History], None]
"""Called with lines of the history as they come in; if a run goes on from a checkpoint, first with all before it."""


@dataclass(frozen=True)
class Run:
    """How a run ended, and how it got there."""

    params: Params
    history: History


def drive(
    stepper: Stepper,
    training: Training,
    names: Sequence[str],
    *,
    safe_step: SafeStep,
    remark: Remark = str,
    label: str = "Training",
    progress: Progress = lambda rounds: None,
    checkpoint: Checkpoint | None = None,
    onlooker: Onlooker | None = None,
) -> Run:
    """Walk a run to its end in segments, looking at the losses after each.

    With a checkpoint, a run that was cut off goes on where it was saved last and ends as if nothing had happened. An
    interruption leaves as `Stopped`, which knows the run so far.
    """
    book = Book(Watch(names, training.step, safe_step, label, remark=remark), onlooker)
    stands = _beginning(stepper, checkpoint, book)
    try:
        with saving(checkpoint) as saved:
            for first, rounds in paced(
                training.rounds, every=training.record_every, most=stepper.most_lines, done=stands.done
            ):
                carry, glance = stepper.advance(stands.tree, first, rounds)
                book.add(_lines(glance, np.arange(first, first + rounds, training.record_every)))
                stands = Standing(
                    first + rounds, carry, book.notes()
                )  # at once: an interruption sees all of it or none
                saved(stands)
                progress(stands.done)
        return _ended(stepper, stands, book)
    except KeyboardInterrupt:
        raise Stopped(partial(_ended, stepper, stands, book)) from None


def _beginning(stepper: Stepper, checkpoint: Checkpoint | None, book: "Book") -> Standing:
    """Round 0, or where the run was saved."""
    start = stepper.start()
    found = checkpoint.read(start) if checkpoint else None
    if found is None:
        return Standing(0, start, book.notes())
    book.add(History(**found.notes()))
    return Standing(found.done, found.tree, book.notes())


def _ended(stepper: Stepper, stands: Standing, book: "Book") -> Run:
    """The run, ended where it stands."""
    last = _lines(jax.tree.map(lambda a: a[None], stepper.glance(stands.tree, stands.done)), np.array([stands.done]))
    book.watch(last)
    so_far = [History(**stands.notes())] if stands.done else []
    return Run(jax.tree.map(np.asarray, stepper.finish(stands.tree)), joined([*so_far, last]))


def paced(total: int, *, every: int, most: int, done: int = 0) -> Iterator[tuple[int, int]]:
    """(first, count) of each segment: `every` at first, then as many as take about `SEGMENT_SECONDS`."""
    lines = 1
    while done < total:
        count = min(lines * every, total - done)
        started = time.perf_counter()
        yield done, count
        done += count
        if time.perf_counter() - started < SEGMENT_SECONDS:
            lines = min(GROWTH * lines, most)


class Book:
    """The lines of a run's history as they come in."""

    def __init__(self, watch: "Watch", onlooker: Onlooker | None) -> None:
        self._watch, self._onlooker = watch, onlooker
        self._parts: list[History] = []

    def add(self, lines: History) -> None:
        self.watch(lines)
        self._parts.append(lines)
        if self._onlooker:
            self._onlooker(lines)

    def watch(self, lines: History) -> None:
        """Refuse to go on from losses that have left every bound."""
        self._watch(lines.rounds, lines.train_loss, lines.multiplier)

    def notes(self) -> Callable[[], dict[str, np.ndarray]]:
        """All lines up to now, put together when they are asked for."""
        count = len(self._parts)
        return lambda: columns(joined(self._parts[:count]))


class Watch:
    """Stops a run whose losses leave every bound, and says whose and when."""

    def __init__(
        self,
        names: Sequence[str],
        step_size: float,
        safe_step: SafeStep,
        label: str,
        unit: str = "round",
        *,
        remark: Remark = str,
    ) -> None:
        self.names, self.step_size, self.safe_step, self.label, self.unit = names, step_size, safe_step, label, unit
        self.remark = remark
        self.start: np.ndarray | None = None
        self.largest, self.smallest = 1.0, 0.0  # multipliers, up to now

    def __call__(self, number: np.ndarray, loss: np.ndarray, multiplier: np.ndarray) -> None:
        """Look at the training losses and multipliers, both [line, client], of some rounds."""
        if self.start is None:
            self._check_start(loss[0])
            self.start = loss[0]
        bad = np.argwhere(~(loss <= EXPLODED * np.maximum(1, self.start)))  # also true of NaN
        if len(bad):
            line, client = bad[0]
            self._remember(multiplier[: line + 1])
            raise self._diverged(client, number[line], loss[line, client])
        self._remember(multiplier)

    def _remember(self, multiplier: np.ndarray) -> None:
        self.largest = float(np.nanmax(np.abs(multiplier), initial=self.largest))
        self.smallest = float(np.nanmin(multiplier, initial=self.smallest))

    def _check_start(self, loss: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(loss))
        if len(bad):
            raise DivergedError(
                f"Before the first step, the training loss of client {self.names[bad[0]]!r} is {loss[bad[0]]}. "
                "Look at its rows for extreme values, or at the initial parameters.",
                int(bad[0]),
            )

    def _diverged(self, client: int, number: int, loss: float) -> DivergedError:
        assert self.start is not None
        safe, ascent = self.safe_step(self.largest), self.smallest < 0
        return DivergedError(
            f"{self.label} diverged: at {self.unit} {number} the training loss of client {self.names[client]!r} is "
            f"{loss:.3g}; it started at {self.start[client]:.3g}. Steps of size {self.step_size:g} are too large "
            f"for these data: try step_size={safe:g}."
            + self.remark()
            + (
                " Some multipliers were negative: multiplier_range=(0, 10) would keep them in bounds." if ascent else ""
            ),
            int(client),
        )


def _lines(glance: Glance, rounds: np.ndarray) -> History:
    measured = glance.measured
    kinds = measured.loss_at_global, measured.validation_loss, measured.gaps, glance.multipliers
    return History(rounds, *(np.asarray(a)[: len(rounds)] for a in kinds))


def columns(history: History) -> dict[str, np.ndarray]:
    return {f.name: getattr(history, f.name) for f in fields(History)}


def joined(parts: Sequence[History]) -> History:
    """One history after the other."""
    return History(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(History)))
