"""The methods, one short file per paper."""

from lossgap.algorithms.afl import AFL
from lossgap.algorithms.base import Algorithm
from lossgap.algorithms.ditto import Ditto
from lossgap.algorithms.eagle import Eagle
from lossgap.algorithms.fedavg import FedAvg
from lossgap.algorithms.feddgga import FedDGGA
from lossgap.algorithms.fedfv import FedFV
from lossgap.algorithms.fedmgda import FedMGDA
from lossgap.algorithms.fednova import FedNova
from lossgap.algorithms.focus import Focus
from lossgap.algorithms.gifair import Gifair
from lossgap.algorithms.maxfl import MaxFL
from lossgap.algorithms.propfair import PropFair
from lossgap.algorithms.proximal import FedProx
from lossgap.algorithms.qffl import QFFL
from lossgap.algorithms.term import Term
from lossgap.algorithms.udj import Udj

__all__ = [
    "AFL",
    "QFFL",
    "Algorithm",
    "Ditto",
    "Eagle",
    "FedAvg",
    "FedDGGA",
    "FedFV",
    "FedMGDA",
    "FedNova",
    "FedProx",
    "Focus",
    "Gifair",
    "MaxFL",
    "PropFair",
    "Term",
    "Udj",
]
