"""How one column becomes features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lossgap.errors import DataError, require_data

Values = Any  # of one column: float64 numbers with NaN for missing (numpy), or text with nulls (pyarrow)
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MANY_CATEGORIES = 1000
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Number:
    """A column of numbers: (value - mean) / deviation, a missing value being the median; all three of training rows.

    A column that is constant on training rows is 0. If training rows lack values, a second feature is 1 where one is
    missing.
    """

    name: str
    median: float
    mean: float
    deviation: float
    marks_missing: bool

    @classmethod
    def fit(cls, name: str, known: np.ndarray) -> "Number":
        missing = np.isnan(known)
        median = 0.0 if missing.all() else float(np.median(known[~missing]))
        filled = np.where(missing, median, known)
        constant = filled.min() == filled.max()  # the deviation of a constant need not round to 0
        deviation = 0.0 if constant else float(filled.std())
        return cls(name, median, float(filled.mean()), deviation, marks_missing=bool(missing.any()))

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing") if self.marks_missing else (self.name,)

    def encode(self, values: np.ndarray) -> np.ndarray:
        missing = np.isnan(values)
        distance = np.where(missing, self.median, values) - self.mean
        with np.errstate(over="ignore"):  # Federation refuses what is infinite
            scaled = distance / self.deviation if self.deviation else np.zeros_like(values)
            columns = [scaled, missing] if self.marks_missing else [scaled]
            return np.column_stack(columns).astype(np.float32)


@dataclass(frozen=True)
class Category:
    """A column of text: a 0/1 feature per category that training rows hold, and one for missing if they lack values.

    A category that they do not hold is 0 in all features.
    """

    name: str
    categories: tuple[str, ...]
    marks_missing: bool

    @classmethod
    def fit(cls, name: str, known: pa.Array) -> "Category":
        categories = known.unique().drop_null().to_pylist()
        _refuse_identifier(name, len(categories), len(known))
        return cls(name, tuple(sorted(categories)), marks_missing=known.null_count > 0)

    @property
    def features(self) -> tuple[str, ...]:
        seen = tuple(f"{self.name}={category}" for category in self.categories)
        return (*seen, f"{self.name} is missing") if self.marks_missing else seen

    def encode(self, values: pa.Array) -> np.ndarray:
        code = pc.index_in(values, value_set=pa.array(self.categories, values.type)).fill_null(-1).to_numpy()
        if self.marks_missing:
            code = np.where(values.is_null().to_numpy(zero_copy_only=False), len(self.categories), code)
        encoded = np.zeros((len(code), len(self.features)), np.float32)
        rows = np.flatnonzero(code >= 0)
        encoded[rows, code[rows]] = 1
        return encoded


def fit(name: str, known: Values) -> Number | Category:
    """The encoding of a column, given its values in training rows."""
    return Number.fit(name, known) if isinstance(known, np.ndarray) else Category.fit(name, known)


def values_of(name: str, column: pa.ChunkedArray) -> Values:
    """The column's numbers or text, for `fit` and `encode`."""
    refuse_type(name, column.type)
    if is_numeric(column.type):
        return numbers_of(column)
    if is_text(column.type):
        _refuse_numbers_as_text(name, decoded(column))
    return decoded(column).cast(pa.large_string())


def numbers_of(column: pa.ChunkedArray) -> np.ndarray:
    numbers: np.ndarray = decoded(column).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def decoded(column: pa.ChunkedArray) -> pa.Array:
    """One array, with dictionaries looked up and text of one type, whichever the data frame uses."""
    return pa.concat_arrays([_decoded(chunk) for chunk in column.chunks])


def _decoded(chunk: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(chunk.type):
        return _decoded(chunk.dictionary).take(chunk.indices)
    return chunk.cast(pa.large_string()) if is_text(chunk.type) else chunk


def is_numeric(kind: pa.DataType) -> bool:
    known = (pa.types.is_boolean, pa.types.is_integer, is_floating, pa.types.is_null)
    return any(is_kind(kind) for is_kind in known)


def is_floating(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def refuse_type(name: str, kind: pa.DataType) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    require_data(
        not pa.types.is_temporal(kind),
        f"Column {name!r} holds dates or times ({kind}), for which there is no natural number.",
        "Convert it to one, such as the year or the days since some date, or leave it out.",
    )
    require_data(
        not pa.types.is_nested(kind),
        f"Column {name!r} is nested ({kind}).",
        "Give each of its parts a column of its own, or leave it out.",
    )
    require_data(
        is_numeric(kind) or is_text(kind),
        f"Column {name!r} is of type {kind}, neither numbers nor text.",
        "Convert it to one of them, or leave it out.",
    )


def refuse_infinite(name: str, numbers: np.ndarray, owner: Callable[[int], str]) -> None:
    """Refuse numbers that are no 32-bit ones, naming the owner of the row."""
    bad = np.flatnonzero(np.abs(numbers) > LARGEST)
    if len(bad):
        raise DataError(
            f"Client {owner(bad[0])!r}, column {name!r}: the value {numbers[bad[0]]} in row {bad[0]} is infinite or "
            f"beyond 32-bit numbers ({len(bad)} such values in all). Replace it by a number or mark it as missing."
        )


def _refuse_numbers_as_text(name: str, text: pa.Array) -> None:
    distinct = text.unique().drop_null()
    numeric = pc.match_substring_regex(distinct, NUMBER)
    others = distinct.filter(pc.invert(numeric)).to_pylist()
    shown = ", ".join(map(repr, others[:5])) + (", …" if len(others) > 5 else "")
    require_data(
        10 * len(others) >= len(distinct),
        f"Column {name!r} is text, but its {len(distinct)} distinct values are numbers{shown and f', except {shown}'}.",
        f'Convert it with pandas.to_numeric(frame[{name!r}], errors="coerce"), or, if the numbers are codes, to '
        'categories with .astype("category").',
    )


def _refuse_identifier(name: str, distinct: int, rows: int) -> None:
    require_data(
        distinct <= MANY_CATEGORIES and not (rows > 50 and distinct > 0.5 * rows),
        f"Column {name!r} has {distinct} distinct texts in {rows} training rows: an identifier or free text.",
        "Drop it, or name the columns to use with features=[…].",
    )
