"""Points of two measures against each other, such as a frontier."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import (
    HEIGHT,
    LINE,
    PAD,
    WIDTH,
    Frame,
    dot_key,
    finished,
    heading,
    line_class,
    series_class,
)
from lossgap.charts.lines import Log, Values, framed
from lossgap.charts.scale import Scale

Box = tuple[float, float, float, float]


def scatter(
    series: Mapping[str, tuple[Values, Values]],
    *,
    x: str,
    y: str,
    title: str = "",
    log: Log = "",
    joined: Collection[str] = (),
    names: Mapping[str, Sequence[str]] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    marked: Mapping[str, tuple[float, float]] | None = None,
    width: float = WIDTH,
    height: float = HEIGHT + 40,
) -> Figure:
    """One kind of point per name, told apart by colour and shape.

    Args:
        series: (xs, ys) by name.
        joined: names whose points are joined by a line in their order, as the settings along a path.
        names: what each point of a series is, shown when a reader points at it.
        labels: what to write beside each point of a series, where it covers nothing.
        marked: places to ring and name, such as a recommended setting.
    """
    marked, names, labels = marked or {}, names or {}, labels or {}
    xs, ys = ([float(v) for name in series for v in series[name][axis]] for axis in (0, 1))
    xs, ys = xs + [place[0] for place in marked.values()], ys + [place[1] for place in marked.values()]
    keys = [dot_key(name, i) for i, name in enumerate(series)] if len(series) > 1 else []
    head, top = heading(title, keys, width)
    frame, _, up = framed(xs, ys, log, top=top + (LINE + 10 if y else 0), width=width, height=height, room=0.06)
    across = Scale.around(xs, frame.left, frame.right, log="x" in log, room=0.06, what="x")
    parts = [head, frame.vertical_axis(up.ticks(6), up, ""), frame.horizontal_axis(across, x)]
    parts.append(marks.text(PAD, top + LINE - 4, y) if y else "")
    taken: list[Box] = []
    waiting: list[tuple[marks.Point, str]] = []
    for i, (name, points) in enumerate(series.items()):
        placed = _placed(points, across, up)
        if name in joined:
            parts.append(marks.path([at for _, at in placed], line_class(i).replace("line", "thin")))
            taken += _on_the_way([at for _, at in placed])
        for number, at in placed:
            values = f"{x} {marks.shown(float(points[0][number]))}, {y} {marks.shown(float(points[1][number]))}"
            label = f"{name} {names[name][number]}" if name in names else name
            parts.append(marks.dot(at, f"fill {series_class(i)}", f"{label}: {values}", shape=i))
            taken.append((at[0] - 5, at[1] - 5, at[0] + 5, at[1] + 5))
            if name in labels:
                waiting.append((at, labels[name][number]))
    for name, place in marked.items():
        if across.shows(place[0]) and up.shows(place[1]):
            parts.append(_ringed((across(place[0]), up(place[1])), name, frame, taken))
    parts += [_beside(at, words, frame, taken) for at, words in waiting]
    description = (
        f"{y} against {x}: "
        + "; ".join(f"{name}, {len(points[0])} points" for name, points in series.items())
        + "".join(f"; {name} at {marks.shown(a)}, {marks.shown(b)}" for name, (a, b) in marked.items())
    )
    return finished(parts, width=width, height=frame.bottom + 42, title=title, description=description)


def _placed(points: tuple[Values, Values], across: Scale, up: Scale) -> list[tuple[int, marks.Point]]:
    return [
        (number, (across(float(a)), up(float(b))))
        for number, (a, b) in enumerate(zip(*points, strict=True))
        if across.shows(float(a)) and up.shows(float(b))
    ]


def _on_the_way(points: Sequence[marks.Point]) -> list[Box]:
    """Small boxes along a joining line, which labels should not cover."""
    boxes = []
    for (ax, ay), (bx, by) in pairwise(points):
        length = math.hypot(bx - ax, by - ay)
        for step in range(12, int(length) - 11, 6):
            x, y = ax + (bx - ax) * step / length, ay + (by - ay) * step / length
            boxes.append((x - 2, y - 2, x + 2, y + 2))
    return boxes


def _beside(at: marks.Point, words: str, frame: Frame, taken: list[Box]) -> str:
    """A small label next to its point, or none where it would cover something."""
    width = marks.text_width(words, 11)
    best = min(_label_places(at, width)[:8], key=lambda place: _covered(place, frame, taken))
    if _covered(best, frame, taken):
        return ""
    taken.append(best)
    return marks.text(best[0], best[3] - 4, words, "small faint halo")


def _ringed(at: marks.Point, name: str, frame: Frame, taken: list[Box]) -> str:
    """A ring, and the name where it covers least."""
    width = 1.1 * marks.text_width(name, 12)  # bold
    best = min(_label_places(at, width), key=lambda place: _covered(place, frame, taken))
    taken.append(best)
    leader = marks.segment(at, (min(max(at[0], best[0]), best[2]), (best[1] + best[3]) / 2), "thin ink")
    far = abs((best[1] + best[3]) / 2 - at[1]) > 20
    ring = f'<circle class="thin ink" stroke-width="2" cx="{marks.number(at[0])}" cy="{marks.number(at[1])}" r="8.5"/>'
    return (leader if far else "") + ring + marks.text(best[0], best[3] - 3, name, "head halo")


def _label_places(at: marks.Point, width: float) -> list[Box]:
    """Boxes around a point, the nearest first."""
    x, y = at
    return [
        (left, y + down - 8, left + width, y + down + 8)
        for down in (0, -22, 22, -40, 40, -60, 60)
        for left in ((x + 14, x - 14 - width) if down == 0 else (x - width / 2, x + 6, x - width - 6))
    ]


def _covered(place: Box, frame: Frame, taken: Sequence[Box]) -> float:
    """How much of the label lies outside the frame or on something."""
    left, top, right, bottom = place
    outside = (
        max(0, frame.left - left)
        + max(0, right - frame.right)
        + max(0, frame.top - top)
        + max(0, bottom - frame.bottom)
    )
    overlaps = (
        max(0.0, min(right, other[2]) - max(left, other[0])) * max(0.0, min(bottom, other[3]) - max(top, other[1]))
        for other in taken
    )
    return outside * 1000 + sum(overlaps)
