"""Ways to divide the rows of one data set among clients. Each returns the row numbers of every client."""

from collections.abc import Sequence

import numpy as np

from lossgap.errors import is_count, is_positive, require

Owners = list[np.ndarray]
TRIES = 1000


def iid(rows: int, clients: int, *, seed: int) -> Owners:
    """Equal parts at random."""
    _check_clients(clients, rows)
    order = np.random.default_rng(seed).permutation(rows)
    return [np.sort(part) for part in np.array_split(order, clients)]


def dirichlet(labels: np.ndarray, clients: int, alpha: float, *, seed: int, min_rows: int = 1) -> Owners:
    """Each class goes to the clients in proportions drawn from Dirichlet(α, …, α), independently of other classes.

    Small α is uneven, large α even. Every row is used exactly once. A draw that leaves some client with fewer than
    `min_rows` rows is drawn again, all classes together.
    """
    _check_clients(clients, len(labels), min_rows)
    _check_alpha("dirichlet", alpha)
    rng = np.random.default_rng(seed)
    (rounding,) = rng.spawn(1)
    for _ in range(TRIES):
        owners = _dirichlet_once(labels, clients, alpha, rng, rounding)
        if min(map(len, owners)) >= min_rows:
            return owners
    require(
        False,
        f"dirichlet: in {TRIES} draws with alpha={alpha} some client always had fewer than {min_rows} rows.",
        "Use a larger alpha, fewer clients, more rows or a smaller min_rows.",
    )
    raise AssertionError


def quantity(rows: int, clients: int, alpha: float, *, seed: int, min_rows: int = 1) -> Owners:
    """Clients of unequal size with the same mixture of rows: each gets `min_rows`, Dirichlet(α, …, α) divides the rest.

    Small α gives one client nearly all of the rest, large α everybody the same.
    """
    _check_clients(clients, rows, min_rows)
    _check_alpha("quantity", alpha)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(clients, alpha))
    sizes = min_rows + np.diff(_cuts(shares, rows - clients * min_rows, rng), prepend=0)
    parts = np.split(rng.permutation(rows), np.cumsum(sizes)[:-1])
    return [np.sort(part) for part in parts]


def shards(labels: np.ndarray, clients: int, classes_each: int, *, seed: int, min_rows: int = 1) -> Owners:
    """Each client holds rows of exactly `classes_each` classes; those who share a class share its rows evenly.

    Which classes go together is drawn, so that every class has the same number of holders, or one more than others.
    """
    _check_clients(clients, len(labels), min_rows)
    present, counts = np.unique(labels, return_counts=True)
    _check_shards(len(present), clients, classes_each)
    rng = np.random.default_rng(seed)
    holders = _holders(len(present), clients, classes_each, rng)
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label, count, own in zip(present, counts, holders, strict=True):
        require(
            count >= len(own),
            f"shards: class {label} has {count} rows for {len(own)} clients.",
            "Ask for fewer clients or fewer classes_each, or leave the class out.",
        )
        rows = rng.permutation(np.flatnonzero(labels == label))
        for client, part in zip(rng.permutation(own), np.array_split(rows, len(own)), strict=True):
            parts[client].append(part)
    owners = [np.sort(np.concatenate(own)) for own in parts]
    smallest = min(map(len, owners))
    require(
        smallest >= min_rows,
        f"shards: with {classes_each} classes for each of {clients} clients, one holds {smallest} rows, fewer than "
        f"{min_rows}.",
        "Use more rows, fewer clients or a smaller min_rows.",
    )
    return owners


def by_value(values: Sequence[object] | np.ndarray) -> tuple[list[str], Owners]:
    """One client per distinct value, in order of first appearance: their names and rows."""
    names = list(dict.fromkeys(map(str, values)))
    number = {name: k for k, name in enumerate(names)}
    owner = np.array([number[str(value)] for value in values])
    return names, [np.flatnonzero(owner == k) for k in range(len(names))]


def _dirichlet_once(
    labels: np.ndarray, clients: int, alpha: float, rng: np.random.Generator, rounding: np.random.Generator
) -> Owners:
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(clients, alpha))
        cuts = _cuts(shares, len(rows), rounding)[:-1]
        for own, part in zip(parts, np.split(rows, cuts), strict=True):
            own.append(part)
    return [np.sort(np.concatenate(own)) for own in parts]


def _cuts(shares: np.ndarray, rows: int, rounding: np.random.Generator) -> np.ndarray:
    """Where each client's part of so many rows ends."""
    # Rounded up or down by lot: with fixed rounding, the same clients would miss out on every small class.
    inner = np.floor(np.cumsum(shares)[:-1] * rows + rounding.random()).astype(int)
    return np.append(np.minimum(inner, rows), rows)


def _holders(classes: int, clients: int, classes_each: int, rng: np.random.Generator) -> list[list[int]]:
    """The clients of each class, [class]."""
    left = np.full(classes, clients * classes_each // classes)
    left[rng.permutation(classes)[: clients * classes_each % classes]] += 1
    holders: list[list[int]] = [[] for _ in range(classes)]
    for client in range(clients):
        # Those with most places left, ties by lot: otherwise a class may end with more places than clients.
        chosen = np.lexsort((rng.random(classes), -left))[:classes_each]
        left[chosen] -= 1
        for label in chosen:
            holders[label].append(client)
    return holders


def _check_alpha(what: str, alpha: float) -> None:
    require(
        is_positive(alpha),
        f"{what}: alpha is {alpha}.",
        "Use a positive number: 0.1 is very uneven, 1000 nearly even.",
    )


def _check_shards(classes: int, clients: int, classes_each: int) -> None:
    require(
        is_count(classes_each) and classes_each <= classes,
        f"shards: classes_each is {classes_each}, and the rows hold {classes} classes.",
        f"Use a whole number from 1 to {classes}.",
    )
    require(
        clients * classes_each >= classes,
        f"shards: {clients} clients with {classes_each} classes each leave {classes - clients * classes_each} of "
        f"{classes} classes to nobody.",
        "Use more clients or more classes_each, or leave rows of some classes out.",
    )


def _check_clients(clients: int, rows: int, min_rows: int = 1) -> None:
    require(
        2 <= clients <= rows // max(min_rows, 1),
        f"partition: {clients} clients are asked for, each with at least {min_rows} rows, and there are {rows} rows.",
        "Ask for at least 2 clients and no more than the rows allow.",
    )
