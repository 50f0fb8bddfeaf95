"""Features that are zero in every row cost nothing.

A first layer multiplies such a feature's weights by zero, so neither its outputs nor its gradient know them: training
without them is exact, and the weights stay where they began.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lossgap.algorithms.base import Params
from lossgap.federation import Federation, Split
from lossgap.models import Model

WORTH_IT = 0.97
"""Above this share of features in use, copying the others out saves less than it costs."""


@dataclass(frozen=True)
class Columns:
    """Which features a run works on; None is all of them."""

    used: np.ndarray | None
    kernel: str | None  # the model's parameter with a row for each feature

    @classmethod
    def of(cls, federation: Federation, model: Model) -> "Columns":
        """The features that are not zero in all rows that training reads."""
        if model.first_kernel is None:
            return cls(None, None)
        splits = [*federation.splits("train"), *federation.splits("validation")]
        used = np.any([split.kept.reshape(len(split), -1).any(axis=0) for split in splits], axis=0)
        return cls(np.flatnonzero(used) if used.mean() < WORTH_IT else None, model.first_kernel)

    def split(self, split: Split) -> Split:
        if self.used is None:
            return split
        return Split(split.kept.reshape(len(split), -1)[:, self.used], split.y, split.unit)

    def narrow(self, params: Params) -> Params:
        """Parameters for the features in use."""
        return self._kernel(lambda kernel: kernel[self.used], params)

    def widen(self, params: Params, start: Params) -> Params:
        """Parameters for all features: those not in use are as they began."""

        def filled(narrow: Any, whole: Any) -> Any:
            whole = np.array(whole)
            whole[self.used] = narrow
            return whole

        return self._kernel(filled, params, start)

    def _kernel(self, function: Any, params: Params, *rest: Params) -> Params:
        if self.used is None:
            return params
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf, *others: function(leaf, *others) if jax.tree_util.keystr(path) == self.kernel else leaf,
            params,
            *rest,
        )
