"""What one site runs: a learner fits its own rows and says how large its loss is."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Params
from lossgap.federation import Client, SplitName
from lossgap.models import Model
from lossgap.training import LocalWork, Training, client_keys, even_share, local_update


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

    def fit(self, params: Params, multiplier: Array, *, round: int) -> Params:
        """Δ_k = θ − θ_k after one round of local work, every gradient scaled by the multiplier."""
        ...

    def loss(self, params: Params, split: SplitName) -> float: ...


@dataclass(frozen=True)
class JaxLearner:
    """One client of a federation, trained by the same local loop as the compiled engine runs."""

    client: Client
    model: Model
    training: Training
    key: Array

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def rows(self) -> int:
        return len(self.client.train)

    @property
    def steps(self) -> int:
        return self.training.local_work.steps(self.rows)

    def fit(self, params: Params, multiplier: Array, *, round: int) -> Params:
        key = jax.random.fold_in(client_keys(self.key, [self.name])[0], round)
        rows = self._rows("train")
        return _fit(self.model, self.training.local_work, params, multiplier, rows, self.training.step_size, key)

    def loss(self, params: Params, split: SplitName) -> float:
        return float(_loss(self.model, params, self._rows(split)))

    def _rows(self, split: SplitName) -> tuple[Array, Array, Array]:
        rows, dtype = self.client.split(split), np.dtype(self.training.precision)
        x, y = jnp.asarray(rows.x, dtype), jnp.asarray(rows.y, jnp.int32 if rows.y.dtype.kind == "i" else dtype)
        return x, y, even_share(jnp.ones(len(rows)), dtype)


@partial(jax.jit, static_argnums=(0, 1))
def _fit(
    model: Model,
    work: LocalWork,
    params: Params,
    multiplier: Array,
    rows: tuple[Array, Array, Array],
    step_size: float,
    key: Array,
) -> Params:
    count = len(rows[0])
    batches = None if work.batch_size is None else work.batches(key, count, (count,))
    steps = work.steps(count)
    return local_update(model.batch_loss, params, multiplier, rows, step_size=step_size, steps=steps, batches=batches)


@partial(jax.jit, static_argnums=0)
def _loss(model: Model, params: Params, rows: tuple[Array, Array, Array]) -> Array:
    return model.batch_loss(params, *rows)
