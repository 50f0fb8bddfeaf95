"""A run on the terminal while it is trained: every client's gap and multiplier, as they come in."""

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lossgap.engine.run import History

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.text import Text

PAUSE_SECONDS = 0.2
"""Between two drawings. One takes some milliseconds."""

TRAIL = 400
"""So many looks at the gaps are kept for the sparklines; every other one is dropped when there are more."""

FRAME = 6
"""Lines around those of the clients."""

LONGEST_NAME, NUMBER = 18, 8
EIGHTHS = " ▏▎▍▌▋▊▉█"
HEIGHTS = "▁▂▃▄▅▆▇█"
GAIN, LOSS = "dodger_blue1", "dark_orange"  # which people who do not tell red from green tell apart


class LiveView:
    """An onlooker of a run that draws what it sees, within whatever size the terminal has.

    Args:
        title: of the run.
        names: of the clients.
        rounds: that the run will have.
        console: by default standard error.
    """

    def __init__(self, title: str, names: Sequence[str], rounds: int, console: "Console | None" = None) -> None:
        from rich.console import Console  # imported late: only this needs it

        self.title, self.names, self.rounds = title, names, rounds
        self.console = console or Console(stderr=True)
        self.round = 0
        self.gaps = self.multipliers = np.full(len(names), np.nan)
        self._trail: deque[np.ndarray] = deque()
        self._stride, self._seen = 1, 0
        self._started, self._first_round, self._drawn = time.monotonic(), 0, 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(self, console=self.console, auto_refresh=False, transient=True)
        self._live.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def __call__(self, lines: History) -> None:
        """Take note of lines of the history, and draw unless that was done a moment ago."""
        if not self._seen and lines.rounds[-1] > 0:  # what a checkpoint held says nothing of our speed
            self._started, self._first_round = time.monotonic(), int(lines.rounds[-1])
        self.round, self.gaps, self.multipliers = int(lines.rounds[-1]), lines.gap[-1], lines.multiplier[-1]
        for gaps in lines.gap:
            self._keep(gaps)
        now = time.monotonic()
        if self._live and now - self._drawn >= PAUSE_SECONDS:
            self._live.refresh()
            self._drawn = time.monotonic()

    def _keep(self, gaps: np.ndarray) -> None:
        if self._seen % self._stride == 0:
            self._trail.append(gaps)
        self._seen += 1
        if len(self._trail) > TRAIL:
            self._trail = deque(list(self._trail)[::2])
            self._stride *= 2

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        width, height = min(options.max_width, 120), console.height
        yield self._head(width)
        if not self._seen:
            yield _line("waiting for the first rounds …", "dim")
            return
        yield self._summary(width)
        name = min(LONGEST_NAME, max(len("client"), *map(len, self.names)))
        free = max(18, width - name - 2 * NUMBER - 8)  # for both halves of the bar and the course of the gap
        bar, trail = free // 3, free - 2 * (free // 3)
        head = f"{'client':{name}} {'gains':>{bar}}│{'loses':{bar}} {'gap':>{NUMBER}} {'multiplier':>{NUMBER + 2}}"
        yield _line(f"{head}  gap so far", "dim", width)
        for k in self._chosen(height - FRAME):
            yield self._row(k, name, bar, trail) if k is not None else self._left_out(height - FRAME)

    def _head(self, width: int) -> "Text":
        share = self.round / self.rounds
        done = self.round - self._first_round
        left = (self.rounds - self.round) * (time.monotonic() - self._started) / done if done > 0 else None
        text = f"{self.title}  round {self.round:,} of {self.rounds:,}, {share:.0%}"
        return _line(f"{text}, {_duration(left)} left" if left is not None else text, "bold", width)

    def _summary(self, width: int) -> "Text":
        worst, best = int(np.argmax(self.gaps)), int(np.argmin(self.gaps))
        text = (
            f"worst {self.gaps[worst]:+.3f} ({self.names[worst]}), best {self.gaps[best]:+.3f} ({self.names[best]}), "
            f"variance {np.var(self.gaps, ddof=1):.4f}"
        )
        return _line(text, "", width)

    def _chosen(self, room: int) -> list[int | None]:
        """Clients in their own order if all have room; else those with the largest gaps, None, and the smallest."""
        everybody = list(range(len(self.names)))
        if len(everybody) <= room:
            return [*everybody]
        by_gap = [int(k) for k in np.argsort(-self.gaps)]
        top = max(1, room // 2)
        bottom = max(1, room - top - 1)
        return [*by_gap[:top], None, *by_gap[-bottom:]]

    def _left_out(self, room: int) -> "Text":
        shown = [k for k in self._chosen(room) if k is not None]
        others = np.delete(self.gaps, shown)
        return _line(f"⋮ {len(others)} others between {others.min():+.3f} and {others.max():+.3f}", "dim")

    def _row(self, k: int, width: int, bar: int, trail: int) -> "Text":
        gap, largest = float(self.gaps[k]), float(np.abs(self.gaps).max()) or 1.0
        name = self.names[k] if len(self.names[k]) <= width else f"{self.names[k][: width - 1]}…"
        left, right = _bars(gap / largest, bar)
        row = _line(f"{name:{width}} ", "")
        row.append(left, GAIN).append("│").append(right, LOSS)
        row.append(f" {gap:+{NUMBER}.3f}").append(f" {self.multipliers[k]:{NUMBER + 2}.3f}  ")
        return row.append(self._spark(k, trail), "dim")

    def _spark(self, k: int, room: int) -> str:
        """The course of one client's gap, from its lowest to its highest."""
        course = np.array([gaps[k] for gaps in self._trail])
        course = course[np.linspace(0, len(course) - 1, min(room, len(course))).round().astype(int)]
        low, high = course.min(), course.max()
        steps = (course - low) / (high - low or 1.0) * (len(HEIGHTS) - 1)
        return "".join(HEIGHTS[int(step)] for step in steps.round())


def _bars(share: float, half: int) -> tuple[str, str]:
    """A bar of `half` characters for ±1, on its side of the line."""
    if share < 0:
        return f"{'█' * round(-share * half):>{half}}", " " * half
    whole, rest = divmod(round(share * half * 8), 8)
    return " " * half, f"{'█' * whole + EIGHTHS[rest].strip():{half}}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _line(text: str, style: str = "", width: int | None = None) -> Any:
    from rich.text import Text

    line = Text(text, style, no_wrap=True, overflow="ellipsis")
    if width:
        line.truncate(width, overflow="ellipsis")
    return line
