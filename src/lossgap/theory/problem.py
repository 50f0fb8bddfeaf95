"""What the theorems are about, as arrays in double precision: losses, gaps and gradients on training rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.eagle import gap_multipliers
from lossgap.engine.curvature import smoothness
from lossgap.engine.rows import Rows, blocked_rows
from lossgap.errors import require
from lossgap.federation import Federation
from lossgap.models import BATCHES, Model, Params, initial_params
from lossgap.solo import Solo, Stop, train_solo
from lossgap.theory.bounds import Constants
from lossgap.training import Training, client_keys

SOLO = Training(rounds=2000, step_size="safe", gap_split="train", precision="float64")
"""How clients train alone whose model has no certified minimum."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Landscape:
    """Losses and gradients of all clients at one θ."""

    losses: Array  # [client]
    gradients: Params  # [client, ...]
    multipliers: Array  # [client] w_k(θ)
    objective: Array  # F(θ)

    @property
    def objective_gradient(self) -> Params:
        """∇F = mean_k w_k ∇L_k"""
        return weighted_mean(self.multipliers, self.gradients)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Arrays:
    """Clients' training rows as one block, what each could reach alone, and where everybody starts."""

    rows: Rows  # [client, row, ...]
    solo_losses: Array  # [client]
    keys: Array  # [client]
    start: Params
    model: Model = field(metadata={"static": True})

    def landscape(self, params: Params, penalty: Array | float) -> Landscape:
        """F = mean_k L_k + 2λ Var(r) and what it is made of, at one θ for all clients."""
        look = jax.vmap(jax.value_and_grad(self.model.batch_loss), (None, 0, 0, 0))
        losses, gradients = look(params, self.rows.x, self.rows.y, self.rows.share)
        gaps = losses - self.solo_losses
        objective = losses.mean() + 2 * penalty * gaps.var(ddof=1)
        return Landscape(losses, gradients, gap_multipliers(gaps, penalty), objective)


@dataclass(frozen=True)
class Problem:
    """A federation, a model and a start.

    Clients are padded to the largest of them: a measuring device for small problems, not the engine.
    """

    federation: Federation
    model: Model
    arrays: Arrays
    smoothness: np.ndarray  # [client] β_k

    @classmethod
    def of(
        cls,
        federation: Federation,
        model: Model,
        *,
        solo: Solo | Sequence[float] | None = None,
        initial: Params | None = None,
        seed: int = 0,
    ) -> Self:
        """A problem to check the theorems on.

        Args:
            federation, model: who holds which rows, and a network.
            solo: L_k* on training rows; by default the certified minimum of a convex model's loss, else what 2,000
                steps alone reach. The proofs hold for any numbers: L_k* enters them by Γ only.
            initial: where everybody starts, in place of the seed's initialisation.
            seed: of the initialisation and of batches.
        """
        if solo is None:
            stop: Stop = "exact" if model.convex else "converged"
            solo = train_solo(federation, model, SOLO, stop=stop, seed=seed)
        losses = solo.losses("train") if isinstance(solo, Solo) else np.asarray(solo, np.float64)
        clients = len(federation.clients)
        require(
            losses.shape == (clients,),
            f"theory: solo holds {losses.size} losses for {clients} clients.",
            "Give one per client, in the order of federation.names.",
        )
        if initial is None:
            initial = initial_params(model, federation.features, federation.outputs, seed=seed, precision="float64")
        with jax.enable_x64(True):
            rows = blocked_rows(federation.splits("train"), np.dtype("float64"), [range(clients)])[0]
            key = jax.random.fold_in(jax.random.key(seed), BATCHES)
            start = jax.tree.map(lambda p: jnp.asarray(p, jnp.float64), initial)
            arrays = Arrays(rows, jnp.asarray(losses), client_keys(key, federation.names), start, model)
            return cls(federation, model, arrays, smoothness(federation, model, start))

    @property
    def clients(self) -> int:
        return len(self.federation.clients)

    def landscape(self, params: Params, penalty: float) -> Landscape:
        """Losses and gradients of all clients at one θ, as NumPy arrays."""
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, _landscape(self.arrays, params, penalty))


def constants_at(problem: Problem, params: Params) -> Constants:
    """β of the problem, B of whole gradients and Γ at one θ."""
    here = problem.landscape(params, 0.0)
    squares = sum(np.square(g).reshape(len(g), -1).sum(axis=1) for g in jax.tree.leaves(here.gradients))
    return Constants(
        smoothness=float(problem.smoothness.max()),
        gradient_bound=float(np.sqrt(squares.max())),
        spread=float(np.ptp(here.losses - np.asarray(problem.arrays.solo_losses))),
    )


@jax.jit
def _landscape(arrays: Arrays, params: Params, penalty: float) -> Landscape:
    return arrays.landscape(params, penalty)


def weighted_mean(weights: Array, trees: Params) -> Params:
    """1/K Σ_k weights_k tree_k"""
    return jax.tree.map(lambda a: jnp.tensordot(weights, a, 1) / len(weights), trees)


def squared_norm(tree: Params) -> Array:
    return sum((jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)), start=jnp.zeros(()))
