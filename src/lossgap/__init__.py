"""lossgap trains one model for several self-interested parties so that each gains about as much from joining.

Names are loaded when they are first used: `import lossgap` takes no time, and a command line that only prints its help
never loads JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossgap import datasets, models, partition, skew, theory
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
    from lossgap.auditing import Audit, audit
    from lossgap.comparison import Comparison, compare
    from lossgap.engine.checkpoint import Checkpoints
    from lossgap.errors import DataError, DataWarning, DivergedError, FileError, LossgapError, SettingError
    from lossgap.experiment import train, train_many
    from lossgap.federation import Client, Federation, Split
    from lossgap.learners.streaming import train_streaming
    from lossgap.learners.training import train_learners
    from lossgap.models import Model
    from lossgap.reporting import Report, report
    from lossgap.result import Result
    from lossgap.selection import Candidate, Selection, tune_methods
    from lossgap.skew import Skew
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
    "lossgap.engine.checkpoint": ("Checkpoints",),
    "lossgap.errors": ("DataError", "DataWarning", "DivergedError", "FileError", "LossgapError", "SettingError"),
    "lossgap.auditing": ("Audit", "audit"),
    "lossgap.comparison": ("Comparison", "compare"),
    "lossgap.experiment": ("train", "train_many"),
    "lossgap.reporting": ("Report", "report"),
    "lossgap.result": ("Result",),
    "lossgap.federation": ("Client", "Federation", "Split"),
    "lossgap.learners.streaming": ("train_streaming",),
    "lossgap.learners.training": ("train_learners",),
    "lossgap.models": ("Model",),
    "lossgap.skew": ("Skew",),
    "lossgap.selection": ("Candidate", "Selection", "tune_methods"),
    "lossgap.solo": ("Solo", "train_solo"),
    "lossgap.store": ("Store", "load"),
    "lossgap.training": ("Training",),
    "lossgap.tuning": ("Frontier", "frontier"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = ("datasets", "models", "partition", "skew", "theory")

__all__ = [
    "AFL",
    "QFFL",
    "Algorithm",
    "Audit",
    "Candidate",
    "Checkpoints",
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
    "Report",
    "Result",
    "Selection",
    "SettingError",
    "Skew",
    "Solo",
    "Split",
    "Store",
    "Term",
    "Training",
    "Udj",
    "audit",
    "compare",
    "datasets",
    "frontier",
    "load",
    "models",
    "partition",
    "report",
    "skew",
    "theory",
    "train",
    "train_learners",
    "train_many",
    "train_solo",
    "train_streaming",
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
