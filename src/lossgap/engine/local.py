"""What one client computes on its own rows: its loss, and the slope that each of its steps goes down."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, LocalRule, Params
from lossgap.models import Model
from lossgap.training import Batch, LocalWork, Slope, even_share, local_update

TILE = 256
"""Rows that pass through a network together, where all rows of a client are asked for and its model does not say."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OwnRows:
    """One client's rows. They may lie among those of others, with at least one more tile of rows behind them."""

    x: Array  # [row, ...]
    y: Array  # [row]
    first: Array | int  # where its own begin
    count: Array | int
    tile: int | None = field(metadata={"static": True})  # rows to take at once; None: x holds no others, take them all

    def picked(self, index: Array) -> Batch:
        """Some of the client's rows by their numbers, those at −1 counting for nothing."""
        there = index >= 0
        place = self.first + jnp.maximum(index, 0)
        return self.x[place], self.y[place], even_share(there, self._dtype)

    def total(self, function: Callable[[Batch], Any]) -> Any:
        """The sum of what a function gives for batches that together hold every row once, each counting 1/n."""
        if self.tile is None:
            return function((self.x, self.y, jnp.full(self.count, 1 / self.count, self._dtype)))

        def add(number: Array, sums: Any) -> Any:
            return jax.tree.map(jnp.add, sums, function(self._tile(number)))

        zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(lambda: function(self._tile(0))))
        return jax.lax.fori_loop(0, -(-self.count // self.tile), add, zeros)

    def _tile(self, number: Array | int) -> Batch:
        assert self.tile is not None
        start = number * self.tile
        x, y = (jax.lax.dynamic_slice_in_dim(a, self.first + start, self.tile) for a in (self.x, self.y))
        there = start + jnp.arange(self.tile) < self.count
        return x, y, jnp.where(there, 1 / jnp.asarray(self.count, self._dtype), 0)

    @property
    def _dtype(self) -> Any:
        return self.x.dtype


def own_loss(model: Model, params: Params, rows: OwnRows) -> Array:
    """L_k(θ) on all of the client's rows."""
    return rows.total(lambda batch: model.batch_loss(params, *batch))


def own_update(
    model: Model,
    rule: LocalRule,
    work: LocalWork,
    start: Params,
    multiplier: Array,
    rows: OwnRows,
    *,
    step_size: Array | float,
    steps: Any,
    key: Array,
) -> Params:
    """Δ_k = θ − θ_k after one round of local work by a method's rule."""

    def slope(params: Params, step: Array) -> Params:
        loss_and_gradient = partial(jax.value_and_grad(model.batch_loss), params)
        if work.batch_size is None:
            loss, gradient = rows.total(lambda batch: loss_and_gradient(*batch))
        else:
            loss, gradient = loss_and_gradient(*rows.picked(work.batch(key, rows.count, step)))
        return steered(rule, loss, gradient, params, start)

    walk: Slope = slope
    return local_update(walk, start, multiplier, step_size=step_size, steps=steps, momentum=rule.local_momentum)


def is_plain(rule: LocalRule) -> bool:
    """Whether a method leaves the clients' own loss as it is."""
    return getattr(type(rule), "local_loss", None) is Algorithm.local_loss


@jax.jit
def steered(rule: LocalRule, loss: Any, gradient: Params, params: Params, start: Params) -> Params:
    """The gradient of a method's local loss, whichever framework computed the loss F(θ_k) and its gradient ∇F(θ_k).

    ℓ = rule.local_loss(F(θ_k), θ_k, θ)
    ∇ℓ = ∂ℓ/∂F ∇F(θ_k) + ∂ℓ/∂θ_k
    """
    if is_plain(rule):
        return gradient
    by_loss, by_params = jax.grad(rule.local_loss, argnums=(0, 1))(loss, params, start)
    return jax.tree.map(lambda g, p: by_loss * g + p, gradient, by_params)
