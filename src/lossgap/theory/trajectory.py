"""The algorithm that the proofs cover, one local step at a time, and everything that they speak of along its way.

Current gaps (no lag), no normalisation, I local steps with multipliers that stay fixed in a round. At I = 1 it is
`Eagle(gap_penalty=λ, normalize=None, lag=0)`; tests hold the two against each other.
"""

from dataclasses import dataclass, fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Params
from lossgap.models import Model, linear
from lossgap.theory.problem import Arrays, Problem, squared_norm, weighted_mean
from lossgap.training import LocalWork, even_share


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Seen:
    """What is seen at the virtual mean θ̄ before each local step, [round, local step]."""

    objective: Array  # F(θ̄)
    mean_loss: Array  # L(θ̄)
    objective_gradient: Array  # ‖∇F(θ̄)‖²
    loss_gradient: Array  # ‖∇L(θ̄)‖²
    spread: Array  # max |r_k(θ̄) − r_k'(θ̄)|
    largest_gradient: Array  # of all clients, at θ̄ and along the steps that they take
    noise: Array  # max_k E‖∇L_k(θ_k; ζ) − ∇L_k(θ_k)‖²
    apart: Array  # max_k ‖θ_k − θ̄‖²
    error: Array  # ‖1/K Σ_k w_k ∇L_k(θ_k) − ∇F(θ̄)‖²


@dataclass(frozen=True)
class Path:
    """A run of the algorithm that the proofs cover."""

    seen: Seen  # NumPy arrays
    end: Params  # θ̄ after the last step
    end_objective: float
    end_loss: float


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Step:
    """Where everybody stands within a round."""

    local: Params  # [client, ...] θ_k
    multipliers: Array  # [client] w_k, from the start of the round


def walk(
    problem: Problem,
    *,
    penalty: float,
    step_size: float,
    rounds: int,
    local_steps: int = 1,
    batch_size: int | None = None,
    reshuffle: bool = False,
) -> Path:
    """Run EAGLE as the proofs have it, and look at every virtual mean on the way.

    Args:
        problem: from `Problem.of`.
        penalty: λ.
        step_size: η.
        rounds, local_steps: T and I.
        batch_size: rows per step; None is all of them.
        reshuffle: draw the batches of one round without replacement, as `lossgap.train` does. By default each step
            draws anew: the proofs want gradients that are unbiased whatever was drawn before.
    """
    work = LocalWork(local_steps, None, batch_size)
    with jax.enable_x64(True):
        path = walk_arrays(problem.arrays, work, rounds, reshuffle, jnp.asarray(penalty), jnp.asarray(step_size))
        seen, end, objective, loss = jax.tree.map(np.asarray, path)
    return Path(seen, end, float(objective), float(loss))


@partial(jax.jit, static_argnums=(1, 2, 3))
def walk_arrays(
    arrays: Arrays, work: LocalWork, rounds: int, reshuffle: bool, penalty: Array, step_size: Array
) -> tuple[Seen, Params, Array, Array]:
    """The walk itself; what it takes may be stacked and mapped over."""
    K = arrays.solo_losses.shape[0]

    def one_step(step: Step, batch: Array | None) -> tuple[Step, Seen]:
        mean = weighted_mean(jnp.ones(K), step.local)
        drawn, full, variance = _gradients(arrays, step.local, batch)
        seen = _seen(arrays, mean, step, penalty, drawn, full, variance)
        taken = jax.tree.map(lambda g: step_size * _along(step.multipliers, g) * g, drawn)
        return Step(jax.tree.map(jnp.subtract, step.local, taken), step.multipliers), seen

    def one_round(mean: Params, t: Array) -> tuple[Params, Seen]:
        local = jax.tree.map(lambda p: jnp.broadcast_to(p, (K, *p.shape)), mean)
        begun = Step(local, arrays.landscape(mean, penalty).multipliers)
        end, seen = jax.lax.scan(one_step, begun, _batches(arrays, work, t, reshuffle), length=work.local_steps)
        return weighted_mean(jnp.ones(K), end.local), seen

    end, seen = jax.lax.scan(one_round, arrays.start, jnp.arange(rounds))
    last = arrays.landscape(end, penalty)
    return seen, end, last.objective, last.losses.mean()


def _seen(
    arrays: Arrays, mean: Params, step: Step, penalty: Array, drawn: Params, full: Params, variance: Array
) -> Seen:
    """What the proofs speak of, at one virtual mean."""
    here = arrays.landscape(mean, penalty)
    gaps = here.losses - arrays.solo_losses
    wanted, applied = here.objective_gradient, weighted_mean(step.multipliers, full)
    norms = jnp.stack([each_squared_norm(tree) for tree in (here.gradients, drawn, full)])
    return Seen(
        objective=here.objective,
        mean_loss=here.losses.mean(),
        objective_gradient=squared_norm(wanted),
        loss_gradient=squared_norm(weighted_mean(jnp.ones(len(gaps)), here.gradients)),
        spread=gaps.max() - gaps.min(),
        largest_gradient=jnp.sqrt(norms.max()),
        noise=variance.max(),
        apart=each_squared_norm(jax.tree.map(jnp.subtract, step.local, mean)).max(),
        error=squared_norm(jax.tree.map(jnp.subtract, applied, wanted)),
    )


def _gradients(arrays: Arrays, local: Params, batches: Array | None) -> tuple[Params, Params, Array]:
    """What each client's step is made of, its whole gradient, and the variance of the first around the second."""
    model, rows = arrays.model, arrays.rows
    gradients = jax.vmap(jax.grad(model.batch_loss))
    full = gradients(local, rows.x, rows.y, rows.share)
    if batches is None:
        return full, full, jnp.zeros(len(rows.sizes))
    there = batches >= 0
    share = jax.vmap(lambda each: even_share(each, rows.share.dtype))(there)
    drawn = gradients(local, _taken(rows.x, batches), _taken(rows.y, batches), share)
    squares = jax.vmap(partial(row_squares, model))(local, rows.x, rows.y)
    spread = (rows.share * squares).sum(axis=1) - each_squared_norm(full)
    n, b = jnp.asarray(rows.sizes), there.sum(axis=1)
    # b of n rows without replacement: the variance of one row's gradient, over b, less what is certain.
    return drawn, full, spread / b * (n - b) / jnp.maximum(n - 1, 1)


def row_squares(model: Model, params: Params, x: Array, y: Array) -> Array:
    """‖∇ℓ_i‖² of each row, [row]."""
    if model is linear():  # the gradient is the outer product of (x, 1) and what comes back from the outputs
        on_outputs = Model(model.init, apply=lambda _, outputs: outputs)
        back = jax.grad(lambda outputs: on_outputs.row_losses((), outputs, y).sum())(model.apply(params, x))
        return jnp.square(back).sum(axis=1) * (1 + jnp.square(x.reshape(len(x), -1)).sum(axis=1))
    one = jax.grad(lambda p, x, y: model.row_losses(p, x[None], y[None])[0])
    return jax.vmap(lambda x, y: squared_norm(one(params, x, y)))(x, y)


def _batches(arrays: Arrays, work: LocalWork, t: Array, reshuffle: bool) -> Array | None:
    """The row numbers of each step of a round, [local step, client, batch]; None for full batches."""
    if work.batch_size is None:
        return None

    def batch(step: Array, key: Array, rows: Array) -> Array:
        number, step = (t, step) if reshuffle else (t * work.local_steps + step, jnp.zeros_like(step))
        return work.batch(jax.random.fold_in(key, number), rows, step)

    def everyone(step: Array) -> Array:
        return jax.vmap(lambda key, rows: batch(step, key, rows))(arrays.keys, jnp.asarray(arrays.rows.sizes))

    return jax.vmap(everyone)(jnp.arange(work.local_steps))


def _taken(a: Array, index: Array) -> Array:
    """Of [client, row, ...] those rows that each client's index names, [client, batch, ...]."""
    return jax.vmap(lambda own, batch: own[batch])(a, index)


def each_squared_norm(trees: Params) -> Array:
    """‖·‖² of each client's tree, [client]."""
    return jax.vmap(squared_norm)(trees)


def _along(weights: Array, leaf: Array) -> Array:
    return weights.reshape(-1, *(1,) * (leaf.ndim - 1))


def joined(seen: Seen, name: str) -> np.ndarray:
    """One column of what was seen, in the order of steps."""
    assert name in {f.name for f in fields(Seen)}
    return np.asarray(getattr(seen, name)).ravel()
