"""From one value to another, name by name: what something changed for each."""

from collections.abc import Mapping

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import WIDTH, Key
from lossgap.charts.rows import grouped, row_chart
from lossgap.charts.scale import Scale, shows

Ends = tuple[float, float]


def dumbbells(
    rows: Mapping[str, Ends | Mapping[str, Ends]],
    *,
    x: str,
    title: str = "",
    ends: tuple[str, str] = ("alone", "shared"),
    log: bool = False,
    indifferent: float = 0.0,
    width: float = WIDTH,
) -> Figure:
    """A row per name, or per name and method: an open circle where it began, a filled mark where it ended.

    Smaller values are better: values that fell end in a circle, those that rose in a diamond of another colour, and
    those that moved by no more than `indifferent` in a grey dot.

    Args:
        rows: (before, after) by name, or by name and then by method.
        x: what the values are, with units.
        ends: what "before" and "after" are called.
    """
    nested = {name: dict(each) if isinstance(each, Mapping) else {"": each} for name, each in rows.items()}
    lines, shown = grouped({name: list(each) for name, each in nested.items()})

    def draw(number: int, middle: float, across: Scale) -> str:
        place = shown[number]
        assert place is not None  # heads are not drawn
        before, after = map(float, nested[place[0]][place[1]])
        label = ", ".join(part for part in place if part)
        return _dumbbell(before, after, middle, across, label, ends, indifferent)

    values = [float(v) for each in nested.values() for pair in each.values() for v in pair]
    tight = len(lines) > 30
    return row_chart(
        lines,
        draw,
        values,
        x=x,
        title=title,
        description=_description(nested, ends),
        keys=_keys(ends),
        width=width,
        row_height=17 if tight else 21,
        log=log,
    )


def _keys(ends: Ends | tuple[str, str]) -> list[Key]:
    return [
        Key(f"{ends[0]}", marks.dot((0, 0), "open faint", scale=0.9)),
        Key(f"{ends[1]}: smaller, gains", marks.dot((0, 0), "fill gain")),
        Key(f"{ends[1]}: larger, loses", marks.dot((0, 0), "fill loss", shape=3)),
    ]


def _dumbbell(
    before: float, after: float, middle: float, across: Scale, label: str, ends: tuple[str, str], indifferent: float
) -> str:
    if not (shows(before, across.log) and shows(after, across.log)):
        return ""
    change = after - before
    kind, shape = ("quiet", 0) if abs(change) <= indifferent else ("gain", 0) if change < 0 else ("loss", 3)
    moved = f"{'+' if change > 0 else ''}{marks.shown(change)}"
    says = f"{label}: {ends[0]} {marks.shown(before)}, {ends[1]} {marks.shown(after)} ({moved})"
    start, end = (across(before), middle), (across(after), middle)
    return "".join(
        [
            marks.segment(start, end, f"line {kind}"),
            marks.dot(start, "open faint", says, scale=0.85),
            marks.dot(end, f"fill {kind}", says, shape=shape),
        ]
    )


def _description(rows: Mapping[str, Mapping[str, Ends]], ends: tuple[str, str]) -> str:
    parts = [
        f"{', '.join(part for part in (name, method) if part)}: {marks.shown(float(a))} to {marks.shown(float(b))}"
        for name, each in rows.items()
        for method, (a, b) in each.items()
    ]
    return f"From {ends[0]} to {ends[1]}. " + "; ".join(parts)
