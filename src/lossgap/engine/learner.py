"""What one site runs: a learner fits its own rows and says how large its loss is."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import LocalRule, Params
from lossgap.engine.local import OwnRows, own_update
from lossgap.federation import Client, SplitName
from lossgap.models import BATCHES, Model
from lossgap.training import Batch, LocalWork, Training, client_keys, even_share


class Learner(Protocol):
    """One party's side of training, in whatever framework it likes."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int:
        """Training rows."""
        ...

    @property
    def steps(self) -> int:
        """Local steps that one round takes."""
        ...

    def fit(self, params: Params, multiplier: Array, *, round: int, rule: LocalRule) -> Params:
        """Δ_k = θ − θ_k after one round of local work by a method's rule, every gradient scaled by the multiplier."""
        ...

    def loss(self, params: Params, split: SplitName) -> float: ...

    def accuracy(self, params: Params, split: SplitName) -> float:
        """The share of rows whose largest output is that of their label; NaN where targets are numbers."""
        ...


@dataclass(frozen=True)
class OwnClient:
    """One client of a federation as a learner, however it comes by its rows."""

    client: Client
    model: Model
    training: Training
    key: Array

    @classmethod
    def of(cls, client: Client, model: Model, training: Training, *, seed: int = 0) -> Self:
        """A learner whose batches are those that `lossgap.train` draws from this seed."""
        return cls(client, model, training, jax.random.fold_in(jax.random.key(seed), BATCHES))

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def rows(self) -> int:
        return len(self.client.train)

    @property
    def steps(self) -> int:
        return self.training.local_work.steps(self.rows)


@dataclass(frozen=True)
class JaxLearner(OwnClient):
    """One client of a federation, trained by the same local loop as the compiled engine runs."""

    @property
    def structure(self) -> Any:
        """How the parameters are arranged, whatever the number of outputs."""
        row = jnp.zeros((1, *self.client.train.kept.shape[1:]))
        return jax.tree.structure(jax.eval_shape(lambda: self.model.init(jax.random.key(0), row, 1)))

    def fit(self, params: Params, multiplier: Array, *, round: int, rule: LocalRule) -> Params:
        key = jax.random.fold_in(client_keys(self.key, [self.name])[0], round)
        training, rows = self.training, self._rows("train")
        return _fit(self.model, training.local_work, params, multiplier, rows, training.step, key, rule)

    def loss(self, params: Params, split: SplitName) -> float:
        return float(_loss(self.model, params, self._rows(split)))

    def accuracy(self, params: Params, split: SplitName) -> float:
        x, y, _ = self._rows(split)
        return float(_accuracy(self.model, params, x, y))

    def _rows(self, split: SplitName) -> Batch:
        rows, dtype = self.client.split(split), np.dtype(self.training.precision)
        x, y = jnp.asarray(rows.x, dtype), jnp.asarray(rows.y, jnp.int32 if rows.y.dtype.kind == "i" else dtype)
        return x, y, even_share(jnp.ones(len(rows)), dtype)


@partial(jax.jit, static_argnums=(0, 1))
def _fit(
    model: Model,
    work: LocalWork,
    params: Params,
    multiplier: Array,
    rows: Batch,
    step_size: float,
    key: Array,
    rule: LocalRule,
) -> Params:
    x, y, _ = rows
    own = OwnRows(x, y, first=0, count=len(y), tile=None)
    steps = work.steps(len(y))
    return own_update(model, rule, work, params, multiplier, own, step_size=step_size, steps=steps, key=key)


@partial(jax.jit, static_argnums=0)
def _loss(model: Model, params: Params, rows: Batch) -> Array:
    return model.batch_loss(params, *rows)


@partial(jax.jit, static_argnums=0)
def _accuracy(model: Model, params: Params, x: Array, y: Array) -> Array:
    return model.hits(params, x, y).mean()
