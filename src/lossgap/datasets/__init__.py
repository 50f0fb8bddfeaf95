"""Data sets, ready as federations."""

from lossgap.datasets.digits import digits
from lossgap.datasets.images import emnist, fashion_mnist, mnist
from lossgap.datasets.synthetic import synthetic, two_clients

__all__ = ["digits", "emnist", "fashion_mnist", "mnist", "synthetic", "two_clients"]
