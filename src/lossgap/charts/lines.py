"""Curves over a common axis."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import (
    HEIGHT,
    LINE,
    MARGIN,
    PAD,
    WIDTH,
    Frame,
    Tick,
    finished,
    heading,
    line_class,
    line_key,
    series_class,
)
from lossgap.charts.scale import Scale

Values = Sequence[float]
Log = Literal["", "x", "y", "xy"]


def lines(
    series: Mapping[str, tuple[Values, Values]],
    *,
    x: str,
    y: str,
    title: str = "",
    log: Log = "",
    bands: Mapping[str, tuple[Values, Values]] | None = None,
    markers: Mapping[str, float] | None = None,
    levels: Mapping[str, float] | None = None,
    quiet: Collection[str] = (),
    dotted: Collection[str] = (),
    ticks: Sequence[Tick] | None = None,
    limits: Values = (),
    legend: bool = True,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> Figure:
    """One curve per name, in the order given: the first name has the first colour.

    Args:
        series: (xs, ys) by name. Where a value is not finite, or not positive on a logarithmic axis, the curve breaks.
        x, y: what the axes show, with units.
        log: which axes are logarithmic.
        bands: (lows, highs) by the name of the curve they surround, on its xs.
        markers: vertical lines, by what they mean.
        levels: horizontal lines, by what they mean.
        quiet: names drawn thin and grey, without an entry in the legend: the many behind the few.
        dotted: names with a dot at every point, as where each is a run of its own.
        ticks: what to write below which places, in place of round numbers.
        limits: values that the vertical axis must reach, so that several pictures have the same.
        legend: whether to say which curve is which; False where the page around the picture does.
        width, height: of the plot with its labels; legend and title add to the height.
    """
    bands, markers, levels = bands or {}, markers or {}, levels or {}
    xs = [float(v) for name in series for v in series[name][0]] + list(markers.values())
    ys = [float(v) for name in series for v in series[name][1]] + list(levels.values())
    ys += [float(v) for band in bands.values() for side in band for v in side] + [float(v) for v in limits]
    loud = [name for name in series if name not in quiet]
    keys = [line_key(name, i) for i, name in enumerate(loud)] if legend and (len(loud) > 1 or quiet) else []
    head, top = heading(title, keys, width)
    frame, across, up = framed(
        xs, ys, log, top=top + (LINE + 10 if y else 0) + LINE * len(markers), width=width, height=height
    )
    parts = [head, frame.vertical_axis(up.ticks(6), up, ""), frame.horizontal_axis(across, x, ticks)]
    parts.append(marks.text(PAD, top + LINE - 4, y) if y else "")
    parts += [_curve(series[name], across, up, "thin quiet", name) for name in quiet if name in series]
    for i, name in enumerate(loud):
        if name in bands:
            parts.append(_band(series[name][0], bands[name], across, up, f"band {series_class(i)}"))
        parts.append(_curve(series[name], across, up, line_class(i), name))
        if name in dotted:
            parts += _dots(series[name], across, up, f"fill {series_class(i)}", name, i)
    parts += [upright(frame, across, value, name, row) for row, (name, value) in enumerate(markers.items())]
    parts += [level(frame, up, value, name) for name, value in levels.items()]
    return finished(
        parts, width=width, height=frame.bottom + 42, title=title, description=_description(series, loud, x, y)
    )


def framed(
    xs: Values, ys: Values, log: Log, *, top: float, width: float, height: float, room: float = 0.0
) -> tuple[Frame, Scale, Scale]:
    """The inner rectangle, with room for the labels of the vertical axis, and both scales."""
    bottom = top + max(120.0, height - 80)
    up = Scale.around(ys, bottom, top, log="y" in log, room=room, what="y")
    left = PAD + 10 + max(marks.text_width(words) for _, words in up.ticks(6))
    across = Scale.around(xs, left, width - MARGIN, log="x" in log, tight=True, what="x")
    return Frame(left, width - MARGIN, top, bottom), across, up


def upright(frame: Frame, across: Scale, value: float, name: str, row: int = 0) -> str:
    """A vertical line with its name above the frame, each name in a row of its own."""
    if not across.shows(value):
        return ""
    place = across(value)
    top = frame.top - row * LINE
    end = place + marks.text_width(name, 11) + 8 > frame.right
    label = marks.text(place + (-4 if end else 4), top - 5, name, "small", "end" if end else "start")
    return marks.segment((place, top - 14), (place, frame.bottom), "thin ink dash") + label


def level(frame: Frame, up: Scale, value: float, name: str) -> str:
    """A horizontal line with its name at the right end."""
    if not up.shows(value):
        return ""
    place = up(value)
    return marks.segment((frame.left, place), (frame.right, place), "thin ink dash") + marks.text(
        frame.right, place - 4, name, "small", "end"
    )


def _curve(points: tuple[Values, Values], across: Scale, up: Scale, kind: str, name: str) -> str:
    drawn = []
    for run in _runs(points, across, up):
        placed = thinned([(across(a), up(b)) for a, b in run])
        drawn.append(marks.path(placed, kind, name) if len(placed) > 1 else marks.dot(placed[0], f"fill {kind}", name))
    return "\n".join(drawn)


def _dots(points: tuple[Values, Values], across: Scale, up: Scale, kind: str, name: str, number: int) -> list[str]:
    return [
        marks.dot((across(a), up(b)), kind, f"{name}: {marks.shown(b)}", shape=number, scale=0.8)
        for run in _runs(points, across, up)
        for a, b in run
    ]


def _runs(points: tuple[Values, Values], across: Scale, up: Scale) -> list[list[marks.Point]]:
    """Stretches without gaps."""
    runs: list[list[marks.Point]] = [[]]
    for a, b in zip(*points, strict=True):
        if across.shows(float(a)) and up.shows(float(b)):
            runs[-1].append((float(a), float(b)))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def thinned(points: Sequence[marks.Point]) -> list[marks.Point]:
    """Places on paper with at most four per unit of length, every peak and trough among them."""
    columns: dict[int, list[marks.Point]] = {}
    for point in points:
        columns.setdefault(round(point[0]), []).append(point)
    return [point for column in columns.values() for point in _extremes(column)]


def _extremes(column: list[marks.Point]) -> list[marks.Point]:
    """First, lowest, highest and last, in their order."""
    places = range(len(column))
    lowest, highest = (choose(places, key=lambda i: column[i][1]) for choose in (min, max))
    return [column[i] for i in sorted({0, lowest, highest, len(column) - 1})]


def _band(xs: Values, band: tuple[Values, Values], across: Scale, up: Scale, kind: str) -> str:
    lows, highs = ([(float(a), float(b)) for a, b in zip(xs, side, strict=True)] for side in band)
    kept = [i for i, low in enumerate(lows) if across.shows(low[0]) and up.shows(low[1]) and up.shows(highs[i][1])]
    lower, upper = ([(across(side[i][0]), up(side[i][1])) for i in kept] for side in (lows, highs))
    return marks.area(upper, lower, kind)


def _description(series: Mapping[str, tuple[Values, Values]], loud: Sequence[str], x: str, y: str) -> str:
    ends = [
        f"{name}: {marks.shown(float(series[name][1][0]))} to {marks.shown(float(series[name][1][-1]))}"
        for name in loud
        if len(series[name][1])
    ]
    return f"{y} by {x}, first to last. " + "; ".join(ends)
