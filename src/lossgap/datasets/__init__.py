"""Data sets, ready as federations."""

from lossgap.datasets.adult import adult
from lossgap.datasets.digits import digits
from lossgap.datasets.dirty_mnist import dirty_mnist
from lossgap.datasets.heart import heart
from lossgap.datasets.images import emnist, fashion_mnist, mnist
from lossgap.datasets.synthetic import synthetic, two_clients

__all__ = ["adult", "digits", "dirty_mnist", "emnist", "fashion_mnist", "heart", "mnist", "synthetic", "two_clients"]
