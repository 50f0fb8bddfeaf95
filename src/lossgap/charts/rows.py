"""Charts with a row per name: names at the left, values along a common axis below."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import LINE, MARGIN, PAD, Frame, Key, finished, heading
from lossgap.charts.scale import Scale

SHARE_OF_NAMES = 0.38
"""Of the width, at most so much for names."""

Sides = tuple[str, str]

Draw = Callable[[int, float, Scale], str]
"""Draws a row, given its number, the height of its middle and the scale."""


@dataclass(frozen=True)
class Row:
    """A line of the chart; a head only names the rows under it."""

    name: str
    head: bool = False


def row_chart(
    rows: Sequence[Row],
    draw: Draw,
    values: Sequence[float],
    *,
    x: str,
    title: str,
    description: str,
    keys: Sequence[Key] = (),
    width: float,
    row_height: float,
    log: bool = False,
    right: float = MARGIN,
    room: float = 0.0,
    sides: Sides | None = None,
) -> Figure:
    """Rows on a common axis. `right` is room for what rows write behind their marks, `sides` what the two sides of
    zero mean."""
    head, top = heading(title, keys, width)
    top += LINE if sides else 0
    widest = max((marks.text_width(row.name) for row in rows if not row.head), default=0)
    names = min(widest, width * SHARE_OF_NAMES)
    left, bottom = PAD + names + 10, top + 4 + len(rows) * row_height
    frame = Frame(left, width - right, top + 4, bottom)
    across = Scale.around(values, left, frame.right, log=log, room=room, what=x or "values")
    parts = [head, frame.horizontal_axis(across, x), _zero(frame, across)]
    parts.append(_sides(sides, frame, across) if sides else "")
    for number, row in enumerate(rows):
        middle = frame.top + (number + 0.5) * row_height
        parts.append(_name(row, middle, left - 8, names))
        parts.append("" if row.head else draw(number, middle, across))
    return finished(parts, width=width, height=bottom + (42 if x else 24), title=title, description=description)


def _sides(sides: Sides, frame: Frame, across: Scale) -> str:
    """What the sides of zero mean, above the frame, as far as there is room for words."""
    zero, drawn = min(max(across(0), frame.left), frame.right), []
    left, right = f"← {sides[0]}", f"{sides[1]} →"
    if zero - 6 - marks.text_width(left, 11) >= PAD:
        drawn.append(marks.text(zero - 6, frame.top - 5, left, "small gain", "end"))
    if zero + 6 + marks.text_width(right, 11) <= frame.right + MARGIN - 4:
        drawn.append(marks.text(zero + 6, frame.top - 5, right, "small loss"))
    return "".join(drawn)


def _zero(frame: Frame, across: Scale) -> str:
    if across.log or not across.low < 0 < across.high:
        return ""
    return marks.segment((across(0), frame.top), (across(0), frame.bottom), "thin ink")


def _name(row: Row, middle: float, right: float, room: float) -> str:
    if row.head:
        return marks.text(PAD, middle + 4, row.name, "head")
    short = marks.shortened(row.name, room)
    return marks.text(right, middle + 4, short, "", "end", says="" if short == row.name else row.name)


def grouped(groups: Mapping[str, Sequence[str]]) -> tuple[list[Row], list[tuple[str, str] | None]]:
    """Rows under heads, or one row per group where every group has a single one; and what each row shows."""
    if all(len(members) == 1 for members in groups.values()):
        return [Row(name) for name in groups], [(name, members[0]) for name, members in groups.items()]
    rows: list[Row] = []
    shows: list[tuple[str, str] | None] = []
    for name, members in groups.items():
        rows += [Row(name, head=True), *(Row(member) for member in members)]
        shows += [None, *((name, member) for member in members)]
    return rows, shows
