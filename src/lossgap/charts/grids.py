"""Several pictures as one."""

from collections.abc import Sequence

from lossgap.charts import marks
from lossgap.charts.figure import Figure
from lossgap.charts.frame import PAD, finished
from lossgap.errors import require

SPACE = 16


def grid(figures: Sequence[Figure], *, columns: int = 2, title: str = "") -> Figure:
    """Figures in rows of `columns`, each as large as it was made; `title` above them all."""
    require(figures and columns > 0, "grid: there is nothing to arrange.", "Give at least one figure and one column.")
    rows = [figures[i : i + columns] for i in range(0, len(figures), columns)]
    widths = [max(row[i].width for row in rows if i < len(row)) for i in range(min(columns, len(figures)))]
    top = 34.0 if title else 0.0
    parts = [marks.text(PAD, 23, title, "title")] if title else []
    for row in rows:
        left = 0.0
        for figure, width in zip(row, widths, strict=False):
            parts.append(f'<g transform="translate({marks.number(left)} {marks.number(top)})">{figure.body}</g>')
            left += width + SPACE
        top += max(figure.height for figure in row) + SPACE
    described = " ".join(f"{figure.title}: {figure.description}" for figure in figures)
    width = sum(widths) + SPACE * (len(widths) - 1)
    return finished(parts, width=width, height=top - SPACE, title=title, description=described)
