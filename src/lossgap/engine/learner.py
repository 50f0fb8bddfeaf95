"""What one site runs: a learner fits its own rows and says how large its loss is."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, LocalRule, Params, local_objective
from lossgap.federation import Client, SplitName
from lossgap.models import BATCHES, Model
from lossgap.training import Batch, LocalWork, Training, client_keys, even_share, local_update


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


def is_plain(rule: LocalRule) -> bool:
    """Whether a method leaves the clients' own loss as it is."""
    return getattr(type(rule), "local_loss", None) is Algorithm.local_loss


@jax.jit
def steered(rule: LocalRule, loss: float, gradient: Params, params: Params, start: Params) -> Params:
    """The gradient of a method's local loss, whichever framework computed the loss F(θ_k) and its gradient ∇F(θ_k).

    ℓ = rule.local_loss(F(θ_k), θ_k, θ)
    ∇ℓ = ∂ℓ/∂F ∇F(θ_k) + ∂ℓ/∂θ_k
    """
    by_loss, by_params = jax.grad(rule.local_loss, argnums=(0, 1))(loss, params, start)
    return jax.tree.map(lambda g, p: by_loss * g + p, gradient, by_params)


@dataclass(frozen=True)
class JaxLearner:
    """One client of a federation, trained by the same local loop as the compiled engine runs."""

    client: Client
    model: Model
    training: Training
    key: Array

    @classmethod
    def of(cls, client: Client, model: Model, training: Training, *, seed: int = 0) -> "JaxLearner":
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

    @property
    def structure(self) -> Any:
        """How the parameters are arranged, whatever the number of outputs."""
        row = jnp.zeros((1, *self.client.train.kept.shape[1:]))
        return jax.tree.structure(jax.eval_shape(lambda: self.model.init(jax.random.key(0), row, 1)))

    def fit(self, params: Params, multiplier: Array, *, round: int, rule: LocalRule) -> Params:
        key = jax.random.fold_in(client_keys(self.key, [self.name])[0], round)
        training, rows = self.training, self._rows("train")
        return _fit(self.model, training.local_work, params, multiplier, rows, training.step_size, key, rule)

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
    count = len(rows[0])
    batches = None if work.batch_size is None else work.batches(key, count, (count,))
    return local_update(
        local_objective(model, rule, params),
        params,
        multiplier,
        rows,
        step_size=step_size,
        steps=work.steps(count),
        batches=batches,
        momentum=rule.local_momentum,
    )


@partial(jax.jit, static_argnums=0)
def _loss(model: Model, params: Params, rows: Batch) -> Array:
    return model.batch_loss(params, *rows)


@partial(jax.jit, static_argnums=0)
def _accuracy(model: Model, params: Params, x: Array, y: Array) -> Array:
    return model.hits(params, x, y).mean()
