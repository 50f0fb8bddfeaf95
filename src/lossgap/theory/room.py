"""How much room the safe step leaves: how far one may go beyond it before a run stops converging."""

from collections.abc import Callable

import numpy as np

from lossgap.theory.problem import Problem
from lossgap.theory.trajectory import Path, joined, walk

MOST_DOUBLINGS = 24
ROUNDING = 1e-9
"""Relative: an objective at its minimum wobbles by as much."""

Verdict = Callable[[Path], bool]


def descends(path: Path) -> bool:
    """Every step lowers F."""
    values = _objective(path)
    return bool(np.isfinite(values).all() and (np.diff(values) <= ROUNDING * np.abs(values[:-1])).all())


def settles(path: Path) -> bool:
    """F ends below its start and stays there for the last tenth of the run, whatever happened before."""
    values = _objective(path)
    tail = values[-max(1, len(values) // 10) :]
    return bool(np.isfinite(values).all() and (tail <= values[0] * (1 + ROUNDING)).all())


def room(
    problem: Problem,
    *,
    penalty: float,
    step_size: float,
    rounds: int,
    local_steps: int = 1,
    batch_size: int | None = None,
    verdict: Verdict = settles,
) -> int:
    """The largest 2^j times `step_size` up to which the verdict on every doubling is good; 0 if on none."""
    factor = 0
    for doublings in range(MOST_DOUBLINGS):
        path = walk(
            problem,
            penalty=penalty,
            step_size=step_size * 2**doublings,
            rounds=rounds,
            local_steps=local_steps,
            batch_size=batch_size,
        )
        if not verdict(path):
            break
        factor = 2**doublings
    return factor


def _objective(path: Path) -> np.ndarray:
    return np.append(joined(path.seen, "objective"), path.end_objective)
