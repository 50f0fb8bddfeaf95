"""lossgap trains one model for several self-interested parties so that each gains about as much from joining.

Names are loaded when they are first used: `import lossgap` takes no time, and a command line that only prints its help
never loads JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossgap import datasets, models, partition
    from lossgap.algorithms import (
        AFL,
        QFFL,
        Algorithm,
        Ditto,
        Eagle,
        FedAvg,
        FedDGGA,
        FedFV,
        FedMGDA,
        FedNova,
        FedProx,
        Focus,
        Gifair,
        MaxFL,
        PropFair,
        Term,
        Udj,
    )
    from lossgap.comparison import Comparison, compare
    from lossgap.errors import DataError, DataWarning, DivergedError, FileError, LossgapError, SettingError
    from lossgap.experiment import train, train_many
    from lossgap.federation import Client, Federation, Split
    from lossgap.learners.training import train_learners
    from lossgap.models import Model
    from lossgap.result import Result
    from lossgap.selection import Candidate, Selection, tune_methods
    from lossgap.solo import Solo, train_solo
    from lossgap.store import Store, load
    from lossgap.training import Training
    from lossgap.tuning import Frontier, frontier

__version__ = "0.1.0"

_MODULES = {
    "lossgap.algorithms": (
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
    ),
    "lossgap.errors": ("DataError", "DataWarning", "DivergedError", "FileError", "LossgapError", "SettingError"),
    "lossgap.comparison": ("Comparison", "compare"),
    "lossgap.experiment": ("train", "train_many"),
    "lossgap.result": ("Result",),
    "lossgap.federation": ("Client", "Federation", "Split"),
    "lossgap.learners.training": ("train_learners",),
    "lossgap.models": ("Model",),
    "lossgap.selection": ("Candidate", "Selection", "tune_methods"),
    "lossgap.solo": ("Solo", "train_solo"),
    "lossgap.store": ("Store", "load"),
    "lossgap.training": ("Training",),
    "lossgap.tuning": ("Frontier", "frontier"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = ("datasets", "models", "partition")

__all__ = [
    "AFL",
    "QFFL",
    "Algorithm",
    "Candidate",
    "Client",
    "Comparison",
    "DataError",
    "DataWarning",
    "Ditto",
    "DivergedError",
    "Eagle",
    "FedAvg",
    "FedDGGA",
    "FedFV",
    "FedMGDA",
    "FedNova",
    "FedProx",
    "Federation",
    "FileError",
    "Focus",
    "Frontier",
    "Gifair",
    "LossgapError",
    "MaxFL",
    "Model",
    "PropFair",
    "Result",
    "Selection",
    "SettingError",
    "Solo",
    "Split",
    "Store",
    "Term",
    "Training",
    "Udj",
    "compare",
    "datasets",
    "frontier",
    "load",
    "models",
    "partition",
    "train",
    "train_learners",
    "train_many",
    "train_solo",
    "tune_methods",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"lossgap.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'lossgap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
