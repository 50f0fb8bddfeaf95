"""Tables from csv and parquet files and from data frames."""

import csv
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from lossgap.errors import DataError, FileError, require_data

MISSING = ("?", "", "NA", "NaN", "null")
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = ".parquet"
QUOTE = b'"'


def load(table: Any, client: str) -> pa.Table:
    """The table behind a path or a data frame: at least one row, no column name twice.

    In csv files the values "?", "", "NA", "NaN" and "null" are missing, with or without quotes; spaces around text and
    one before any value do not count; the `client` column stays text, so that "01" and "1" are two clients.
    """
    rows = _read_file(Path(table), client) if isinstance(table, (str, os.PathLike)) else _read_frame(table)
    names = rows.column_names
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    require_data(not doubled, f"The column names {doubled} stand twice.", "Give each column its own name.")
    return rows


def _read_frame(table: Any) -> pa.Table:
    accepted = "Give the path of a csv or parquet file, a pyarrow table or a data frame (pandas 2.2 or later, polars)."
    require_data(hasattr(table, "__arrow_c_stream__"), f"The table is a {type(table).__name__}.", accepted)
    if hasattr(table, "reset_index"):  # pandas: its index is no column
        table = table.reset_index(drop=True)
    try:
        rows = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"The {type(table).__name__} cannot be read as a table: {_reason(error)}. "
            "Give every column its own name and values of one type."
        ) from error
    require_data(rows.num_rows, f"The {type(table).__name__} has no rows.", "Give each client at least three.")
    return rows


def _read_file(path: Path, client: str) -> pa.Table:
    suffix = next((ending for ending in (PARQUET, *DELIMITERS) if path.name.lower().endswith(ending)), None)
    if suffix is None:
        raise FileError(f"{path}: the name ends in none of {', '.join(DELIMITERS)}, {PARQUET}. Convert or rename it.")
    if not path.is_file():
        there = "is a folder" if path.is_dir() else "there is no such file"
        raise FileError(f"{path}: {there}. Check the path; relative ones start in {Path.cwd()}.")
    fix = (
        "It may be cut off: copy or write it again."
        if suffix == PARQUET
        else "Save it as UTF-8 text, first row the column names, every row with as many values."
    )
    with telling(path, suffix[1:], fix):
        rows = _read_parquet(path) if suffix == PARQUET else _read_csv(path, DELIMITERS[suffix], {client: pa.string()})
    if not rows.num_rows:
        raise FileError(f"{path}: has no rows. Give each client at least three.")
    return rows


def without_header(path: Path, columns: Mapping[str, pa.DataType], *, count: int, skip: int = 0) -> pa.Table:
    """A published table of comma-separated values, plain or .gz, whose file does not name its columns.

    Missing values and spaces are as in `load`. A file with other than `count` rows is refused, so that one that is cut
    off between two lines is not taken for a whole one. `skip` lines before the first row are no rows.
    """
    with telling(path, "comma-separated values", "Fetch or copy the file again."):
        rows = _read_csv(path, ",", columns, pa_csv.ReadOptions(column_names=list(columns), skip_rows=skip))
    if rows.num_rows != count:
        raise FileError(f"{path}: has {rows.num_rows} rows, and {count} were published. Fetch or copy the file again.")
    return rows


@contextmanager
def telling(path: Path, kind: str, fix: str) -> Iterator[None]:
    """Whatever goes wrong while a file is read is told with its path."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read as {kind}: {_reason(error)}. {fix}") from error


def _read_parquet(path: Path) -> pa.Table:
    # ParquetFile, not read_table, which would take columns from folder names such as "year=2024".
    with pa_parquet.ParquetFile(path, page_checksum_verification=True) as file:
        rows = file.read()
    rows.validate(full=True)  # damaged text or dictionaries would otherwise fail somewhere later
    return rows


def _read_csv(
    path: Path, delimiter: str, types: Mapping[str, pa.DataType], lines: pa_csv.ReadOptions | None = None
) -> pa.Table:
    with pa.input_stream(str(path)) as stream:  # unpacks .gz
        content = stream.read_buffer()
    _check_utf8(content)
    _check_quotes(content, delimiter)
    rows = pa_csv.read_csv(
        pa.BufferReader(content),
        read_options=lines,
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            null_values=_spaced(MISSING),
            true_values=_spaced(("true", "True", "TRUE")),
            false_values=_spaced(("false", "False", "FALSE")),
            strings_can_be_null=True,
        ),
    )
    _check_last_quote(rows, content)
    return _trimmed(rows)


def _spaced(words: tuple[str, ...]) -> list[str]:
    """With and without the space that many files have after the separator; pyarrow skips it before numbers only."""
    return [space + word for word in words for space in ("", " ")]


def _check_utf8(content: pa.Buffer) -> None:
    offsets = pa.py_buffer(np.array([0, content.size], np.int64))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])
    try:
        whole.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise ValueError("it is not UTF-8 text") from error


def _check_quotes(content: pa.Buffer, delimiter: str) -> None:
    """Text after a closing quote: pyarrow would take it, and all rows up to the next quote, into the value."""
    if content.size and QUOTE in content.to_pybytes():
        lines = csv.reader(
            io.TextIOWrapper(pa.BufferReader(content), "utf-8-sig", newline=""), delimiter=delimiter, strict=True
        )
        try:
            for _ in lines:
                pass
        except csv.Error as error:
            if "expected after" in str(error):  # what else may be wrong is found elsewhere
                raise ValueError(f"in line {lines.line_num}, text follows a closing quote") from error


def _check_last_quote(rows: pa.Table, content: pa.Buffer) -> None:
    """A quote that is never closed swallows all rows after it into the last value; pyarrow lets that pass."""
    last = rows.column(-1)[-1].as_py() if rows.num_rows else None
    tail = content.slice(max(0, content.size - 100)).to_pybytes()
    if isinstance(last, str) and "\n" in last and not tail.rstrip().endswith(b'"'):
        raise ValueError(f"a quote is opened before {last[:30]!r} and never closed")


def _trimmed(rows: pa.Table) -> pa.Table:
    for k, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            text = pc.utf8_trim_whitespace(rows.column(k))
            missing = pc.is_in(text, value_set=pa.array(MISSING))
            rows = rows.set_column(k, field.name, pc.if_else(missing, pa.scalar(None, field.type), text))
    return rows


def _reason(error: Exception) -> str:
    words = " ".join(" ".join(map(str, error.args)).split()).rstrip(".")
    return words if len(words) <= 200 else words[:200] + " …"
