"""What rows must be like before anything is trained on them. Every refusal names whose rows, the cause and the fix."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from lossgap.errors import DataError, is_count, repeated, require, require_data
from lossgap.mapped import in_blocks, is_mapped

Task = Literal["classification", "regression"]

MOST_WHOLE_NUMBERS = 100
LARGEST_LABEL = 2**31 - 2  # labels are int32, and so is their number


def check_names(names: Sequence[str]) -> None:
    """At least two clients, each with a name of its own."""
    require_data(names, "The federation has no clients.", "Give at least two.")
    require_data(
        len(names) > 1,
        f"The federation has one client, {names[0]!r}: with nobody to compare with there is no fairness to measure.",
        "Give at least two clients.",
    )
    twice = repeated(names)
    require_data(not twice, f"The client name {twice[0] if twice else ''!r} stands twice.", "Give each its own name.")


def check_classes(classes: int | None) -> None:
    require(
        classes is None or (is_count(classes) and classes > 1),
        f"classes is {classes}.",
        "Give a whole number of at least 2, or leave it out.",
    )


def check_fractions(fractions: Sequence[float]) -> None:
    require(
        len(fractions) == 3 and all(f > 0 for f in fractions) and abs(sum(fractions) - 1) < 1e-9,
        f"fractions are {fractions}.",
        "Give three positive numbers for training, validation and test rows that sum to 1, such as (0.6, 0.2, 0.2).",
    )


def check_task(task: Task | None) -> None:
    require(
        task in ("classification", "regression", None),
        f"task is {task!r}.",
        'Use "classification" or "regression", or leave it out.',
    )


def as_rows(whose: str, x: ArrayLike, y: ArrayLike, task: Task | None) -> tuple[np.ndarray, np.ndarray]:
    """Features [rows, ...] and targets [rows], as arrays of numbers: labels are int32, numbers to predict floating."""
    x, y = _array(whose, "features", x), _array(whose, "targets", y)
    for what, a in (("features", x), ("targets", y)):
        require_data(
            a.dtype.kind in "biuf",
            f"{whose}: the {what} are of type {a.dtype}, not numbers.",
            "Encode them as numbers, or use Federation.from_table, which encodes columns of text.",
        )
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    require_data(
        x.ndim >= 2 and y.ndim == 1 and len(x) == len(y),
        f"{whose}: features have shape {x.shape} and targets {y.shape}.",
        "Give features [rows, ...] and as many targets [rows].",
    )
    if task == "regression":
        return x, y.astype(np.float64)
    return x, _labels(whose, y) if task == "classification" or y.dtype.kind in "biu" else y


def classes_among(targets: Mapping[str, Sequence[np.ndarray]], task: Task | None) -> int | None:
    """The number of classes that integer targets imply, at least two; None for numbers. Targets by client."""
    floating = [name for name, splits in targets.items() if any(y.dtype.kind == "f" for y in splits)]
    every = [y for splits in targets.values() for y in splits]
    if not floating:  # if all rows are of class 0, there must be another one somewhere
        return 1 + max([1, *(int(y.max()) for y in every if len(y))])
    if task is None:
        _refuse_labels_as_floats(np.concatenate(every))
        _refuse_labels_here_and_numbers_there(floating, targets)
    return None


def check_rows(whose: str, x: np.ndarray, y: np.ndarray, *, features: tuple[int, ...], classes: int | None) -> None:
    """Rows that can be trained on, with the features and classes that all clients share."""
    require_data(len(y), f"{whose} is empty.", "Give it at least one row, or leave the client out.")
    require_data(
        x.shape[1:] == features,
        f"{whose}: rows have shape {x.shape[1:]}, those of the first client {features}.",
        "Give every client the same features in the same order.",
    )
    require_data(math.prod(features), f"{whose}: rows have no features.", "Give each row at least one number.")
    _check_finite(whose, "features", x)
    _check_finite(whose, "targets", y)
    if classes is not None:
        _check_labels(whose, y, classes)


def _array(whose: str, what: str, values: Any) -> np.ndarray:
    if what == "features" and is_mapped(values):
        return values
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(
            f"{whose}: the {what} do not form an array. Give features [rows, ...], every row as long as the others."
        ) from None


def _labels(whose: str, y: np.ndarray) -> np.ndarray:
    require_data(
        y.dtype.kind in "biu" or (y % 1 == 0).all(),
        f"{whose}: labels are to be classes, but some are no whole numbers.",
        'Number the classes from 0, or say task="regression".',
    )
    largest = int(np.abs(y, dtype=np.float64).max(initial=0)) if y.dtype.kind != "b" else 1
    require_data(
        largest <= LARGEST_LABEL,
        f"{whose}: a label is {largest}.",
        f"Number the classes from 0; {LARGEST_LABEL} is the largest number that fits.",
    )
    return y.astype(np.int32)


def _refuse_labels_here_and_numbers_there(floating: Sequence[str], targets: Mapping[str, Sequence[np.ndarray]]) -> None:
    whole = [name for name in targets if name not in floating]
    kinds = sorted({str(y.dtype) for y in targets[floating[0]]})
    require_data(
        not whole,
        f"Client {floating[0]!r} has targets of type {', '.join(kinds)}, client {whole[0] if whole else ''!r} whole "
        "numbers: classes or numbers?",
        'Give all clients targets of one kind, or say task="regression".',
    )


def _refuse_labels_as_floats(targets: np.ndarray) -> None:
    values = np.unique(targets[np.isfinite(targets)])
    labels = 2 <= len(values) <= MOST_WHOLE_NUMBERS and np.array_equal(values, np.arange(len(values)))
    require_data(
        not labels,
        f"The targets are the whole numbers 0 to {len(values) - 1}, written as {targets.dtype}: classes or numbers?",
        'Say task="classification" or task="regression".',
    )


def _check_finite(whose: str, what: str, a: np.ndarray) -> None:
    if a.dtype.kind != "f":
        return
    count, first = 0, 0
    for start, block in in_blocks(a):
        if np.isfinite(block.sum(dtype=np.float64)):  # one pass; rows are looked at only if it fails
            continue
        rows = np.flatnonzero(~np.isfinite(block).reshape(len(block), -1).all(axis=1))
        if len(rows) and not count:
            first = start + int(rows[0])
        count += int((~np.isfinite(block)).sum())
    require_data(
        not count,
        f"{whose}: {count} of the {what} are NaN or infinite, the first in row {first}.",
        "Fill or drop them; Federation.from_table fills missing values by a stated rule.",
    )


def _check_labels(whose: str, y: np.ndarray, classes: int) -> None:
    require_data(
        y.dtype.kind in "iu",
        f"{whose}: labels are of type {y.dtype}, but {classes} classes are asked for.",
        "Give whole numbers from 0, or leave out `classes` to predict numbers.",
    )
    low, high = int(y.min()), int(y.max())
    require_data(
        low >= 0 and high < classes,
        f"{whose}: label {low if low < 0 else high} is outside 0 to {classes - 1}.",
        "Number the classes from 0, and give `classes` if some class is missing here.",
    )
