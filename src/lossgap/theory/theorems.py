"""Both theorems on one run: measured against bound, term by term."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lossgap.errors import require
from lossgap.table import Table
from lossgap.theory.bounds import (
    Bound,
    Constants,
    drift_share,
    objective_smoothness,
    parity_bound,
    safe_step,
    utility_bound,
)
from lossgap.theory.problem import Problem, constants_at
from lossgap.theory.trajectory import Path, joined, walk

PILOTS = 4
"""How often a step size is fitted to the constants along the path that it makes."""

CAUTION = 0.9


@dataclass(frozen=True, kw_only=True)
class Check:
    """A run of the algorithm that the proofs cover, and what the theorems promise of it."""

    penalty: float
    step_size: float
    rounds: int
    local_steps: int
    batch_size: int | None
    clients: int
    constants: Constants  # along the path
    path: Path

    @property
    def covered(self) -> bool:
        """Whether the step size is one that the theorems speak of."""
        return self.step_size <= safe_step(self.constants, self.penalty)

    @property
    def measured_parity(self) -> float:
        """The mean of ‖∇F‖² along the path, which Theorem 1 bounds."""
        return float(self.path.seen.objective_gradient.mean())

    @property
    def measured_utility(self) -> float:
        """The mean of ‖∇L‖² along the path, which Theorem 2 bounds."""
        return float(self.path.seen.loss_gradient.mean())

    @property
    def parity(self) -> Bound:
        """Theorem 1, with F^end in place of F*: smaller than with F*, so whoever keeps it keeps both."""
        return parity_bound(self.constants, self.penalty, decrease=self._decrease("objective"), **self._run)

    @property
    def utility(self) -> Bound:
        """Theorem 2, with L^end in place of L*."""
        return utility_bound(self.constants, self.penalty, decrease=self._decrease("mean_loss"), **self._run)

    @property
    def sharp_parity(self) -> Bound:
        """Theorem 1 where drift grows with the number of the local step, see `drift_share`."""
        return replace(self.parity, drift=self.parity.drift * drift_share(self.local_steps))

    @property
    def fairness_step_by_step(self) -> float:
        """Theorem 2's 32λ²Γ²B² with the Γ and B of each step, whose mean is all that the proof needs."""
        seen = self.path.seen
        return float(32 * self.penalty**2 * np.mean((seen.spread[:, :1] * seen.largest_gradient) ** 2))

    @property
    def holds(self) -> bool:
        return self.measured_parity <= self.parity.total and self.measured_utility <= self.utility.total

    def up_to(self, rounds: int) -> "Check":
        """The same run, had it ended earlier. Constants stay those of the whole."""
        seen = self.path.seen
        cut = type(seen)(**{name: getattr(seen, name)[:rounds] for name in vars(seen)})
        at = min(rounds, len(seen.objective) - 1)
        last = rounds >= len(seen.objective)
        end = (self.path.end_objective, self.path.end_loss) if last else (seen.objective[at, 0], seen.mean_loss[at, 0])
        path = Path(cut, self.path.end, float(end[0]), float(end[1]))
        return Check(**{**vars(self), "rounds": min(rounds, self.rounds), "path": path})

    def table(self) -> Table:
        """Measured against bound."""
        head = ("theorem", "measured", "start", "drift", "noise", "fairness", "bound", "bound / measured")
        lines = (
            ("1: mean ‖∇F‖²", self.measured_parity, self.parity),
            ("2: mean ‖∇L‖²", self.measured_utility, self.utility),
        )
        rows = []
        for name, value, bound in lines:
            numbers = (value, bound.start, bound.drift, bound.noise, bound.fairness, bound.total, bound.total / value)
            rows.append((name, *(f"{number:.3g}" for number in numbers)))
        return Table(head, tuple(rows))

    def __str__(self) -> str:
        c, limit = self.constants, safe_step(self.constants, self.penalty)
        batch = "full batch" if self.batch_size is None else f"batches of {self.batch_size}"
        covered = "covered by the theorems" if self.covered else "too large for the theorems, which say nothing of it"
        return "\n".join(
            [
                f"λ = {self.penalty:g}, T = {self.rounds:,} rounds, I = {self.local_steps}, {batch}",
                f"along the path: β = {c.smoothness:.3g}, B = {c.gradient_bound:.3g}, Γ = {c.spread:.3g}, "
                f"σ = {c.noise:.3g}; F is {objective_smoothness(c, self.penalty):.3g}-smooth",
                f"step size {self.step_size:.3g}, {covered}: they ask for at most {limit:.3g}",
                str(self.table()),
                self._verdict(),
            ]
        )

    def _verdict(self) -> str:
        if not self.covered:
            return f"What is measured is {'below both bounds' if self.holds else 'above a bound'}, promised or not."
        return "Both bounds hold." if self.holds else "A bound does not hold: see docs/theory.md, or tell us."

    @property
    def _run(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("step_size", "rounds", "local_steps", "clients")}

    def _decrease(self, name: str) -> float:
        end = self.path.end_objective if name == "objective" else self.path.end_loss
        return float(joined(self.path.seen, name)[0]) - end


def check(
    problem: Problem,
    *,
    penalty: float,
    rounds: int,
    local_steps: int = 1,
    batch_size: int | None = None,
    step_size: float | None = None,
    reshuffle: bool = False,
) -> Check:
    """Run EAGLE as the proofs have it, and hold both theorems against what is measured.

    Args:
        problem, penalty, rounds, local_steps, batch_size, reshuffle: as for `walk`.
        step_size: η; by default nine tenths of the largest that the theorems allow, given the constants along the
            path that it leads to.
    """
    require(rounds >= 1, f"theory: rounds is {rounds}.", "Use at least 1.")
    shape: dict[str, Any] = {"rounds": rounds, "local_steps": local_steps, "batch_size": batch_size}

    def run(step_size: float) -> Check:
        path = walk(problem, penalty=penalty, step_size=step_size, reshuffle=reshuffle, **shape)
        constants = constants_along(path, float(problem.smoothness.max()))
        return Check(
            penalty=penalty,
            step_size=step_size,
            rounds=rounds,
            local_steps=local_steps,
            batch_size=batch_size,
            clients=problem.clients,
            constants=constants,
            path=path,
        )

    if step_size is not None:
        return run(step_size)
    found = run(CAUTION * safe_step(constants_at(problem, problem.arrays.start), penalty))
    for _ in range(PILOTS):
        if found.covered:
            break
        found = run(CAUTION * safe_step(found.constants, penalty))
    return found


def constants_along(path: Path, smoothness: float) -> Constants:
    """β as given; B, Γ and σ as large as they ever were on the path."""
    return Constants(
        smoothness=smoothness,
        gradient_bound=float(path.seen.largest_gradient.max()),
        spread=float(path.seen.spread.max()),
        noise=float(np.sqrt(path.seen.noise.max())),
    )
