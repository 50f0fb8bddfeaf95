"""Amounts as bars, whole or in parts."""

import math
from collections.abc import Mapping, Sequence

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import MARGIN, WIDTH, Key, series_class
from lossgap.charts.rows import Row, row_chart
from lossgap.charts.scale import Scale
from lossgap.charts.theme import SERIES, in_order
from lossgap.errors import require

MOST_KEYS = 12

Colour = tuple[str, str]
"""A class with a colour, or a class and a colour of its own."""


def bars(
    values: Mapping[str, float],
    *,
    x: str,
    title: str = "",
    intervals: Mapping[str, tuple[float, float]] | None = None,
    width: float = WIDTH,
) -> Figure:
    """A bar from zero per name, its value behind it; `intervals` (low, high) by name as whiskers."""
    intervals = intervals or {}
    amounts = {name: float(value) for name, value in values.items()}
    names = list(amounts)
    written = {name: _written(value, intervals.get(name)) for name, value in amounts.items()}

    def draw(number: int, middle: float, across: Scale) -> str:
        name = names[number]
        value = amounts[name]
        if not math.isfinite(value):
            return marks.text(across(0) + 6, middle + 4, "–", "faint")
        low, high = sorted((across(0), across(value)))
        bar = marks.box(low, middle - 7, high - low, 14, "fill s0", f"{name}: {written[name]}")
        whisker = _whisker(intervals[name], middle, across) if name in intervals else ""
        behind = max(high, across(0), *(across(end) for end in intervals.get(name, ())))
        return bar + whisker + marks.text(behind + 6, middle + 4, written[name], "faint")

    everything = [0.0, *amounts.values(), *(end for interval in intervals.values() for end in interval)]
    return row_chart(
        [Row(name) for name in names],
        draw,
        everything,
        x=x,
        title=title,
        description=f"{x}. " + "; ".join(f"{name}: {words}" for name, words in written.items()),
        width=width,
        row_height=24,
        right=16 + max((marks.text_width(words) for words in written.values()), default=0),
    )


def stacked_bars(
    rows: Mapping[str, Sequence[float]],
    *,
    parts: Sequence[str],
    x: str,
    title: str = "",
    shares: bool = False,
    roles: Sequence[str] = (),
    width: float = WIDTH,
) -> Figure:
    """A bar per name made of parts, such as the labels of each client's rows.

    Args:
        rows: one amount per part, by name.
        parts: what the parts are; up to eight have colours of their own, more run from dark to light in their order.
        shares: draw every bar at full length, so that mixtures compare.
        roles: the colour's role of each part, such as "gain", in place of colours in order.
    """
    amounts = {name: [float(v) for v in each] for name, each in rows.items()}
    for name, each in amounts.items():
        require(
            len(each) == len(parts) and all(v >= 0 and math.isfinite(v) for v in each),
            f"stacked_bars: {name!r} has {len(each)} amounts for {len(parts)} parts, or one below zero.",
            "Give one finite amount ≥ 0 per part.",
        )
    names = list(amounts)
    colours = [(f"fill {role}", "") for role in roles] or [_colour(i, len(parts)) for i in range(len(parts))]

    def draw(number: int, middle: float, across: Scale) -> str:
        each = amounts[names[number]]
        return _stack(names[number], each, parts, colours, middle, across, (sum(each) or 1) if shares else 1)

    totals = [1.0] if shares else [sum(each) for each in amounts.values()]
    dense = len(names) > 30
    return row_chart(
        [Row(name) for name in names],
        draw,
        [0.0, *totals],
        x=x,
        title=title,
        description=f"{x} by {', '.join(parts)}. " + "; ".join(f"{n}: {_listed(each)}" for n, each in amounts.items()),
        keys=_keys(parts, colours),
        width=width,
        row_height=15 if dense else 24,
        right=MARGIN,
    )


def _stack(
    name: str,
    each: Sequence[float],
    parts: Sequence[str],
    colours: Sequence[Colour],
    middle: float,
    across: Scale,
    unit: float,
) -> str:
    drawn, done = [], 0.0
    for number, amount in enumerate(each):
        if amount:
            start, end = across(done / unit), across((done + amount) / unit)
            kind, colour = colours[number]
            gap = 0.6 if end - start > 2 else 0
            says = f"{name}, {parts[number]}: {marks.shown(amount)}"
            drawn.append(marks.box(start, middle - 6, end - start - gap, 12, kind, says, colour))
        done += amount
    return "".join(drawn)


def _colour(number: int, parts: int) -> Colour:
    """A class with a colour, or a colour of its own."""
    return (f"fill {series_class(number)}", "") if parts <= SERIES else ("fill", in_order(number, parts))


def _keys(parts: Sequence[str], colours: Sequence[Colour]) -> list[Key]:
    """All parts, or the first, the last and some between."""
    every = -(-len(parts) // MOST_KEYS)
    chosen = [i for i in range(len(parts)) if i % every == 0 or i == len(parts) - 1]
    return [Key(parts[i], marks.box(-6, -6, 12, 12, *_sample(*colours[i]))) for i in chosen]


def _sample(kind: str, colour: str) -> tuple[str, str, str]:
    return kind, "", colour


def _whisker(interval: tuple[float, float], middle: float, across: Scale) -> str:
    low, high = (across(end) for end in interval)
    cut = [marks.segment((end, middle - 4), (end, middle + 4), "thin ink") for end in (low, high)]
    return marks.segment((low, middle), (high, middle), "thin ink") + "".join(cut)


def _written(value: float, interval: tuple[float, float] | None) -> str:
    return marks.shown(value) + (f" ({marks.shown(interval[0])} to {marks.shown(interval[1])})" if interval else "")


def _listed(amounts: Sequence[float]) -> str:
    return ", ".join(map(marks.shown, amounts))
