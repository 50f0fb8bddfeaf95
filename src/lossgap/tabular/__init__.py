"""Federations from tables: one column names the client, one the target, the others become features."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import numpy as np

from lossgap.checks import Task
from lossgap.errors import DataWarning, FileError, require
from lossgap.federation import Client, Federation, Fractions, Split
from lossgap.tabular.columns import Category, Number, Values, fit, refuse_infinite, values_of
from lossgap.tabular.files import load
from lossgap.tabular.notices import warn_of_columns
from lossgap.tabular.on_disk import Columns, ParquetTable, encoded
from lossgap.tabular.target import Parties, parties, targets

__all__ = ["Category", "Encoding", "Number", "read"]


@dataclass(frozen=True)
class Encoding:
    """What the features and classes of a federation stand for.

    Args:
        columns: how each column of the table was encoded, with the figures fitted on training rows.
        classes: the name of each class; None when targets are numbers.
    """

    columns: tuple[Number | Category, ...]
    classes: tuple[str, ...] | None

    @property
    def features(self) -> tuple[str, ...]:
        """The name of each feature, such as "age", "age is missing", "workclass=Private"."""
        return tuple(feature for column in self.columns for feature in column.features)


def read(
    table: Any,
    *,
    client: str,
    target: str,
    features: Sequence[str] | None = None,
    fractions: Fractions = (0.6, 0.2, 0.2),
    seed: int = 0,
    task: Task | None = None,
    on_disk: str | Path | None = None,
) -> tuple[Federation, Encoding]:
    """A federation from a table, and what its features and classes stand for.

    Rows are split as in `Federation.from_arrays`. Everything that is fitted is fitted on the training rows of all
    clients together; validation and test rows change nothing but themselves.

    **Table.** A path ending in .csv, .tsv, .csv.gz, .tsv.gz or .parquet, a pyarrow table, or a data frame with Arrow's
    C-stream interface (pandas 2.2 or later without its index, polars). Csv files are UTF-8 and begin with the column
    names; the values "?", "", "NA", "NaN" and "null" are missing; spaces around text and one space before any value do
    not count. Elsewhere nulls and NaN are missing and text is left as it is.

    **Client.** Any type, made a string; clients stand in order of first appearance. A missing one is an error.

    **Target.** Text, booleans, integers and dictionaries (categories) are classes: the sorted distinct values,
    numbered from 0. Floating columns are numbers to predict. `task` overrules this: "classification" makes the
    distinct values of any column classes, "regression" predicts any numbers. Two cases are an error until `task` is
    given: floats that are at most 100 whole numbers, and more than 100 classes. A missing target is an error: drop
    those rows first.

    **Features.** All other columns in the table's order, or `features` in its order.

    - Numbers and booleans become one feature, (value - mean) / deviation with the mean and (population) deviation of
      training rows; 0 if constant there. A missing value is replaced by the training median first; if training rows
      lack values, a 0/1 feature "is missing" follows. Infinite values are an error.
    - Text and dictionaries become one 0/1 feature per category of the training rows, sorted; a missing value is a
      category of its own if training rows lack values. A category (or a missing value) that training rows do not hold
      is 0 everywhere; of a new category, and of a client that lacks a whole column, a `DataWarning` tells. Two cases
      are an error: text that is nearly all numbers (more than 90 % of its distinct values), and identifiers (more than
      1000 categories, or more than half as many as training rows if these are more than 50).
    - Dates, times, nested and binary columns are an error: convert them, or leave them out with `features`.

    **Larger than memory.** With `on_disk`, the path of a .npy file to write, a parquet file is read column by column to
    fit encodings, then some rows at a time; features go into that file and stay there, for `lossgap.train_streaming`.
    Memory holds one column, and the client, target and split of every row.
    """
    choices = get_args(Task)
    require(task is None or task in choices, f"task is {task!r}.", f"Use one of {choices}, or leave it out.")
    rows = load(table, client) if on_disk is None else _parquet(table, on_disk)
    chosen = _features(rows.column_names, client, target, features)
    owned = parties(client, rows[client])
    y, classes = targets(target, rows[target], owned, task)
    columns: Mapping[str, Values] = Columns(chosen, lambda name: _checked(name, values_of(name, rows[name]), owned))
    columns = columns if isinstance(rows, ParquetTable) else dict(columns)
    drawn = _draw(owned, y, None if classes is None else len(classes), fractions, seed)
    encoders = _fitted(drawn, columns)
    if isinstance(rows, ParquetTable):
        return encoded(drawn, rows, encoders, y, Path(str(on_disk))), Encoding(encoders, classes)
    return _encoded(drawn, columns, encoders, y), Encoding(encoders, classes)


def _parquet(table: Any, on_disk: str | Path) -> ParquetTable:
    require(
        isinstance(table, str | os.PathLike),
        f"on_disk is for parquet files, and the table is a {type(table).__name__}.",
        "Give the file's path, or leave on_disk out.",
    )
    require(str(on_disk).endswith(".npy"), f"on_disk is {str(on_disk)!r}.", "Name a file to write, ending in .npy.")
    path = Path(table)
    if not path.is_file():
        raise FileError(f"{path}: there is no such file. Check the path; relative ones start in {Path.cwd()}.")
    return ParquetTable(path)


def _features(names: list[str], client: str, target: str, features: Sequence[str] | None) -> list[str]:
    _check_column(names, client, "client")
    _check_column(names, target, "target")
    require(client != target, f"Column {client!r} is both client and target.", "Name two different columns.")
    require(not isinstance(features, str), f"features is text: {features!r}.", f"Use a list: features=[{features!r}].")
    roles = {client: "client", target: "target"}
    chosen = [name for name in names if name not in roles] if features is None else list(features)
    for name in chosen:
        _check_column(names, name, "feature")
        require(name not in roles, f"features names {name!r}, which is the {roles.get(name)}.", "Leave it out there.")
        require(chosen.count(name) == 1, f"features names {name!r} twice.", "Name each column once.")
    require(chosen, "No column is left as a feature.", "Give at least one besides client and target.")
    return chosen


def _check_column(names: list[str], name: str, role: str) -> None:
    near = get_close_matches(str(name), names, n=1)
    listed = ", ".join(map(repr, names[:30])) + (", …" if len(names) > 30 else "")
    hint = f"Did you mean {near[0]!r}? " if near else ""
    require(name in names, f"The table has no column {name!r} for the {role}.", f"{hint}Its columns are {listed}.")


def _checked(name: str, values: Values, owned: Parties) -> Values:
    if isinstance(values, np.ndarray):
        refuse_infinite(name, values, owned.owner)
    return values


def _draw(owned: Parties, y: np.ndarray, classes: int | None, fractions: Fractions, seed: int) -> Federation:
    """The split of `Federation.from_arrays`, with row numbers in place of features."""
    task: Task = "regression" if classes is None else "classification"
    arrays = {name: (rows[:, None], y[rows]) for name, rows in owned.rows().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the final federation gives them
        return Federation.from_arrays(arrays, fractions=fractions, seed=seed, classes=classes, task=task)


def _encoded(
    drawn: Federation, columns: Mapping[str, Values], encoders: Sequence[Number | Category], y: np.ndarray
) -> Federation:
    """The federation with features and targets in place of row numbers."""
    splits = [split.x[:, 0] for client in drawn.clients for _, split in client.splits]
    order = np.concatenate(splits)
    blocks = [encoder.encode(columns[encoder.name].take(order)) for encoder in encoders]
    cuts = np.cumsum([len(rows) for rows in splits])[:-1]
    parts = list(map(Split, np.split(np.hstack(blocks), cuts), np.split(y[order], cuts)))
    clients = tuple(Client(name, *parts[3 * k : 3 * k + 3]) for k, name in enumerate(drawn.names))
    return Federation(clients, classes=drawn.classes)


def _fitted(drawn: Federation, columns: Mapping[str, Values]) -> tuple[Number | Category, ...]:
    """Every column's encoding, fitted on the training rows of all clients together."""
    train = np.concatenate([client.train.x[:, 0] for client in drawn.clients])
    encoders = tuple(fit(name, values.take(train)) for name, values in columns.items())
    warn_of_columns(drawn, columns, encoders)
    return encoders
