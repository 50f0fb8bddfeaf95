"""The theorems over the whole grid, and the safe step over random problems. Slow: minutes."""

from collections.abc import Callable

import numpy as np
import pytest

import lossgap as lg
from lossgap import theory
from lossgap.theory.report import safe_step
from lossgap.theory.room import descends, settles
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


@pytest.mark.parametrize("seed", range(200))
def test_the_safe_step_never_diverges(seed: int) -> None:
    """Two hundred problems, with any penalty from 0.01 to 10 and up to a hundred local steps."""
    rng = np.random.default_rng([seed, 9])
    clients, rows, features, classes = [(2, 8, 2, 2), (4, 12, 5, 3), (8, 10, 3, 4)][seed % 3]
    scale, penalty = float(rng.uniform(1, 3)), float(10 ** rng.uniform(-2, 1))

    def made() -> tuple[np.ndarray, np.ndarray]:
        x = scale * (rng.normal(size=(rows, features)) + rng.normal(size=features))
        return x, np.append(rng.integers(0, classes, rows - 2), [0, 1])

    splits = {f"{k}": {"train": made(), "validation": made(), "test": made()} for k in range(clients)}
    federation, solo = lg.Federation.from_splits(splits, classes=classes), rng.uniform(0, 1, clients)
    problem = theory.Problem.of(federation, lg.models.linear(), solo=solo.tolist(), seed=seed)
    for local_steps, batch_size in ((1, None), (5, None), (100, None), (5, 5)):
        step = safe_step(problem, penalty, lg.Training(local_steps=local_steps))
        rounds = max(10, 200 // local_steps)
        path = theory.walk(
            problem,
            penalty=penalty,
            step_size=step,
            rounds=rounds,
            local_steps=local_steps,
            batch_size=batch_size,
        )
        assert settles(path), (local_steps, batch_size)
        assert descends(path) or (local_steps, batch_size) != (1, None)
