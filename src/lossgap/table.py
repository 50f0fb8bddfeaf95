"""Plain tables: rows of values, drawn as text."""

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __str__(self) -> str:
        cells = [self.columns, *(tuple(map(_text, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numeric = [all(not isinstance(cell, str) for cell in column) for column in zip(*self.rows, strict=True)]
        lines = [
            "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])


def _text(cell: Cell) -> str:
    if cell is None or cell != cell:  # NaN
        return "–"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def listed(names: Sequence[str]) -> str:
    """Names as a person says them: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
