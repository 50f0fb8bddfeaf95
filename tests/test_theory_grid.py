"""The theorems over the whole grid, and the safe step over random problems. Slow: minutes."""

from collections.abc import Callable

import numpy as np
import pytest

import lossgap as lg
from lossgap import theory
from lossgap.theory.study import LOCAL_STEPS, PENALTIES, grid

pytestmark = pytest.mark.slow

DATA: dict[str, Callable[[int], lg.Federation]] = {
    "synthetic": lambda seed: lg.datasets.synthetic(seed=seed),
    "digits": lambda seed: lg.datasets.digits(clients=5, alpha=0.3, seed=seed),
}


@pytest.mark.parametrize("seed", [0, 42, 100, 200])
@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize("data", DATA)
def test_both_bounds_hold_for_every_penalty_and_number_of_local_steps(
    data: str, batch_size: int | None, seed: int
) -> None:
    problem = theory.Problem.of(DATA[data](seed), lg.models.linear(), seed=seed)
    checks = grid(problem, batch_size=batch_size)
    assert len(checks) == len(PENALTIES) * len(LOCAL_STEPS) == 15
    for (penalty, steps), found in checks.items():
        assert found.covered, (penalty, steps)
        assert found.holds, f"λ = {penalty}, I = {steps}\n{found}"
        assert found.measured_parity <= found.sharp_parity.total, (penalty, steps)
        tau = np.arange(steps)
        m, B = theory.multiplier_bound(found.constants, penalty), found.constants.gradient_bound
        assert (found.path.seen.apart <= (2 * found.step_size * tau * m * B) ** 2 + 1e-20).all()


@pytest.mark.parametrize("batch_size", [None, 10])
def test_the_bounds_also_hold_for_batches_that_are_dealt_out(batch_size: int | None) -> None:
    """`lossgap.train` draws the batches of a round without replacement, which the proofs do not cover."""
    problem = theory.Problem.of(lg.datasets.synthetic(seed=0), lg.models.linear())
    for penalty in PENALTIES:
        found = theory.check(problem, penalty=penalty, rounds=40, local_steps=5, batch_size=batch_size, reshuffle=True)
        assert found.covered
        assert found.holds
