"""Losses that somebody else measured: checked cell by cell, so that an error names its line, column and client."""

import csv
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lossgap.arguments import nearest
from lossgap.errors import DataWarning, FileError, repeated, require_data

NEEDED = ("client", "loss", "solo_loss")
OPTIONAL = ("accuracy", "rows", "method", "split")
COLUMNS = (*NEEDED, *OPTIONAL)
UNNAMED = "the model"
"""What the method is called in a table without a column for it."""

Record = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """How one model serves one client."""

    place: str  # where it stands, for errors
    client: str
    method: str
    split: str
    loss: float
    solo_loss: float
    accuracy: float  # NaN: not known
    rows: int  # 0: not known


def read(table: Any) -> list[Line]:
    """The lines of a csv file (commas, semicolons or tabs), a mapping of columns, or a data frame."""
    name, records = _from_file(Path(table)) if isinstance(table, str | Path) else _from_columns(table)
    lines = [_line(place, record) for place, record in records]
    require_data(lines, f"{name}: there is no row below the header.", "Give one row per client and method.")
    return lines


def _from_file(path: Path) -> tuple[str, list[tuple[str, Record]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileError(
            f"{path}: there is no such file. Check the path; relative ones start in {Path.cwd()}."
        ) from None
    except UnicodeDecodeError:
        raise FileError(f"{path}: it is not UTF-8 text. Save it as csv in UTF-8.") from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror}. Give a csv file.") from None
    require_data(text.strip(), f"{path}: the file is empty.", f"Its first line names the columns: {', '.join(NEEDED)}.")
    first = text.lstrip().splitlines()[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    head = _head(next(reader), path.name)
    return path.name, list(_rows(reader, head, path.name))


def _rows(reader: Any, head: Sequence[str], name: str) -> Iterator[tuple[str, Record]]:
    for cells in reader:
        place = f"{name}, line {reader.line_num}"
        if not any(cell.strip() for cell in cells):
            continue  # an empty line
        require_data(
            len(cells) == len(head),
            f"{place}: it has {len(cells)} cells, and the header names {len(head)} columns.",
            "Give every line as many cells; put text with commas into quotes.",
        )
        yield place, dict(zip(head, (cell.strip() for cell in cells), strict=True))


def _from_columns(table: Any) -> tuple[str, list[tuple[str, Record]]]:
    if not isinstance(table, Mapping):
        require_data(
            hasattr(table, "__arrow_c_stream__"),
            f"audit: the table is a {type(table).__name__}.",
            "Give the path of a csv file, a mapping of columns, or a data frame (pandas 2.2 or later, polars).",
        )
        import pyarrow as pa

        table = pa.table(table).to_pydict()
    head = _head([str(name) for name in table], "the table")
    columns = [list(values) for values in table.values()]
    require_data(
        len({len(values) for values in columns}) == 1,
        "the table: its columns differ in length.",
        "Give every column one value per row.",
    )
    cells = zip(*columns, strict=True)
    return "the table", [
        (f"the table, row {number}", dict(zip(head, map(_text, row), strict=True)))
        for number, row in enumerate(cells, 1)
    ]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _head(names: Sequence[str], where: str) -> list[str]:
    """The names of the columns, all that are needed among them."""
    head = [name.strip().lower().replace(" ", "_") for name in names]
    twice = repeated(head)
    require_data(not twice, f"{where}: the column {twice and twice[0]!r} stands twice.", "Give each its own name.")
    unused = [name for name in head if name not in COLUMNS]
    for name in NEEDED:
        meant = nearest(name, unused)
        require_data(
            name in head,
            f"{where}: the column {name!r} is missing; there are {', '.join(head)}.{meant}",
            f"Needed are {', '.join(NEEDED)}; also read are {', '.join(OPTIONAL)}.",
        )
    for name in unused:
        meant = nearest(name, [column for column in OPTIONAL if column not in head])
        warnings.warn(f"{where}: the column {name!r} is not used.{meant}", DataWarning, stacklevel=6)
    return head


def _line(place: str, record: Record) -> Line:
    client = record["client"]
    require_data(client, f"{place}, column client: it is empty.", "Name the client.")
    place = f"{place}, client {client!r}"
    return Line(
        place=place,
        client=client,
        method=record.get("method") or UNNAMED,
        split=record.get("split", ""),
        loss=_number(record["loss"], f"{place}, column loss"),
        solo_loss=_number(record["solo_loss"], f"{place}, column solo_loss"),
        accuracy=_share(record.get("accuracy", ""), f"{place}, column accuracy"),
        rows=_count(record.get("rows", ""), f"{place}, column rows"),
    )


def _number(text: str, place: str) -> float:
    require_data(text, f"{place}: it is empty.", "Give a number, or leave the client out under every method.")
    try:
        value = float(text)
    except ValueError:
        comma = " Write decimals with a point, not a comma." if text.replace(",", "").replace("-", "").isdigit() else ""
        require_data(False, f"{place}: {text!r} is not a number.{comma}", "Give a number such as 0.42.")
    require_data(math.isfinite(value), f"{place}: it is {text}.", "Give a finite number.")
    return value


def _share(text: str, place: str) -> float:
    if not text or text.lower() == "nan":
        return float("nan")
    value = _number(text, place)
    require_data(0 <= value <= 1, f"{place}: it is {text}.", "Give a share from 0 to 1, such as 0.83 for 83 %.")
    return value


def _count(text: str, place: str) -> int:
    if not text or text.lower() == "nan":
        return 0
    value = _number(text, place)
    require_data(value >= 1 and value == int(value), f"{place}: it is {text}.", "Give a whole number of at least 1.")
    return int(value)
