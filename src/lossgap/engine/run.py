"""What every engine shares: pacing, the history, and the watch for diverging losses.

An engine offers a `Stepper`; `drive` walks it from round 0 to the end.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import jax
import numpy as np

from lossgap.algorithms.base import Glance, Params, State
from lossgap.errors import DivergedError
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
) -> Run:
    """Walk a run to its end in segments, looking at the losses after each."""
    carry, watch = stepper.start(), Watch(names, training.step, safe_step, label, remark=remark)
    parts: list[History] = []

    def note(glance: Glance, rounds: np.ndarray) -> None:
        parts.append(_lines(glance, rounds))
        watch(rounds, parts[-1].train_loss, parts[-1].multiplier)

    for first, rounds in paced(training.rounds, every=training.record_every, most=stepper.most_lines):
        carry, glance = stepper.advance(carry, first, rounds)
        note(glance, np.arange(first, first + rounds, training.record_every))
        progress(first + rounds)
    note(jax.tree.map(lambda a: a[None], stepper.glance(carry, training.rounds)), np.array([training.rounds]))
    return Run(jax.tree.map(np.asarray, stepper.finish(carry)), _joined(parts))


def paced(total: int, *, every: int, most: int) -> Iterator[tuple[int, int]]:
    """(first, count) of each segment: `every` at first, then as many as take about `SEGMENT_SECONDS`."""
    done, lines = 0, 1
    while done < total:
        count = min(lines * every, total - done)
        started = time.perf_counter()
        yield done, count
        done += count
        if time.perf_counter() - started < SEGMENT_SECONDS:
            lines = min(GROWTH * lines, most)


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

    def __call__(self, number: np.ndarray, loss: np.ndarray, multiplier: np.ndarray) -> None:
        """Look at the training losses and multipliers, both [line, client], of some rounds."""
        if self.start is None:
            self._check_start(loss[0])
            self.start = loss[0]
        bad = np.argwhere(~(loss <= EXPLODED * np.maximum(1, self.start)))  # also true of NaN
        if len(bad):
            line, client = bad[0]
            raise self._diverged(client, number[line], loss[line, client], multiplier[: line + 1])

    def _check_start(self, loss: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(loss))
        if len(bad):
            raise DivergedError(
                f"Before the first step, the training loss of client {self.names[bad[0]]!r} is {loss[bad[0]]}. "
                "Look at its rows for extreme values, or at the initial parameters.",
                int(bad[0]),
            )

    def _diverged(self, client: int, number: int, loss: float, multiplier: np.ndarray) -> DivergedError:
        assert self.start is not None
        safe = self.safe_step(float(np.nanmax(np.abs(multiplier), initial=1)))
        ascent = np.nanmin(multiplier, initial=0) < 0
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


def _joined(parts: list[History]) -> History:
    columns: list[Any] = [np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(History)]
    return History(*columns)
