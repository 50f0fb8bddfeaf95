"""The theory, executable: what the convergence theorems assume, what they promise, and what is measured.

    problem = theory.Problem.of(federation, model)
    check = theory.check(problem, penalty=1.0, rounds=500, local_steps=5)
    print(check)                       # constants, both theorems term by term, measured against bound

docs/theory.md derives every constant.
"""

from lossgap.theory.bounds import (
    Bound,
    Constants,
    multiplier_bound,
    multiplier_lipschitz,
    objective_smoothness,
    parity_bound,
    safe_step,
    utility_bound,
    utility_loss,
)
from lossgap.theory.problem import Problem
from lossgap.theory.start import level_set_constants, level_set_smoothness, safe_step_size, spread_on_ball
from lossgap.theory.theorems import Check, check
from lossgap.theory.trajectory import Path, walk

__all__ = [
    "Bound",
    "Check",
    "Constants",
    "Path",
    "Problem",
    "check",
    "level_set_constants",
    "level_set_smoothness",
    "multiplier_bound",
    "multiplier_lipschitz",
    "objective_smoothness",
    "parity_bound",
    "safe_step",
    "safe_step_size",
    "spread_on_ball",
    "utility_bound",
    "utility_loss",
    "walk",
]
