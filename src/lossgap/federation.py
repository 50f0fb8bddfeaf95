"""Who holds which rows."""

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from lossgap.errors import DataError, DataWarning, require, require_data

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
Fractions = tuple[float, float, float]
Pair = tuple[ArrayLike, ArrayLike]
GOLDEN_RATIO = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Split:
    """Rows: features `x` [rows, ...] and targets `y` [rows]."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> "Split":
        return Split(self.x[rows], self.y[rows])


@dataclass(frozen=True)
class Client:
    """One party and its own rows."""

    name: str
    train: Split
    validation: Split
    test: Split

    def split(self, name: SplitName) -> Split:
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    @property
    def splits(self) -> Iterator[tuple[SplitName, Split]]:
        return ((name, self.split(name)) for name in SPLITS)


@dataclass(frozen=True)
class Federation:
    """The parties that train one model together. Integer targets are classes, floating ones are numbers to predict.

    Args:
        clients: at least two, with the same features.
        classes: how many classes there are; None when targets are numbers.
    """

    clients: tuple[Client, ...]
    classes: int | None

    def __post_init__(self) -> None:
        _check_parties(self.names)
        for client in self.clients:
            for name, split in client.splits:
                _check_rows(f"Client {client.name!r}, {name} split", split, self)
        _warn_of_single_class(self)

    @classmethod
    def from_splits(
        cls, splits: Mapping[str, Mapping[SplitName, Pair]], *, classes: int | None = None
    ) -> Self:
        """Clients whose rows are already split: `{"lyon": {"train": (x, y), "validation": …, "test": …}, …}`."""
        clients = []
        for name, parts in splits.items():
            missing = [part for part in SPLITS if part not in parts]
            require_data(
                not missing,
                f"Client {name!r} has no {' and no '.join(missing)} split.",
                'Give "train", "validation" and "test", or use Federation.from_arrays, which splits rows for you.',
            )
            clients.append(Client(name, **{part: _split(f"Client {name!r}, {part} split", *parts[part]) for part in SPLITS}))
        return cls(tuple(clients), classes=_count_classes(clients, classes))

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Pair],
        *,
        fractions: Fractions = (0.6, 0.2, 0.2),
        seed: int = 0,
        classes: int | None = None,
    ) -> Self:
        """Clients' rows, split at random into training, validation and test rows: `{"lyon": (x, y), "lille": …}`.

        Each client is split by itself, class by class where its rows allow, so that no split lacks a class that the
        client has enough rows of. Another client's rows do not change the draw.
        """
        _check_fractions(fractions)
        clients = []
        for name, (x, y) in arrays.items():
            rows = _split(f"Client {name!r}", x, y)
            require_data(
                len(rows) >= len(SPLITS),
                f"Client {name!r} has {len(rows)} rows, too few for training, validation and test rows.",
                "Leave the client out, merge it with another, or give its splits yourself with Federation.from_splits.",
            )
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            parts = _stratified(rows.y, fractions, rng)
            clients.append(Client(name, *(rows.take(part) for part in parts)))
        return cls(tuple(clients), classes=_count_classes(clients, classes))

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        client: str,
        target: str,
        features: Sequence[str] | None = None,
        fractions: Fractions = (0.6, 0.2, 0.2),
        seed: int = 0,
        task: Literal["classification", "regression"] | None = None,
    ) -> "Federation":
        """Clients from a csv or parquet file or a data frame, split as in `from_arrays`.

        One column names the client, one the target; the others, or those in `features`, become features: numbers
        standardised, text one-hot, missing values filled, all fitted on training rows only. A target of text,
        booleans or integers is classes, one of floats is numbers to predict, unless `task` says otherwise.
        `lossgap.tabular.read` states the rules in full and also returns the names of features and classes.
        """
        from lossgap import tabular  # imported late: it needs pyarrow, which most runs do not

        federation, _ = tabular.read(
            table, client=client, target=target, features=features, fractions=fractions, seed=seed, task=task
        )
        return federation

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(client.name for client in self.clients)

    @property
    def outputs(self) -> int:
        """Outputs a model needs: one per class, or one number."""
        return self.classes or 1

    @property
    def features(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.clients[0].train.x.shape[1:]

    def splits(self, name: SplitName) -> list[Split]:
        """One split of each client."""
        return [client.split(name) for client in self.clients]

    def rows(self, split: SplitName = "train") -> np.ndarray:
        """Rows of each client, [client]."""
        return np.array([len(rows) for rows in self.splits(split)])

    def __str__(self) -> str:
        kind = f"{self.classes} classes" if self.classes else "numbers to predict"
        sizes = ", ".join(f"{c.name} {'/'.join(str(len(s)) for _, s in c.splits)}" for c in self.clients[:10])
        more = ", …" if len(self.clients) > 10 else ""
        return f"Federation of {len(self.clients)} clients, rows of shape {self.features}, {kind}\n{sizes}{more}"

    __repr__ = __str__


def deal(rows: Split, owners: Iterable[np.ndarray], names: Callable[[int], str] = "client {}".format) -> dict[str, Pair]:
    """Rows of one data set as clients' arrays, given each owner's row numbers."""
    return {names(k): (rows.x[own], rows.y[own]) for k, own in enumerate(owners)}


def _check_parties(names: Sequence[str]) -> None:
    require_data(names, "The federation has no clients.", "Give at least two.")
    require_data(
        len(names) > 1,
        f"The federation has one client, {names[0]!r}: with nobody to compare with there is no fairness to measure.",
        "Give at least two clients.",
    )
    doubled = sorted({name for name in names if names.count(name) > 1})
    require_data(not doubled, f"The client name {doubled and doubled[0]!r} stands twice.", "Give each client its own name.")


def _check_fractions(fractions: Fractions) -> None:
    require(
        len(fractions) == 3 and all(f > 0 for f in fractions) and abs(sum(fractions) - 1) < 1e-9,
        f"fractions are {fractions}.",
        "Give three positive numbers for training, validation and test rows that sum to 1, such as (0.6, 0.2, 0.2).",
    )


def _split(whose: str, x: ArrayLike, y: ArrayLike) -> Split:
    x, y = np.asarray(x), np.asarray(y)
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
    return Split(x, y.astype(np.int32) if y.dtype.kind in "bu" else y)


def _count_classes(clients: Sequence[Client], classes: int | None) -> int | None:
    """The number of classes that integer targets imply; None for numbers."""
    kinds = {split.y.dtype.kind for client in clients for _, split in client.splits}
    if "f" in kinds and classes is None:
        _refuse_labels_as_floats(clients)
        return None
    if classes is None:
        classes = max((int(s.y.max()) for c in clients for _, s in c.splits if len(s)), default=1) + 1
    return classes


def _refuse_labels_as_floats(clients: Sequence[Client]) -> None:
    targets = np.concatenate([split.y for client in clients for _, split in client.splits])
    values = np.unique(targets[np.isfinite(targets)])
    whole = len(values) <= 100 and np.array_equal(values, np.arange(len(values)))
    require_data(
        not whole or len(values) < 2,
        f"The targets are the whole numbers 0 to {len(values) - 1}, written as {targets.dtype}: classes or numbers?",
        "Convert them with y.astype(int) to predict classes, or rescale them to predict numbers.",
    )


def _check_rows(whose: str, split: Split, federation: Federation) -> None:
    require_data(len(split), f"{whose} is empty.", "Give it at least one row, or leave the client out.")
    require_data(
        split.x.shape[1:] == federation.features,
        f"{whose}: rows have shape {split.x.shape[1:]}, but those of {federation.names[0]!r} have {federation.features}.",
        "Give every client the same features in the same order.",
    )
    _check_finite(whose, "features", split.x)
    _check_finite(whose, "targets", split.y)
    if federation.classes is not None:
        _check_labels(whose, split.y, federation.classes)


def _check_finite(whose: str, what: str, a: np.ndarray) -> None:
    if a.dtype.kind != "f" or np.isfinite(a.sum(dtype=np.float64)):  # one pass; overflow is looked at below
        return
    bad = ~np.isfinite(a)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise DataError(
            f"{whose}: {int(bad.sum())} of the {what} are NaN or infinite, the first in row {row}. "
            "Fill or drop them; Federation.from_table fills missing values by a stated rule."
        )


def _check_labels(whose: str, y: np.ndarray, classes: int) -> None:
    require_data(
        y.dtype.kind in "iu",
        f"{whose}: labels are of type {y.dtype}, but {classes} classes are asked for.",
        "Give whole numbers (y.astype(int)), or leave `classes` out to predict numbers.",
    )
    low, high = int(y.min()), int(y.max())
    wrong = low if low < 0 else high
    require_data(
        0 <= low and high < classes,
        f"{whose}: label {wrong} is outside 0 to {classes - 1}.",
        "Number the classes from 0, and give `classes` if some class is missing here.",
    )


def _warn_of_single_class(federation: Federation) -> None:
    if federation.classes is None:
        return
    single = [client.name for client in federation.clients if (client.train.y == client.train.y[0]).all()]
    if single:
        warnings.warn(
            f"Training rows of {', '.join(map(repr, single))} hold one class only: alone, such a client reaches a loss "
            "near 0 by always answering it, so its gap will be large.",
            DataWarning,
            stacklevel=4,
        )


def _stratified(y: np.ndarray, fractions: Fractions, rng: np.random.Generator) -> list[np.ndarray]:
    """Row numbers of the three splits, each class dealt out in nearly the given proportions."""
    order = rng.permutation(len(y))
    if y.dtype.kind != "f":
        order = order[np.argsort(y[order], kind="stable")]
    # Any run of consecutive multiples of the golden ratio, and so any class, is spread evenly over [0, 1).
    position = np.argsort((rng.random() + GOLDEN_RATIO * np.arange(len(y))) % 1)
    validation, test = (max(1, round(fraction * len(y))) for fraction in fractions[1:])
    cuts = [len(y) - validation - test, len(y) - test]
    return [np.sort(part) for part in np.split(order[position], cuts)]
