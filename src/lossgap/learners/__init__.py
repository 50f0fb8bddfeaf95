"""Learners: what one site runs, in whatever framework it likes.

A learner takes part in `lossgap.train_learners` on one machine and in `lossgap.flower` across sites. Parameters travel
between frameworks as dictionaries of NumPy arrays, so learners of one model need the same names and shapes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossgap.engine.learner import JaxLearner, Learner
    from lossgap.learners.sklearn import SklearnLearner
    from lossgap.learners.torch import TorchLearner

_HOME = {
    "JaxLearner": "lossgap.engine.learner",
    "Learner": "lossgap.engine.learner",
    "SklearnLearner": "lossgap.learners.sklearn",
    "TorchLearner": "lossgap.learners.torch",
}

__all__ = ["JaxLearner", "Learner", "SklearnLearner", "TorchLearner"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'lossgap.learners' has no attribute {name!r}")
