"""What each client holds, and in how far clients are unlike: the heterogeneity that is being simulated, or is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lossgap import charts
from lossgap.charts import Figure
from lossgap.federation import Client, Federation
from lossgap.mapped import in_blocks
from lossgap.table import Cell, Table

SHADES = " ░▒▓█"
MOST_CLIENTS = 24
"""A table of text shows so many, evenly over the range of sizes; `table(everybody=True)` and the picture show all."""

MOST_COLUMNS = 12
"""Up to so many classes have a column of counts, more become a strip of shades."""

BINS = 20

NOISE = 1e-6
"""Below this share of their mean square, the variance of features is nothing but rounding."""


@dataclass(frozen=True, kw_only=True)
class Holding:
    """What one client holds."""

    name: str
    rows: tuple[int, int, int]  # training, validation, test
    labels: np.ndarray  # [class], or [bin] of targets that are numbers: rows of all splits
    distance: float  # to the distribution of all clients' rows together, see `Description.label_skew`
    target: tuple[float, float, float, float] | None  # mean, deviation, smallest, largest; None for classes

    @property
    def classes_held(self) -> int:
        return int((self.labels > 0).sum())


@dataclass(frozen=True, kw_only=True)
class Description:
    """Every client's rows, and numbers that say how unlike clients are. Every client counts the same in them.

    Args:
        clients: one holding each.
        parts: what the entries of `Holding.labels` stand for: classes, or the bins that numbers fall into.
        label_skew: the mean over clients of ½ Σ_c |p_k(c) − p(c)|, where p_k(c) is the share of class c (or bin) among
            client k's rows and p(c) among all rows: which part of its rows a client would have to change for
            everybody's mixture. 0: all alike; towards 1: what a client holds, hardly anybody else does.
        size_skew: the rows of the largest client over those of the smallest.
        feature_skew: the share of the features' variance that lies between clients' means. 0: the means are equal; 1:
            clients differ and rows of one client do not.
    """

    clients: tuple[Holding, ...]
    parts: tuple[str, ...]
    regression: bool
    label_skew: float
    size_skew: float
    feature_skew: float

    def table(self, *, everybody: bool = False) -> Table:
        """One row per client: rows of each split, classes held, the distance to the common mixture, labels."""
        shown = list(self.clients) if everybody else _some(self.clients)
        columns = ["client", "train", "validation", "test"]
        if self.regression:
            columns += ["mean", "deviation", "smallest", "largest", "distance", "targets"]
        else:
            columns += ["classes", "distance", *([*self.parts] if self._counts else ["labels"])]
        return Table(tuple(columns), tuple(self._line(client) for client in shown))

    def figure(self, *, shares: bool = False) -> Figure:
        """A bar per client, made of its labels; with `shares` all bars are equally long, so that mixtures compare."""
        what = "targets" if self.regression else "labels"
        size = f"{len(self.clients)} clients" if shares else "rows"
        return charts.stacked_bars(
            {client.name: client.labels.tolist() for client in self.clients},
            parts=self.parts,
            x="share of the client's rows" if shares else "rows of all splits",
            title=f"What each client holds: {size} by {what}",
            shares=shares,
        )

    def __str__(self) -> str:
        left_out = len(self.clients) - len(_some(self.clients))
        more = f"\n… and {left_out} more, which .table(everybody=True) and .figure() show." if left_out else ""
        return f"{self._head()}\n\n{self.table()}{more}\n\n{self._numbers()}"

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        """Notebooks draw it."""
        return self.figure().svg()

    @property
    def _counts(self) -> bool:
        return len(self.parts) <= MOST_COLUMNS

    def _head(self) -> str:
        rows = np.sum([client.rows for client in self.clients], axis=0)
        kind = "numbers to predict" if self.regression else f"{len(self.parts)} classes"
        return (
            f"{len(self.clients)} clients, {rows.sum():,} rows ({rows[0]:,} training, {rows[1]:,} validation, "
            f"{rows[2]:,} test), {kind}"
        )

    def _numbers(self) -> str:
        what = "targets" if self.regression else "labels"
        lines = [
            f"label skew    {self.label_skew:.3f}  of a client's rows would have to change for everybody's {what}, on "
            "average (0 to 1)",
            f"size skew     {self.size_skew:.3g}  times as many rows has the largest client as the smallest",
            f"feature skew  {self.feature_skew:.3f}  of the features' variance lies between clients' means (0 to 1)",
        ]
        return "\n".join(lines)

    def _line(self, client: Holding) -> tuple[Cell, ...]:
        strip = _strip(client.labels)
        if client.target is not None:
            return (client.name, *client.rows, *client.target, client.distance, strip)
        labels = client.labels.tolist() if self._counts else [strip]
        return (client.name, *client.rows, client.classes_held, client.distance, *labels)


def described(federation: Federation) -> Description:
    """What `Federation.describe` gives."""
    edges = None if federation.classes else _edges(federation)
    labels = np.array([_labels(_targets(client), federation.classes, edges) for client in federation.clients])
    shares = labels / labels.sum(axis=1, keepdims=True)
    distance = 0.5 * np.abs(shares - labels.sum(axis=0) / labels.sum()).sum(axis=1)
    sizes = labels.sum(axis=1)
    return Description(
        clients=tuple(
            Holding(
                name=client.name,
                rows=tuple(len(rows) for _, rows in client.splits),  # type: ignore[arg-type]  # three splits
                labels=labels[k],
                distance=float(distance[k]),
                target=None if federation.classes else _figures(_targets(client)),
            )
            for k, client in enumerate(federation.clients)
        ),
        parts=tuple(map(str, range(federation.classes or 0))) if edges is None else _bins(edges),
        regression=edges is not None,
        label_skew=float(distance.mean()),
        size_skew=float(sizes.max() / sizes.min()),
        feature_skew=_feature_skew(federation),
    )


def _targets(client: Client) -> np.ndarray:
    return np.concatenate([np.asarray(rows.y) for _, rows in client.splits])


def _labels(y: np.ndarray, classes: int | None, edges: np.ndarray | None) -> np.ndarray:
    return np.bincount(y, minlength=classes or 0) if edges is None else np.histogram(y, edges)[0]


def _edges(federation: Federation) -> np.ndarray:
    """Bins of equal width over all targets."""
    everything = np.concatenate([_targets(client) for client in federation.clients])
    return np.histogram_bin_edges(everything, BINS)


def _bins(edges: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges.tolist()))


def _figures(y: np.ndarray) -> tuple[float, float, float, float]:
    return float(y.mean()), float(y.std()), float(y.min()), float(y.max())


def _feature_skew(federation: Federation) -> float:
    """Σ_features variance of the clients' means / Σ_features variance of rows, every client counting the same.

    One pass over all rows, a block at a time.
    """
    means, squares = [], []
    for client in federation.clients:
        total, square, count = np.zeros(int(np.prod(federation.features))), 0.0, 0
        for _, rows in client.splits:
            for _, block in in_blocks(rows.kept):
                numbers = block.reshape(len(block), -1).astype(np.float32)
                total += numbers.sum(axis=0, dtype=np.float64)
                square += float(np.einsum("ij,ij->i", numbers, numbers).sum(dtype=np.float64))
            count += len(rows)
        means.append(total / count)
        squares.append(square / count)
    centre = np.mean(means, axis=0)
    between = float(np.square(np.array(means) - centre).sum(axis=1).mean())
    whole = float(np.mean(squares) - np.square(centre).sum())
    return min(1.0, between / whole) if whole > NOISE * float(np.mean(squares)) else 0.0


def _strip(labels: np.ndarray) -> str:
    """A shade per class: the fuller, the larger its share of the client's largest class."""
    steps = np.ceil(labels / max(1, labels.max()) * (len(SHADES) - 1)).astype(int)
    return "│" + "".join(SHADES[step] for step in steps) + "│"


def _some(clients: Sequence[Any]) -> list[Any]:
    """All, or those evenly over the range of sizes, the smallest and the largest among them."""
    if len(clients) <= MOST_CLIENTS:
        return list(clients)
    by_size = sorted(range(len(clients)), key=lambda k: -sum(clients[k].rows))
    picked = np.linspace(0, len(clients) - 1, MOST_CLIENTS).round().astype(int)
    return [clients[by_size[i]] for i in picked]
