"""Data sets, ready as federations."""

from lossgap.datasets.adult import adult
from lossgap.datasets.digits import digits
from lossgap.datasets.heart import heart
from lossgap.datasets.images import emnist, fashion_mnist, mnist
from lossgap.datasets.synthetic import synthetic, two_clients

__all__ = ["adult", "digits", "emnist", "fashion_mnist", "heart", "mnist", "synthetic", "two_clients"]
