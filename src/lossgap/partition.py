"""Ways to divide the rows of one data set among clients. Each returns the row numbers of every client."""

from collections.abc import Sequence

import numpy as np

from lossgap.errors import is_positive, require

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
    require(
        is_positive(alpha),
        f"dirichlet: alpha is {alpha}.",
        "Use a positive number: 0.1 is very uneven, 1000 nearly even.",
    )
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
        # Rounded up or down by lot: with fixed rounding, the same clients would miss out on every small class.
        cuts = np.floor(np.cumsum(shares)[:-1] * len(rows) + rounding.random()).astype(int)
        for own, part in zip(parts, np.split(rows, cuts), strict=True):
            own.append(part)
    return [np.sort(np.concatenate(own)) for own in parts]


def _check_clients(clients: int, rows: int, min_rows: int = 1) -> None:
    require(
        2 <= clients <= rows // max(min_rows, 1),
        f"partition: {clients} clients are asked for, each with at least {min_rows} rows, and there are {rows} rows.",
        "Ask for at least 2 clients and no more than the rows allow.",
    )
