"""Who holds which rows."""

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from lossgap.checks import (
    Task,
    as_rows,
    check_classes,
    check_fractions,
    check_names,
    check_rows,
    check_task,
    classes_among,
)
from lossgap.errors import DataWarning, require_data
from lossgap.mapped import chosen

if TYPE_CHECKING:
    from lossgap.describe import Description

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
Fractions = tuple[float, float, float]
Pair = tuple[ArrayLike, ArrayLike]
GOLDEN_RATIO = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Split:
    """Rows: features `x` [rows, ...] and targets `y` [rows].

    Args:
        kept: the features as they are kept. Images may be kept as one byte a pixel, and rows of a memory-mapped array
            stay in its file: `lossgap.train_streaming` reads them batch by batch.
        y: the targets.
        unit: the kept number that stands for 1, such as 255 for bytes; None if features are kept as they are.
    """

    kept: np.ndarray
    y: np.ndarray
    unit: float | None = None

    @property
    def x(self) -> np.ndarray:
        """The features, in memory. With a `unit` they are floats, made anew each time."""
        kept = np.asarray(self.kept)
        return kept if self.unit is None else np.divide(kept, self.unit, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> "Split":
        """Some of these rows. Those that lie in a file stay there."""
        return Split(chosen(self.kept, rows), self.y[rows], self.unit)

    def loaded(self, rows: np.ndarray | slice) -> "Split":
        """Some of these rows, in memory."""
        return Split(np.asarray(self.kept[rows]), self.y[rows], self.unit)


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
        check_names(self.names)
        check_classes(self.classes)
        for client in self.clients:
            for name, rows in client.splits:
                whose = f"Client {client.name!r}, {name} split"
                check_rows(whose, rows.kept, rows.y, features=self.features, classes=self.classes)
        _warn_of_single_class(self)

    @classmethod
    def from_splits(
        cls,
        splits: Mapping[str, Mapping[SplitName, "Pair | Split"]],
        *,
        classes: int | None = None,
        task: Task | None = None,
    ) -> Self:
        """Clients whose rows are already split: `{"lyon": {"train": (x, y), "validation": …, "test": …}, …}`.

        Args:
            splits: features and targets by client and split.
            classes: how many there are, where some class is missing from all rows.
            task: "classification" or "regression", where the targets' type leaves it open or misleads.
        """
        check_task(task)
        clients = []
        for name, parts in splits.items():
            missing = [part for part in SPLITS if part not in parts]
            require_data(
                not missing,
                f"Client {name!r} has no {' and no '.join(missing)} split.",
                'Give "train", "validation" and "test", or use Federation.from_arrays, which splits rows for you.',
            )
            rows = (_as_split(f"Client {name!r}, {part} split", parts[part], task) for part in SPLITS)
            clients.append(Client(name, *rows))
        return cls(tuple(clients), classes=_classes_of(clients, task) if classes is None else classes)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, "Pair | Split"],
        *,
        fractions: Fractions = (0.6, 0.2, 0.2),
        seed: int = 0,
        classes: int | None = None,
        task: Task | None = None,
    ) -> Self:
        """Clients' rows, split at random into training, validation and test rows: `{"lyon": (x, y), "lille": …}`.

        Each client is split by itself, class by class where its rows allow, so that no split lacks a class that the
        client has enough rows of. Another client's rows do not change the draw.

        Args:
            arrays: features and targets by client.
            fractions: of training, validation and test rows.
            seed: of the split.
            classes, task: as for `from_splits`.
        """
        check_fractions(fractions)
        check_task(task)
        clients = []
        for name, given in arrays.items():
            rows = _as_split(f"Client {name!r}", given, task)
            require_data(
                len(rows) >= len(SPLITS),
                f"Client {name!r} has {len(rows)} rows, too few for training, validation and test rows.",
                "Leave the client out, merge it with another, or give its splits yourself with Federation.from_splits.",
            )
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            parts = _stratified(rows.y, fractions, rng)
            clients.append(Client(name, *(rows.take(part) for part in parts)))
        return cls(tuple(clients), classes=_classes_of(clients, task) if classes is None else classes)

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
        task: Task | None = None,
        on_disk: str | Path | None = None,
    ) -> "Federation":
        """Clients from a csv or parquet file or a data frame, split as in `from_arrays`.

        One column names the client, one the target; the others, or those in `features`, become features: numbers
        standardised, text one-hot, missing values filled, all fitted on training rows only. A target of text,
        booleans or integers is classes, one of floats is numbers to predict, unless `task` says otherwise.
        `on_disk="rows.npy"` encodes a parquet file that is larger than memory into that file, where features stay.
        `lossgap.tabular.read` states the rules in full and also returns the names of features and classes.
        """
        from lossgap import tabular  # imported late: it needs pyarrow, which most runs do not

        federation, _ = tabular.read(
            table,
            client=client,
            target=target,
            features=features,
            fractions=fractions,
            seed=seed,
            task=task,
            on_disk=on_disk,
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
        return self.clients[0].train.kept.shape[1:]

    def splits(self, name: SplitName) -> list[Split]:
        """One split of each client."""
        return [client.split(name) for client in self.clients]

    def rows(self, split: SplitName = "train") -> np.ndarray:
        """Rows of each client, [client]."""
        return np.array([len(rows) for rows in self.splits(split)])

    def describe(self) -> "Description":
        """What each client holds, and how unlike the clients are: print it, or draw it with `.figure()`."""
        from lossgap.describe import described  # imported late: it builds on this module

        return described(self)

    def __str__(self) -> str:
        kind = f"{self.classes} classes" if self.classes else "numbers to predict"
        sizes = ", ".join(f"{c.name} {'/'.join(str(len(s)) for _, s in c.splits)}" for c in self.clients[:10])
        more = ", …" if len(self.clients) > 10 else ""
        return f"Federation of {len(self.clients)} clients, rows of shape {self.features}, {kind}\n{sizes}{more}"

    __repr__ = __str__


def deal(
    rows: Split, owners: Iterable[np.ndarray], names: Callable[[int], str] = "client {}".format
) -> dict[str, Split]:
    """Rows of one data set as clients' arrays, given each owner's row numbers."""
    return {names(k): rows.take(own) for k, own in enumerate(owners)}


def _as_split(whose: str, rows: Pair | Split, task: Task | None) -> Split:
    x, y, unit = (rows.kept, rows.y, rows.unit) if isinstance(rows, Split) else (*rows, None)
    return Split(*as_rows(whose, x, y, task), unit)


def _classes_of(clients: Sequence[Client], task: Task | None) -> int | None:
    return classes_among({client.name: [split.y for _, split in client.splits] for client in clients}, task)


def _warn_of_single_class(federation: Federation) -> None:
    if federation.classes is None:
        return
    single = [client.name for client in federation.clients if (client.train.y == client.train.y[0]).all()]
    if single:
        warnings.warn(
            f"Training rows of {', '.join(map(repr, single))} hold one class only: alone, such a client reaches a loss "
            "near 0 by always answering it, so its gap will be large.",
            DataWarning,
            stacklevel=5,
        )


def _stratified(y: np.ndarray, fractions: Fractions, rng: np.random.Generator) -> list[np.ndarray]:
    """Row numbers of the three splits, each class dealt out in nearly the given proportions."""
    order = rng.permutation(len(y))
    if y.dtype.kind != "f":
        order = order[np.argsort(y[order], kind="stable")]
    # Any run of consecutive multiples of the golden ratio, and so any class, is spread evenly over [0, 1).
    position = np.argsort((rng.random() + GOLDEN_RATIO * np.arange(len(y))) % 1)
    test = min(max(1, round(fractions[2] * len(y))), len(y) - 2)
    validation = min(max(1, round(fractions[1] * len(y))), len(y) - test - 1)
    cuts = [len(y) - validation - test, len(y) - test]
    return [np.sort(part) for part in np.split(order[position], cuts)]
