"""Scikit-learn's bundled digits: 1,797 real images of 8×8 pixels."""

import numpy as np

from lossgap.datasets.divide import by_class
from lossgap.federation import Federation, Fractions, Split
from lossgap.skew import Skew


def digits(
    *,
    clients: int = 10,
    alpha: float = 0.1,
    seed: int = 0,
    fractions: Fractions = (0.6, 0.2, 0.2),
    skew: Skew | None = None,
) -> Federation:
    """Handwritten digits, divided class by class with Dirichlet(α): small α gives clients that hold few digits.

    Rows are images [8, 8] with pixels in [0, 1]. Every client holds at least ten of them.

    Args:
        clients: how many to divide the rows among.
        alpha: of the Dirichlet distribution.
        seed: of the division and of each client's split.
        fractions: of training, validation and test rows.
        skew: other ways in which clients differ, such as `lossgap.Skew(classes_each=2)`.
    """
    from sklearn.datasets import load_digits  # imported late: scikit-learn takes a second to load

    bunch = load_digits()
    rows = Split((bunch.images / 16).astype(np.float32), bunch.target)
    return by_class(rows, clients=clients, alpha=alpha, seed=seed, fractions=fractions, classes=10, skew=skew)
