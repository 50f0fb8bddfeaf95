"""What every chart with axes shares: title, legend, paper, ticks, labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.scale import Scale
from lossgap.charts.theme import SERIES

WIDTH, HEIGHT = 720, 320
LINE = 17
PAD = 10
MARGIN = 18
"""Right of the frame, where half of the last tick's label goes."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a small sample, and what it stands for."""

    name: str
    sample: str  # SVG around (0, 0), at most 22 wide


Tick = tuple[float, str]


def roomy(ticks: Sequence[Tick], scale: Scale) -> list[Tick]:
    """The given ticks, those without words whose label would touch the next."""
    kept: list[Tick] = []
    free = math.inf  # the left end of the label to the right
    for value, words in reversed(ticks):
        place, half = scale(value), marks.text_width(words) / 2
        fits = place + half + 8 <= free
        free = place - half if fits else free
        kept.append((value, words if fits else ""))
    return kept[::-1]


def series_class(number: int) -> str:
    return f"s{number % SERIES}"


def line_class(number: int) -> str:
    return " ".join(["line", series_class(number), *(["dash"] if number // SERIES % 2 else [])])


def line_key(name: str, number: int) -> Key:
    return Key(name, marks.segment((-10, 0), (10, 0), line_class(number)))


def quiet_key(name: str) -> Key:
    """For the many behind the few."""
    return Key(name, marks.segment((-10, 0), (10, 0), "thin quiet"))


def dot_key(name: str, number: int, shape: int | None = None) -> Key:
    return Key(name, marks.dot((0, 0), f"fill {series_class(number)}", shape=number if shape is None else shape))


def heading(title: str, keys: Sequence[Key], width: float) -> tuple[str, float]:
    """Title and legend, wrapped to the width, and where they end."""
    drawn, y = [], float(PAD)
    for line in marks.wrapped(title, width - 2 * PAD, 15):
        y += 19
        drawn.append(marks.text(PAD, y - 4, line, "title"))
    rows = legend_rows(keys, width - 2 * PAD)
    for row in rows:
        y += LINE + 2
        x = float(PAD)
        for key in row:
            drawn.append(f'<g transform="translate({marks.number(x + 11)} {marks.number(y - 6)})">{key.sample}</g>')
            drawn.append(marks.text(x + 27, y - 2, marks.shortened(key.name, width - 2 * PAD - 27)))
            x += _key_width(key)
    return "\n".join(drawn), y + (6 if rows else 2)


def legend_rows(keys: Sequence[Key], room: float) -> list[list[Key]]:
    rows: list[list[Key]] = []
    left = 0.0
    for key in keys:
        if not rows or left < _key_width(key) - 14:
            rows.append([])
            left = room
        rows[-1].append(key)
        left -= _key_width(key)
    return rows


def _key_width(key: Key) -> float:
    return 27 + marks.text_width(key.name) + 14


@dataclass(frozen=True)
class Frame:
    """The inner rectangle that data are drawn in."""

    left: float
    right: float
    top: float
    bottom: float

    def horizontal_axis(self, scale: Scale, label: str, ticks: Sequence[Tick] | None = None) -> str:
        """Ticks and a label below, lines of the grid upwards."""
        drawn = []
        for value, words in scale.spaced_ticks() if ticks is None else roomy(ticks, scale):
            x = scale(value)
            drawn.append(marks.segment((x, self.top), (x, self.bottom), "thin grid"))
            if not words:
                continue
            anchor: marks.Anchor = "middle"
            if x + marks.text_width(words) / 2 > self.right + MARGIN:
                anchor = "end"
            drawn.append(marks.text(x, self.bottom + 16, words, "faint", anchor))
        if label:
            drawn.append(marks.text((self.left + self.right) / 2, self.bottom + 34, label, "", "middle"))
        return "\n".join(drawn)

    def vertical_axis(self, ticks: Sequence[tuple[float, str]], scale: Scale, label: str) -> str:
        """Ticks at the left, the label above them where it can be read without turning the head."""
        drawn = [marks.text(PAD, self.top - 8, label)] if label else []
        for value, words in ticks:
            y = scale(value)
            drawn.append(marks.segment((self.left, y), (self.right, y), "thin grid"))
            drawn.append(marks.text(self.left - 7, y + 4, words, "faint", "end"))
        return "\n".join(drawn)


def finished(parts: Sequence[str], *, width: float, height: float, title: str, description: str) -> Figure:
    body = "\n".join(part for part in parts if part)
    return Figure(width=width, height=round(height), title=title or description, description=description, body=body)
