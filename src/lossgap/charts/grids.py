"""Several pictures as one."""

from collections.abc import Sequence

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import Key, finished, heading
from lossgap.errors import require

SPACE = 16


def grid(figures: Sequence[Figure], *, columns: int = 2, title: str = "", keys: Sequence[Key] = ()) -> Figure:
    """Figures in rows of `columns`, each as large as it was made, below `title` and the `keys` that they share."""
    require(figures and columns > 0, "grid: there is nothing to arrange.", "Give at least one figure and one column.")
    rows = [figures[i : i + columns] for i in range(0, len(figures), columns)]
    widths = [max(row[i].width for row in rows if i < len(row)) for i in range(min(columns, len(figures)))]
    width = sum(widths) + SPACE * (len(widths) - 1)
    head, top = heading(title, keys, width)
    parts, top = ([head], top + 8) if title or keys else ([], 0.0)
    for row in rows:
        left = 0.0
        for figure, column in zip(row, widths, strict=False):
            parts.append(f'<g transform="translate({marks.number(left)} {marks.number(top)})">{figure.body}</g>')
            left += column + SPACE
        top += max(figure.height for figure in row) + SPACE
    described = " ".join(f"{figure.title}: {figure.description}" for figure in figures)
    return finished(parts, width=width, height=top - SPACE, title=title, description=described)
