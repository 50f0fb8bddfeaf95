"""How values spread, name by name."""

import math
from collections.abc import Mapping, Sequence

from lossgap.charts import marks
from lossgap.charts.changes import role, shape
from lossgap.charts.figure import Figure
from lossgap.charts.frame import WIDTH, series_class
from lossgap.charts.rows import Row, Sides, row_chart
from lossgap.charts.scale import Scale, shows

CROWD = 60
"""With more points than this, a row's points are small."""

MOST_SAYING = 300
"""With more points than this, a row's points do not answer a pointer: the picture would get too large."""

MOST_POINTS = 4000
"""Of more points than this, a row shows some, evenly over their order."""


def boxes(
    groups: Mapping[str, Sequence[float]],
    *,
    x: str,
    title: str = "",
    log: bool = False,
    names: Sequence[str] = (),
    sides: Sides | None = None,
    indifferent: float = 0.0,
    width: float = WIDTH,
) -> Figure:
    """A row per name: a box from quartile to quartile with the median, and every value as a point.

    Args:
        groups: values by name.
        x: what the values are, with units.
        names: what each point of a row is, such as clients, shown when a reader points at it.
        sides: what values below and above zero mean, such as ("gains", "loses"): points are then circles or diamonds
            by their side, and grey dots within `indifferent` of zero.
    """
    kept = {name: [float(v) for v in values] for name, values in groups.items()}
    labels = list(kept)

    def draw(number: int, middle: float, across: Scale) -> str:
        values = kept[labels[number]]
        kind, usable = series_class(number), sorted(v for v in values if shows(v, log))
        size = 0.55 if len(values) > CROWD else 0.8
        drawn_box = _box(usable, middle, across, "faint" if sides else kind)
        if len(values) > MOST_SAYING:
            return "\n".join([drawn_box, *_dust(values, middle, across, indifferent if sides else None, kind)])
        points = [
            marks.dot(
                (across(v), middle + _scatter(i, len(values)) * 9),
                f"fill {role(v, indifferent) if sides else kind}",
                f"{names[i] if names else labels[number]}: {marks.shown(v)}",
                scale=size,
                shape=shape(v, indifferent) if sides else 0,
            )
            for i, v in enumerate(values)
            if shows(v, log)
        ]
        return "\n".join([drawn_box, *points])

    everything = [v for values in kept.values() for v in values] + ([0.0] if sides else [])
    return row_chart(
        [Row(name) for name in labels],
        draw,
        everything,
        x=x,
        title=title,
        description=_description(kept, x),
        width=width,
        row_height=34,
        log=log,
        room=0.03,
        sides=sides,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _box(ordered: Sequence[float], middle: float, across: Scale, kind: str) -> str:
    if len(ordered) < 3:
        return ""
    first, median, third = (across(quantile(ordered, share)) for share in (0.25, 0.5, 0.75))
    low, high = across(ordered[0]), across(ordered[-1])
    whiskers = marks.segment((low, middle), (first, middle), f"thin {kind}") + marks.segment(
        (third, middle), (high, middle), f"thin {kind}"
    )
    inner = marks.box(first, middle - 12, third - first, 24, f"band {kind}")
    return whiskers + inner + marks.segment((median, middle - 12), (median, middle + 12), f"line {kind}")


def _dust(values: Sequence[float], middle: float, across: Scale, indifferent: float | None, kind: str) -> list[str]:
    """A row's points without names, one element per colour; `indifferent` None is a single colour."""
    kept = [(i, v) for i, v in enumerate(values) if shows(v, across.log)][:: -(-len(values) // MOST_POINTS)]
    by_kind: dict[str, list[marks.Point]] = {}
    for i, v in kept:
        colour = kind if indifferent is None else role(v, indifferent)
        by_kind.setdefault(colour, []).append((across(v), middle + _scatter(i, len(values)) * 9))
    return [marks.dust(points, colour) for colour, points in by_kind.items()]


def _scatter(number: int, count: int) -> float:
    """A place in −1…1 that keeps neighbours apart and is the same every time."""
    return 0.0 if count < 3 else 2 * ((number * 0.618034) % 1) - 1


def _description(groups: Mapping[str, Sequence[float]], x: str) -> str:
    parts = []
    for name, values in groups.items():
        ordered = sorted(v for v in values if math.isfinite(v))
        if ordered:
            ends = (marks.shown(v) for v in (ordered[0], quantile(ordered, 0.5), ordered[-1]))
            parts.append("{}: {}, {}, {}".format(name, *ends))
    return f"{x}, smallest, median and largest. " + "; ".join(parts)
