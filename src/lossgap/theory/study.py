"""Sweeps that show what the theorems are worth: over rounds, over I and λ, over T, and the price of fairness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lossgap.algorithms.base import Params
from lossgap.progress import progress_bar
from lossgap.table import Table
from lossgap.theory.bounds import Constants, slope, utility_loss
from lossgap.theory.problem import Problem, constants_at, squared_norm, weighted_mean
from lossgap.theory.theorems import Check, check

PENALTIES = (0.1, 0.5, 1.0, 2.0, 5.0)
LOCAL_STEPS = (1, 5, 20)
HORIZONS = tuple(2**j for j in range(6, 17))
STEPS = 200
"""Gradient steps of each run of a sweep, in T = STEPS/I rounds."""


def grid(
    problem: Problem,
    *,
    penalties: Sequence[float] = PENALTIES,
    local_steps: Sequence[int] = LOCAL_STEPS,
    batch_size: int | None = None,
    steps: int = STEPS,
    progress: bool | None = None,
) -> dict[tuple[float, int], Check]:
    """Both theorems for every λ and I, by (λ, I): as many steps for all, each with the largest step size allowed."""
    found = {}
    with progress_bar("theory: λ and I", len(penalties) * len(local_steps), shown=progress) as report:
        for number in local_steps:
            for penalty in penalties:
                rounds = max(1, steps // number)
                found[penalty, number] = check(
                    problem, penalty=penalty, rounds=rounds, local_steps=number, batch_size=batch_size
                )
                report(len(found))
    return found


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How the mean of ‖∇F‖² falls with the number of rounds, if η = 1/√(TI)."""

    rounds: np.ndarray
    measured: np.ndarray
    bound: np.ndarray
    covered: np.ndarray  # whether 1/√(TI) is small enough for Theorem 1

    @property
    def exponent(self) -> float:
        """p of measured ∝ T^p, over the larger half of T; −½ is the theorem's rate."""
        half = len(self.rounds) // 2
        return slope(self.rounds[half:], self.measured[half:])


def rate(
    problem: Problem,
    *,
    penalty: float,
    local_steps: int = 1,
    batch_size: int | None = None,
    rounds: Sequence[int] = HORIZONS,
    progress: bool | None = None,
) -> Rate:
    """Runs of T rounds each with η = 1/√(TI), as Theorem 1 chooses it."""
    checks = []
    with progress_bar("theory: rounds", len(rounds), shown=progress) as report:
        for T in rounds:
            step_size = 1 / np.sqrt(T * local_steps)
            checks.append(
                check(
                    problem,
                    penalty=penalty,
                    rounds=T,
                    local_steps=local_steps,
                    batch_size=batch_size,
                    step_size=step_size,
                )
            )
            report(len(checks))
    return Rate(
        rounds=np.array(rounds, float),
        measured=np.array([each.measured_parity for each in checks]),
        bound=np.array([each.sharp_parity.total for each in checks]),
        covered=np.array([each.covered for each in checks]),
    )


@dataclass(frozen=True, kw_only=True)
class Price:
    """What fairness costs at the end of training, where ∇F = 0, and the most that Theorem 2 says it may cost."""

    penalty: float
    loss: float  # L(θ_λ) − L*
    squared_gradient: float  # ‖∇L(θ_λ)‖²
    objective_gradient: float  # ‖∇F(θ_λ)‖: how well the end was found
    gap_variance: float
    here: Constants  # at θ_λ
    path: Constants  # at θ_λ and at the start

    @property
    def bound(self) -> float:
        """32λ²Γ²B², with Γ and B over the path."""
        return utility_loss(self.path, self.penalty)

    @property
    def bound_here(self) -> float:
        """32λ²Γ²B², with Γ and B where training ends: more than that cannot be left."""
        return utility_loss(self.here, self.penalty)


def prices(
    problem: Problem, penalties: Sequence[float] = PENALTIES, *, progress: bool | None = None
) -> tuple[Price, ...]:
    """The price of fairness for each λ, at the minimum of F that lies downhill from the start.

    Found by L-BFGS, which takes seconds where a safe step takes hours; only where the path leads matters here.
    """
    start = constants_at(problem, problem.arrays.start)
    found, end = [], minimiser(problem, 0.0)
    best = float(problem.landscape(end, 0.0).losses.mean())
    with progress_bar("theory: the price of fairness", len(penalties), shown=progress) as report:
        for penalty in sorted(penalties):
            end = minimiser(problem, penalty, start=end)  # the way from λ to λ is shorter than from the start
            here, landscape = constants_at(problem, end), problem.landscape(end, penalty)
            found.append(
                Price(
                    penalty=penalty,
                    loss=float(landscape.losses.mean()) - best,
                    squared_gradient=_squared_mean_gradient(landscape.gradients, problem.clients),
                    objective_gradient=float(np.sqrt(squared_norm(landscape.objective_gradient))),
                    gap_variance=float((landscape.losses - np.asarray(problem.arrays.solo_losses)).var(ddof=1)),
                    here=here,
                    path=here | start,
                )
            )
            report(len(found))
    return tuple(found)


def price_table(found: Mapping[str, Price]) -> Table:
    """One row per setting."""
    head = ("setting", "L − L*", "Var(r)", "Γ at the end", "‖∇L‖²", "32λ²Γ²B² at the end", "… along the path")
    rows = [
        (name, p.loss, p.gap_variance, p.here.spread, p.squared_gradient, p.bound_here, p.bound)
        for name, p in found.items()
    ]
    return Table(head, tuple((name, *(f"{number:.3g}" for number in numbers)) for name, *numbers in rows))


def minimiser(problem: Problem, penalty: float, *, start: Params | None = None) -> Params:
    """θ_λ: L-BFGS on F, downhill from `start`."""
    from scipy.optimize import minimize  # imported late: only this needs it

    with jax.enable_x64(True):
        point, unravel = ravel_pytree(jax.tree.map(jnp.asarray, problem.arrays.start if start is None else start))

        def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
            landscape = problem.landscape(unravel(jnp.asarray(v)), penalty)
            return float(landscape.objective), np.asarray(ravel_pytree(landscape.objective_gradient)[0])

        options = {"maxiter": 3000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-8}
        found = minimize(value_and_gradient, np.asarray(point), jac=True, method="L-BFGS-B", options=options)
        return jax.tree.map(np.asarray, unravel(jnp.asarray(found.x)))


def _squared_mean_gradient(gradients: Params, clients: int) -> float:
    with jax.enable_x64(True):
        return float(squared_norm(weighted_mean(jnp.ones(clients), gradients)))
