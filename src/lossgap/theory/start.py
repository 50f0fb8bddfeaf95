"""Constants that are known before the first step, and the step size that follows from them.

The theorems ask for Γ and B over every θ that there is, where Γ is infinite. They are used along a path, though, and a
path of full-batch steps below 1/β_F never leaves the level set {F ≤ F(θ⁰)}: on it, losses that cannot be negative
bound everything.
"""

import math
from dataclasses import replace

import jax
import numpy as np

from lossgap.algorithms import Algorithm, Ditto, Eagle
from lossgap.algorithms.base import Params
from lossgap.engine.curvature import smoothness, with_bias
from lossgap.engine.rows import client_losses, flat_rows
from lossgap.errors import require
from lossgap.federation import Federation
from lossgap.models import Model, linear
from lossgap.theory.bounds import Constants, objective_smoothness
from lossgap.training import Training


def gradient_bounds(federation: Federation, *, batches: bool = False) -> np.ndarray:
    """A bound on ‖∇L_k‖ of softmax regression at any θ, [client].

        ‖∇ℓ_i‖ = ‖p − e_y‖ ‖(x_i, 1)‖ ≤ √2 ‖(x_i, 1)‖

    The mean over a client's rows bounds its whole gradient, the largest row the gradient of any batch.
    """
    lengths = [np.linalg.norm(with_bias(rows), axis=1) for rows in federation.splits("train")]
    return np.sqrt(2) * np.array([each.max() if batches else each.mean() for each in lengths])


def level_set_constants(
    smoothness: float, penalty: float, objective: float, clients: int, *, gradient_bound: float = math.inf
) -> Constants:
    """β, B and Γ on {F ≤ F⁰}, for losses that cannot be negative.

        Γ² ≤ 2(K−1) Var(r) ≤ (K−1) F⁰/λ            as 2λ Var(r) ≤ F
        B² ≤ max_k 2β L_k  ≤ 2β K F⁰               as L_k ≤ K mean L ≤ K F

    Args:
        smoothness: β.
        objective: F⁰.
        gradient_bound: a bound on gradients that is known otherwise.
    """
    spread = math.sqrt((clients - 1) * objective / penalty) if penalty > 0 else math.inf
    by_losses = math.sqrt(2 * smoothness * clients * objective)
    return Constants(smoothness=smoothness, gradient_bound=min(gradient_bound, by_losses), spread=spread)


def level_set_smoothness(smoothness: float, penalty: float, objective: float, clients: int) -> float:
    """F's smoothness on {F ≤ F⁰} without the detour over Γ and B, for losses that cannot be negative.

    β_F ≤ β (1 + u + u²),        u² = 8λ F⁰ K/(K−1)
    """
    u = math.sqrt(8 * penalty * objective * clients / (clients - 1))
    return smoothness * (1 + u + u**2)


def spread_on_ball(spread: float, gradient_bounds: np.ndarray, radius: float) -> float:
    """Γ ≤ max |r_k − r_k'|(θ⁰) + R max (B_k + B_k')  within ‖θ − θ⁰‖ ≤ R."""
    return spread + radius * float(np.sort(gradient_bounds)[-2:].sum())


def safe_step_size(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    params: Params,
    solo_losses: np.ndarray,
    training: Training = Training(),
) -> float:
    """η = 1/(I β_F), the theorems' condition, with constants that hold as long as F stays below its start.

    Proven for full batches, one local step, current gaps on training rows, and a linear model; elsewhere the same
    number with what is known at the start. The theorems ask for 1/β_F however large I is, and take for granted that Γ
    stays bounded. It need not: multipliers are fixed in a round, and a client with a negative one climbs for I steps.

    Dividing multipliers by their norm, which is √K at least, leaves room for steps that are √K longer. Methods other
    than EAGLE get 1/β, FedAvg's.
    """
    clients, penalty = len(federation.clients), penalty_of(algorithm)
    with jax.enable_x64(training.precision == "float64"):
        beta = float(smoothness(federation, model, params).max())
        losses, gaps = _at(federation, model, params, solo_losses, training)
    if penalty == 0:
        return _room(algorithm, clients) / max(beta, 1e-30)
    start = max(0.0, float(losses.mean() + 2 * penalty * gaps.var(ddof=1)))
    bounded = model is linear() and federation.classes is not None
    B = float(gradient_bounds(federation).max()) if bounded else math.inf
    constants = level_set_constants(beta, penalty, start, clients, gradient_bound=B)
    steepest = min(objective_smoothness(constants, penalty), level_set_smoothness(beta, penalty, start, clients))
    most_steps = int(training.local_work.steps(federation.rows().max()))
    return _room(algorithm, clients) / max(steepest * most_steps, 1e-30)


def with_safe_step(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    params: Params,
    solo_losses: np.ndarray,
    training: Training,
) -> Training:
    """Settings with a number in place of "safe"."""
    if training.step_size != "safe":
        return training
    _check_fixed(algorithm)
    return replace(training, step_size=safe_step_size(federation, model, algorithm, params, solo_losses, training))


def penalty_of(algorithm: Algorithm) -> float:
    """The λ that a run keeps; 0 for a method without one."""
    if isinstance(algorithm, Ditto):
        return penalty_of(algorithm.base)
    if isinstance(algorithm, Eagle) and algorithm.target_variance is None:
        return float(algorithm.gap_penalty or 0.0)
    return 0.0


def _check_fixed(algorithm: Algorithm) -> None:
    base = algorithm.base if isinstance(algorithm, Ditto) else algorithm
    require(
        not (isinstance(base, Eagle) and base.target_variance is not None),
        f'step_size="safe" needs a fixed λ, and {algorithm} moves it while it trains.',
        "Give a number, or gap_penalty in place of target_variance.",
    )


def _room(algorithm: Algorithm, clients: int) -> float:
    return math.sqrt(clients) if isinstance(algorithm, Eagle) and algorithm.normalize == "unit" else 1.0


def _at(
    federation: Federation, model: Model, params: Params, solo_losses: np.ndarray, training: Training
) -> tuple[np.ndarray, np.ndarray]:
    """Training losses and gaps, [client], at one θ."""
    dtype = np.dtype(training.precision)
    by_split = {}
    for split in {"train", training.gap_split}:
        rows = flat_rows(federation.splits(split), dtype)
        by_split[split] = np.asarray(client_losses(model, params, (rows,), len(federation.clients)), np.float64)
    return by_split["train"], by_split[training.gap_split] - solo_losses
