"""Data sets that need no download."""

from lossgap.datasets.digits import digits
from lossgap.datasets.synthetic import synthetic, two_clients

__all__ = ["digits", "synthetic", "two_clients"]
