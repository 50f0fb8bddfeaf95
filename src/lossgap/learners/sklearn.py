"""scikit-learn's linear models as learners."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier, SGDRegressor

from lossgap.algorithms.base import LocalRule, Params
from lossgap.engine.local import is_plain
from lossgap.errors import require
from lossgap.federation import SplitName
from lossgap.training import Training

LOSSES = {SGDClassifier: "log_loss", SGDRegressor: "squared_error"}


@dataclass(frozen=True, kw_only=True)
class SklearnLearner:
    """One site with an `SGDClassifier(loss="log_loss")` or an `SGDRegressor()` and its own rows.

    A round is `training.local_epochs` passes of `partial_fit`, one step per row, with the step size of `training`. The
    multiplier w_k is the weight of every row in them: it scales the gradient and may be negative. Parameters are
    `{"kernel": [features, outputs], "bias": [outputs]}` with one output for numbers and for two classes, else one per
    class, each against all others.

    Args:
        name: of the site.
        estimator: its loss, and `penalty=None`, since a penalty's part of a step could not be scaled. Its step size
            and random state are set for each round.
        train, validation, test: features and targets.
        training: the step size and `local_epochs` (None is one).
        classes: the labels there are, where some site may lack one.
        seed: of the order of rows, which follows from it, the site's name and the round.
    """

    name: str
    estimator: Any
    train: tuple[ArrayLike, ArrayLike]
    validation: tuple[ArrayLike, ArrayLike]
    test: tuple[ArrayLike, ArrayLike]
    training: Training
    classes: ArrayLike | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        loss = next((loss for kind, loss in LOSSES.items() if isinstance(self.estimator, kind)), None)
        mine = f"SklearnLearner {self.name!r}"
        require(
            loss is not None,
            f"{mine}: {type(self.estimator).__name__} is neither an SGDClassifier nor an SGDRegressor.",
            "Use one of them, or TorchLearner for other models.",
        )
        for setting, wanted in {"loss": loss, "penalty": None}.items():
            given = getattr(self.estimator, setting)
            require(given == wanted, f"{mine}: its {setting} is {given!r}.", f"Use {setting}={wanted!r}.")
        require(
            self.training.local_steps == 1 and self.training.batch_size is None,
            f"{mine}: partial_fit takes one step for each row.",
            "Say how many passes with Training(local_epochs=…) and leave local_steps and batch_size out.",
        )

    @property
    def params(self) -> Params:
        """All zeros: a place to start from."""
        features, outputs = np.shape(self.train[0])[1], 1 if self._labels is None else len(self._labels)
        outputs = 1 if outputs == 2 else outputs
        return {"kernel": np.zeros((features, outputs)), "bias": np.zeros(outputs)}

    @property
    def rows(self) -> int:
        return len(np.asarray(self.train[1]))

    @property
    def steps(self) -> int:
        return (self.training.local_epochs or 1) * self.rows

    def fit(self, params: Params, multiplier: Any, *, round: int, rule: LocalRule) -> Params:
        require(
            is_plain(rule) and not rule.local_momentum,
            f"SklearnLearner {self.name!r}: scikit-learn cannot take the steps of {rule}.",
            "Use a method that leaves local steps as they are, such as Eagle or QFFL, or a TorchLearner.",
        )
        random_state = np.random.RandomState([self.seed, zlib.crc32(self.name.encode()), round])
        model = self._holding(params).set_params(
            learning_rate="constant", eta0=self.training.step_size, random_state=random_state
        )
        x, y = map(np.asarray, self.train)
        for _ in range(self.training.local_epochs or 1):
            model.partial_fit(x, y, sample_weight=np.full(self.rows, float(multiplier)))
        after = {"kernel": model.coef_.reshape(len(model.intercept_), -1).T, "bias": model.intercept_}
        return {name: np.asarray(params[name]) - after[name] for name in after}

    def loss(self, params: Params, split: SplitName) -> float:
        x, y = map(np.asarray, getattr(self, split))
        model = self._holding(params)
        if self._labels is None:
            return float(np.square(model.predict(x) - y).mean() / 2)
        margins = model.decision_function(x).reshape(len(y), -1)
        right = y == self._labels[1] if margins.shape[1] == 1 else y[:, None] == self._labels
        # One against all: the mean over outputs would shrink with their number, so losses are summed.
        return float(np.logaddexp(0, np.where(right.reshape(margins.shape), -margins, margins)).sum(axis=1).mean())

    def accuracy(self, params: Params, split: SplitName) -> float:
        x, y = map(np.asarray, getattr(self, split))
        return float("nan") if self._labels is None else float((self._holding(params).predict(x) == y).mean())

    @property
    def _labels(self) -> np.ndarray | None:
        if isinstance(self.estimator, SGDRegressor):
            return None
        return np.unique(self.train[1]) if self.classes is None else np.asarray(self.classes)

    def _holding(self, params: Params) -> Any:
        """A fresh estimator that stands at these parameters."""
        model = clone(self.estimator)
        kernel, bias = (np.array(params[name], np.float64) for name in ("kernel", "bias"))
        model.coef_, model.intercept_, model.t_ = np.ascontiguousarray(kernel.T), bias, 1.0
        if self._labels is None:
            model.coef_ = model.coef_.ravel()
        else:
            model.classes_ = self._labels
        model.n_features_in_ = len(kernel)
        return model
