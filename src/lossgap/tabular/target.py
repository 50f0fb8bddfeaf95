"""Whose each row is, and what is to be predicted."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lossgap.checks import Task
from lossgap.errors import DataError, require_data
from lossgap.tabular.columns import decoded, is_floating, is_text, numbers_of, refuse_infinite, refuse_type

MANY_CLASSES = 100
WHICH = 'Say task="classification" or task="regression".'


@dataclass(frozen=True)
class Parties:
    """The clients in order of first appearance, and the number of each row's client, [rows]."""

    names: tuple[str, ...]
    number: np.ndarray

    def owner(self, row: int) -> str:
        return self.names[int(self.number[row])]

    def rows(self) -> dict[str, np.ndarray]:
        """Row numbers of each client."""
        order = np.argsort(self.number, kind="stable")
        cuts = np.cumsum(np.bincount(self.number))[:-1]
        return dict(zip(self.names, np.split(order, cuts), strict=True))


def parties(name: str, column: pa.ChunkedArray) -> Parties:
    """Clients as one column names them, in whatever type."""
    values = decoded(column)
    _refuse_missing_clients(name, values)
    try:
        coded = values.cast(pa.large_string()).dictionary_encode()
    except pa.ArrowException as error:
        raise DataError(f"Column {name!r} is of type {values.type}, which names no clients. Give text.") from error
    return Parties(tuple(coded.dictionary.to_pylist()), coded.indices.to_numpy())


def targets(
    name: str, column: pa.ChunkedArray, owned: Parties, task: Task | None
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Class numbers and the names of the classes, or numbers to predict and None."""
    refuse_type(name, column.type)
    _refuse_missing_targets(name, column, owned)
    if task == "regression" or (task is None and is_floating(column.type)):
        return _numbers(name, column, owned, task), None
    return _classes(name, decoded(column), task)


def _numbers(name: str, column: pa.ChunkedArray, owned: Parties, task: Task | None) -> np.ndarray:
    require_data(
        not is_text(decoded(column).type),
        f"The target, column {name!r}, is text: no numbers to predict.",
        'Convert it to numbers, or leave task="regression" out to predict classes.',
    )
    numbers = numbers_of(column)
    refuse_infinite(name, numbers, owned.owner)
    distinct = np.unique(numbers)
    require_data(
        task is not None or len(distinct) > MANY_CLASSES or (distinct % 1).any(),
        f"The target, column {name!r}, holds {len(distinct)} whole numbers from {distinct[0]} to {distinct[-1]}, "
        f"written as {column.type}: classes or numbers?",
        WHICH,
    )
    return numbers


def _classes(name: str, values: pa.Array, task: Task | None) -> tuple[np.ndarray, tuple[str, ...]]:
    values = values.cast(pa.float64()) if is_floating(values.type) else values  # not every kind of float can be sorted
    distinct = values.unique()
    require_data(
        task is not None or len(distinct) <= MANY_CLASSES,
        f"The target, column {name!r}, holds {len(distinct)} distinct values of type {values.type}: really classes?",
        WHICH,
    )
    require_data(
        len(distinct) > 1,
        f"The target, column {name!r}, is {distinct[0]} in every row: there is nothing to tell apart.",
        "Name another column, or give rows of at least two classes.",
    )
    ordered = distinct.take(pc.array_sort_indices(distinct))
    number = pc.index_in(values, value_set=ordered).to_numpy()
    return number.astype(np.int32), tuple(map(str, ordered.to_pylist()))


def _refuse_missing_clients(name: str, values: pa.Array) -> None:
    missing = pc.is_null(values, nan_is_null=True)
    if is_text(values.type):
        missing = pc.or_(missing, pc.equal(values, "").fill_null(True))
    bad = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
    require_data(
        not len(bad),
        f"Row {bad[0] if len(bad) else None} (the first is 0) names no client: column {name!r} is empty there, and in "
        f"{len(bad) - 1} other rows.",
        "Fill in the client, or drop the rows.",
    )


def _refuse_missing_targets(name: str, column: pa.ChunkedArray, owned: Parties) -> None:
    missing = pc.is_null(decoded(column), nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        count = np.bincount(owned.number[missing], minlength=len(owned.names))
        first = int(np.flatnonzero(count)[0])
        raise DataError(
            f"Client {owned.names[first]!r}: {count[first]} rows have no target, column {name!r} being empty there "
            f"({count.sum()} rows of {np.count_nonzero(count)} clients in all). Drop them first, for example with "
            f"frame.dropna(subset=[{name!r}])."
        )
