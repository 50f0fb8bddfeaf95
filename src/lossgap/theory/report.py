"""What `lossgap theory` tells and draws."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lossgap.algorithms import Eagle
from lossgap.charts import Figure
from lossgap.models import linear
from lossgap.table import Table
from lossgap.theory import figures, study
from lossgap.theory.problem import Problem
from lossgap.theory.start import gradient_bounds, safe_step_size
from lossgap.theory.theorems import check
from lossgap.training import Training


def story(problem: Problem, penalties: Sequence[float], training: Training, *, rounds: int) -> Iterator[str]:
    """Constants, the safe step, both theorems for each λ, and the price of fairness, a paragraph at a time."""
    yield str(constants_table(problem))
    for penalty in penalties:
        step = safe_step(problem, penalty, training)
        yield f'λ = {penalty:g}: step_size="safe" is {step:.3g}, known before the first step'
    work: dict[str, Any] = {"rounds": rounds, "local_steps": training.local_steps, "batch_size": training.batch_size}
    for penalty in penalties:
        if training.step_size != "safe":
            found = check(problem, penalty=penalty, step_size=training.step, **work)
            yield f"\nWith the step size of the file\n{found}"
        found = check(problem, penalty=penalty, **work)
        yield f"\nWith a step size that is covered\n{found}"
    found_prices = {f"λ = {price.penalty:g}": price for price in study.prices(problem, penalties)}
    yield f"\nThe price of fairness\n{study.price_table(found_prices)}"


def constants_table(problem: Problem) -> Table:
    """β and a bound on gradients, client by client."""
    bounded = problem.model is linear() and problem.federation.classes is not None
    B = gradient_bounds(problem.federation) if bounded else np.full(problem.clients, np.nan)
    rows = zip(problem.federation.names, problem.federation.rows().tolist(), problem.smoothness, B, strict=True)
    return Table(
        ("client", "rows", "β", "B anywhere"), tuple((name, n, float(beta), float(b)) for name, n, beta, b in rows)
    )


def safe_step(problem: Problem, penalty: float, training: Training) -> float:
    """What "safe" is for the algorithm that the proofs cover."""
    eagle = Eagle(gap_penalty=penalty, normalize=None, lag=0)
    training = replace(training, gap_split="train", precision="float64")
    start, solo = problem.arrays.start, np.asarray(problem.arrays.solo_losses)
    return safe_step_size(problem.federation, problem.model, eagle, start, solo, training)


def draw(problem: Problem, penalty: float, training: Training, folder: Path) -> Iterator[Path]:
    """Sweep I, λ and T, and write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in _figures(problem, penalty, training):
        yield figure.save(folder / f"{name}.svg")


def _figures(problem: Problem, penalty: float, training: Training) -> Iterator[tuple[str, Figure]]:
    found = study.grid(problem, batch_size=training.batch_size)
    nearest = min(study.PENALTIES, key=lambda each: abs(each - penalty))
    yield "rounds", figures.over_rounds([found[nearest, steps] for steps in study.LOCAL_STEPS[:2]])
    yield "looseness", figures.over_penalties(found)
    rate = study.rate(problem, penalty=penalty, local_steps=training.local_steps, batch_size=training.batch_size)
    yield "rate", figures.over_horizons({f"λ = {penalty:g}, I = {training.local_steps}": rate})
    prices = study.prices(problem)
    penalties = [price.penalty for price in prices]
    yield "price", figures.price_of_fairness({"by λ": prices}, "λ", penalties, title="The price of fairness")
