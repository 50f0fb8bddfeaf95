"""From one value to another, name by name: what something changed for each."""

from collections.abc import Mapping, Sequence

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import MARGIN, PAD, WIDTH, Frame, Key, finished, heading
from lossgap.charts.rows import grouped, row_chart
from lossgap.charts.scale import Scale, shows

Ends = tuple[float, float]
Change = tuple[str, float, float]
"""A name, where it began and where it ended."""

MOST_SPOKEN = 40
"""A description with more rows than this says how many fell and rose, not each of them."""

MOST_SAYING = 150
"""With more names than this, upright rows are lines only, which do not answer a pointer."""


def dumbbells(
    rows: Mapping[str, Ends | Mapping[str, Ends]],
    *,
    x: str,
    title: str = "",
    ends: tuple[str, str] = ("alone", "shared"),
    log: bool = False,
    indifferent: float = 0.0,
    repeats: Mapping[tuple[str, str], Sequence[float]] | None = None,
    limits: Sequence[float] = (),
    legend: bool = True,
    width: float = WIDTH,
) -> Figure:
    """A row per name, or per name and method: an open circle where it began, a filled mark where it ended.

    Smaller values are better: values that fell end in a circle, those that rose in a diamond of another colour, and
    those that moved by no more than `indifferent` in a grey dot.

    Args:
        rows: (before, after) by name, or by name and then by method.
        x: what the values are, with units.
        ends: what "before" and "after" are called.
        repeats: by (name, method), where single repetitions ended, as ticks behind the mark of their mean.
        limits: values that the axis must reach, so that several pictures have the same.
    """
    nested = {name: dict(each) if isinstance(each, Mapping) else {"": each} for name, each in rows.items()}
    lines, shown = grouped({name: list(each) for name, each in nested.items()})
    repeats = repeats or {}

    def draw(number: int, middle: float, across: Scale) -> str:
        place = shown[number]
        assert place is not None  # heads are not drawn
        before, after = map(float, nested[place[0]][place[1]])
        ticks = [
            marks.segment((across(v), middle - 6), (across(v), middle + 6), "thin faint")
            for v in map(float, repeats.get(place, ()))
            if shows(v, log)
        ]
        label = ", ".join(part for part in place if part)
        return "".join(ticks) + _dumbbell(before, after, middle, across, label, ends, indifferent)

    values = [float(v) for each in nested.values() for pair in each.values() for v in pair]
    tight = len(lines) > 30
    return row_chart(
        lines,
        draw,
        [*values, *(float(v) for each in repeats.values() for v in each), *limits],
        x=x,
        title=title,
        description=_description(nested, ends),
        keys=change_keys(ends) if legend else [],
        width=width,
        row_height=17 if tight else 21,
        log=log,
        room=0.03,
    )


def drops(
    changes: Mapping[str, Ends],
    *,
    x: str,
    y: str,
    title: str = "",
    ends: tuple[str, str] = ("alone", "shared"),
    indifferent: float = 0.0,
    limits: Sequence[float] = (),
    legend: bool = True,
    width: float = WIDTH,
    height: float = 300,
) -> Figure:
    """`dumbbells` for many names: upright, side by side and unnamed, in order of where they began."""
    ordered = sorted(changes.items(), key=lambda item: (item[1][0], item[0]))
    values = [float(v) for _, pair in ordered for v in pair]
    head, top = heading(title, change_keys(ends) if legend else [], width)
    top += 27
    bottom = top + height - 80
    up = Scale.around([*values, *limits], bottom, top, room=0.03, what=y)
    left = PAD + 10 + max(marks.text_width(words) for _, words in up.ticks(6))
    frame = Frame(left, width - MARGIN, top, bottom)
    parts = [head, marks.text(PAD, top - 10, y), frame.vertical_axis(up.ticks(6), up, "")]
    usable = [(name, a, b) for name, (a, b) in ordered if shows(a, False) and shows(b, False)]
    draw = _upright if len(usable) <= MOST_SAYING else _crowd
    parts += draw(usable, frame, up, ends, indifferent)
    parts.append(marks.text((frame.left + frame.right) / 2, bottom + 18, x, "", "middle"))
    description = _description({name: {"": pair} for name, pair in ordered}, ends)
    return finished(parts, width=width, height=bottom + 26, title=title, description=description)


def _upright(
    changes: Sequence[Change], frame: Frame, up: Scale, ends: tuple[str, str], indifferent: float
) -> list[str]:
    """A dumbbell on end per name."""
    step, drawn = (frame.right - frame.left) / max(1, len(changes)), []
    size = min(0.8, max(0.3, step / 9))
    for number, (name, before, after) in enumerate(changes):
        place, kind, words = (
            frame.left + (number + 0.5) * step,
            role(after - before, indifferent),
            _says(name, before, after, ends),
        )
        start, end = (place, up(before)), (place, up(after))
        drawn.append(marks.segment(start, end, f"{'line' if step > 5 else 'thin'} {kind}"))
        drawn.append(marks.dot(start, "open faint", words, scale=size * 0.85))
        drawn.append(marks.dot(end, f"fill {kind}", words, shape=shape(after - before, indifferent), scale=size))
    return drawn


def _crowd(changes: Sequence[Change], frame: Frame, up: Scale, ends: tuple[str, str], indifferent: float) -> list[str]:
    """Lines only, and a curve through where they began."""
    step = (frame.right - frame.left) / len(changes)
    places = [frame.left + (number + 0.5) * step for number in range(len(changes))]
    by_kind: dict[str, list[tuple[marks.Point, marks.Point]]] = {}
    for place, (_, before, after) in zip(places, changes, strict=True):
        ends_of = (place, up(before)), (place, up(after))
        by_kind.setdefault(role(after - before, indifferent), []).append(ends_of)
    start = marks.path([(x, up(before)) for x, (_, before, _) in zip(places, changes, strict=True)], "thin ink")
    return [*(marks.segments(lines, f"thin {kind}") for kind, lines in by_kind.items()), start]


def change_keys(ends: Ends | tuple[str, str]) -> list[Key]:
    return [
        Key(f"{ends[0]}", marks.dot((0, 0), "open faint", scale=0.9)),
        Key(f"{ends[1]}: smaller, gains", marks.dot((0, 0), "fill gain")),
        Key(f"{ends[1]}: larger, loses", marks.dot((0, 0), "fill loss", shape=3)),
    ]


def role(change: float, indifferent: float) -> str:
    """The colour's role of a value that fell, rose or stayed."""
    return "quiet" if abs(change) <= indifferent else "gain" if change < 0 else "loss"


def shape(change: float, indifferent: float) -> int:
    return 3 if change > indifferent else 0


def _dumbbell(
    before: float, after: float, middle: float, across: Scale, label: str, ends: tuple[str, str], indifferent: float
) -> str:
    if not (shows(before, across.log) and shows(after, across.log)):
        return ""
    change = after - before
    kind, says = role(change, indifferent), _says(label, before, after, ends)
    start, end = (across(before), middle), (across(after), middle)
    return "".join(
        [
            marks.segment(start, end, f"line {kind}"),
            marks.dot(start, "open faint", says, scale=0.85),
            marks.dot(end, f"fill {kind}", says, shape=shape(change, indifferent)),
        ]
    )


def _says(label: str, before: float, after: float, ends: tuple[str, str]) -> str:
    change = after - before
    moved = f"{'+' if change > 0 else ''}{marks.shown(change)}"
    return f"{label}: {ends[0]} {marks.shown(before)}, {ends[1]} {marks.shown(after)} ({moved})"


def _description(rows: Mapping[str, Mapping[str, Ends]], ends: tuple[str, str]) -> str:
    changes = [
        (", ".join(part for part in (name, method) if part), float(a), float(b))
        for name, each in rows.items()
        for method, (a, b) in each.items()
    ]
    if len(changes) > MOST_SPOKEN:
        fell, rose = sum(b < a for _, a, b in changes), sum(b > a for _, a, b in changes)
        return f"From {ends[0]} to {ends[1]}: of {len(changes)}, {fell} fell and {rose} rose."
    return f"From {ends[0]} to {ends[1]}. " + "; ".join(
        f"{name}: {marks.shown(a)} to {marks.shown(b)}" for name, a, b in changes
    )
