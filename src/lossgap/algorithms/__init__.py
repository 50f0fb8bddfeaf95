"""The methods, one short file per paper."""

from lossgap.algorithms.afl import AFL
from lossgap.algorithms.base import Algorithm
from lossgap.algorithms.eagle import Eagle
from lossgap.algorithms.fedavg import FedAvg
from lossgap.algorithms.qffl import QFFL

__all__ = ["AFL", "QFFL", "Algorithm", "Eagle", "FedAvg"]
