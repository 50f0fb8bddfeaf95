"""What the theorems promise, as functions of the constants they assume. Derived in docs/theory.md.

Throughout, λ is the gap penalty, η the step size, I the local steps of a round, T the rounds and K the clients.
"""

import math
from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What both theorems assume of a problem."""

    smoothness: float  # β: no client's gradient changes faster than this
    gradient_bound: float  # B: no client's gradient, of all its rows or of a batch, is longer than this
    spread: float  # Γ: no two clients' gaps differ by more than this
    noise: float = 0.0  # σ: E‖∇L_k(θ; ζ) − ∇L_k(θ)‖² ≤ σ²

    def __or__(self, other: "Constants") -> "Constants":
        """Constants that hold wherever those of either hold."""
        return Constants(**{f.name: max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A theorem's right-hand side, term by term."""

    start: float  # what is left of the distance to the minimum: falls with the rounds
    drift: float  # clients walk apart between two exchanges: falls with η²
    noise: float  # batches instead of all rows: falls with η
    fairness: float = 0.0  # λ pulls away from the mean loss: stays

    @property
    def total(self) -> float:
        return self.start + self.drift + self.noise + self.fairness


def multiplier_bound(constants: Constants, penalty: float) -> float:
    """|w_k(θ)| ≤ 1 + 4λΓ  (Lemma 1)"""
    return 1 + 4 * penalty * constants.spread


def multiplier_lipschitz(constants: Constants, penalty: float) -> float:
    """|w_k(θ) − w_k(θ')| ≤ 8λB ‖θ − θ'‖  (Lemma 1)"""
    return 8 * penalty * constants.gradient_bound


def objective_smoothness(constants: Constants, penalty: float) -> float:
    """β_F = (1 + 4λΓ)β + 8λB², of every F_k and of their mean F  (Lemma 3)"""
    B = constants.gradient_bound
    return multiplier_bound(constants, penalty) * constants.smoothness + 8 * penalty * B**2


def safe_step(constants: Constants, penalty: float) -> float:
    """η ≤ 1 / ((1 + 4λΓ)β + 8λB²), under which both theorems hold."""
    steepest = objective_smoothness(constants, penalty)
    return 1 / steepest if steepest > 0 else math.inf


def parity_bound(
    constants: Constants,
    penalty: float,
    *,
    step_size: float,
    rounds: int,
    local_steps: int,
    clients: int,
    decrease: float,
) -> Bound:
    """Theorem 1, a bound on the mean of E‖∇F‖² along the virtual mean of the clients' models.

        2 (F⁰ − F*)/(ηTI) + η²I²ξ₁ + ησ²/K ξ₂
        ξ₁ = 8B²(1 + 4λΓ)² (β²(1 + 4λΓ)² + 32λ²B⁴)
        ξ₂ = β_F (1 + 4λΓ)²

    Args:
        decrease: F⁰ − F*, or any larger number; F⁰ − F^end also serves, and is what the proof telescopes to.
    """
    m, B, beta = multiplier_bound(constants, penalty), constants.gradient_bound, constants.smoothness
    xi_1 = 8 * B**2 * m**2 * (beta**2 * m**2 + 32 * penalty**2 * B**4)
    xi_2 = objective_smoothness(constants, penalty) * m**2
    return Bound(
        start=2 * decrease / (step_size * rounds * local_steps),
        drift=step_size**2 * local_steps**2 * xi_1,
        noise=step_size * constants.noise**2 / clients * xi_2,
    )


def utility_bound(
    constants: Constants,
    penalty: float,
    *,
    step_size: float,
    rounds: int,
    local_steps: int,
    clients: int,
    decrease: float,
) -> Bound:
    """Theorem 2, a bound on the mean of E‖∇L‖², how far the same path is from minimising the plain mean loss L.

        2 (L⁰ − L*)/(ηTI) + 8η²I²β²(1 + 4λΓ)²B² + ησ²/K β(1 + 4λΓ)² + 32λ²Γ²B²

    The proof needs L's own smoothness β in the third term, where the paper prints ξ₂ with F's.
    """
    m, B, beta = multiplier_bound(constants, penalty), constants.gradient_bound, constants.smoothness
    return Bound(
        start=2 * decrease / (step_size * rounds * local_steps),
        drift=8 * beta**2 * step_size**2 * local_steps**2 * m**2 * B**2,
        noise=step_size * constants.noise**2 / clients * beta * m**2,
        fairness=utility_loss(constants, penalty),
    )


def utility_loss(constants: Constants, penalty: float, *, pl: float | None = None) -> float:
    """What fairness may cost, and no step size takes away.

        32λ²Γ²B²          of ‖∇L‖²
        16λ²Γ²B²/μ        of L − L*, where ½‖∇L‖² ≥ μ (L − L*)

    Args:
        pl: μ, to have the second.
    """
    squared_gradient = 32 * penalty**2 * constants.spread**2 * constants.gradient_bound**2
    return squared_gradient if pl is None else squared_gradient / (2 * pl)


def drift_share(local_steps: int) -> float:
    """What is left of the drift term if Lemma 4 keeps the number τ of the local step, which the paper rounds up to I.

    1/I Σ_{τ<I} τ²/I² = (I − 1)(2I − 1)/(6I²)         none at I = 1, a third for many
    """
    return (local_steps - 1) * (2 * local_steps - 1) / (6 * local_steps**2)


def slope(rounds: np.ndarray, values: np.ndarray) -> float:
    """The exponent p of values ∝ rounds^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(rounds), np.log(values), 1)[0])
