"""One data set's rows become clients."""

from lossgap import partition
from lossgap.federation import Federation, Fractions, Split, deal

MIN_ROWS = 10
"""Enough for every split of a client."""


def by_class(pool: Split, *, clients: int, alpha: float, seed: int, fractions: Fractions, classes: int) -> Federation:
    """Clients that hold Dirichlet(α) shares of each class, and ten rows at least."""
    owners = partition.dirichlet(pool.y, clients, alpha, seed=seed, min_rows=MIN_ROWS)
    return Federation.from_arrays(deal(pool, owners), fractions=fractions, seed=seed, classes=classes)
