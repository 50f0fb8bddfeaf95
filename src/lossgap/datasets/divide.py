"""One data set's rows become clients."""

from lossgap.federation import Federation, Fractions, Split, deal
from lossgap.skew import Skew

MIN_ROWS = 10
"""Enough for every split of a client."""


def by_class(
    pool: Split,
    *,
    clients: int,
    alpha: float,
    seed: int,
    fractions: Fractions,
    classes: int,
    skew: Skew | None = None,
) -> Federation:
    """Clients that hold Dirichlet(α) shares of each class, or what `skew` says, and ten rows at least."""
    skew = skew or Skew()
    owners = skew.owners(pool.y, clients, alpha, seed=seed, min_rows=MIN_ROWS)
    federation = Federation.from_arrays(deal(pool, owners), fractions=fractions, seed=seed, classes=classes)
    return skew.shifted(federation, seed=seed)
