"""Plain tables: rows of values, drawn as text, Markdown, LaTeX or csv."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Cell = str | float | int | None
Place = tuple[int, int]

LATEX = {
    "\\": r"\textbackslash{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
}


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values.

    Args:
        columns: their names.
        rows: one value per column; None and NaN are shown as –.
        bold: (row, column) of the cells to stand out, such as the best of each column. Text marks them with a *.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    bold: frozenset[Place] = frozenset()

    def __str__(self) -> str:
        cells = [list(self.columns), *self._marked("{}*".format)]
        if self.bold:  # digits stay below digits
            cells = [cells[0], *([f"{c} " if not c.endswith("*") else c for c in row] for row in cells[1:])]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, self._numeric, strict=True))
            for row in cells
        ]
        return "\n".join(line.rstrip() for line in [lines[0], "  ".join("─" * width for width in widths), *lines[1:]])

    def markdown(self) -> str:
        """A pipe table, as GitHub and most others read it."""
        rule = ["---:" if numeric else "---" for numeric in self._numeric]
        rows = [self.columns, *self._marked("**{}**".format)]
        head, *body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body])

    def latex(self) -> str:
        """A `tabular`; its rules need the package booktabs."""
        rows = [[_latex(cell) for cell in self.columns], *self._marked(r"\textbf{{{}}}".format, _latex)]
        head, *body = [f"{' & '.join(row)} \\\\" for row in rows]
        columns = "".join("r" if numeric else "l" for numeric in self._numeric)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )

    def csv(self) -> str:
        """Values in full, as a spreadsheet reads them; what is None or NaN is left empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([("" if _absent(cell) else cell for cell in row) for row in self.rows])
        return text.getvalue()

    @property
    def _numeric(self) -> list[bool]:
        if not self.rows:
            return [False] * len(self.columns)
        return [all(not isinstance(cell, str) for cell in column) for column in zip(*self.rows, strict=True)]

    def _marked(self, mark: Callable[[str], str], escape: Callable[[str], str] = str) -> list[list[str]]:
        """Every cell as text, those in bold marked."""
        return [
            [mark(escape(_text(c))) if (i, j) in self.bold else escape(_text(c)) for j, c in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]


def _absent(cell: Cell) -> bool:
    return cell is None or cell != cell  # NaN


def _text(cell: Cell) -> str:
    if _absent(cell):
        return "–"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


def listed(names: Sequence[str]) -> str:
    """Names as a person says them: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
