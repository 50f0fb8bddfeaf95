"""Several methods and seeds on one federation: which runs are missing, and how they come to be on the shelf."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from lossgap.algorithms import Algorithm
from lossgap.engine.run import Onlooker
from lossgap.errors import DivergedError
from lossgap.experiment import starts_of
from lossgap.federation import Federation
from lossgap.identity import described_model, fingerprint, run_identity
from lossgap.models import Model, Params
from lossgap.passes import Start, kinds, run_pass
from lossgap.progress import progress_bar
from lossgap.result import Result
from lossgap.solo import Solo, Stop, epochs_alone
from lossgap.store import results
from lossgap.store.claims import Claim
from lossgap.store.layout import Layout, check_writable
from lossgap.store.plans import Plan, Wanted, next_plan
from lossgap.store.shelf import Entry, provenance, read
from lossgap.store.solos import stored_solo
from lossgap.training import Training

LOOK_SECONDS = 0.3
"""How often to look whether another process has finished a run that we wait for."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What all runs of a sweep have in common."""

    layout: Layout
    federation: Federation
    model: Model
    training: Training
    solo: Stop | Solo | Sequence[float]
    solo_epochs: int | None
    initial_params: Params | None
    onlooker: Onlooker | None
    progress: bool | None

    def outcomes(
        self, algorithms: Sequence[Algorithm], seeds: Sequence[int], lanes: int | None
    ) -> list[Result | Entry]:
        """Every run's result, trained where it is missing; for one that diverged, the entry that says so."""
        wanted = self._wanted(algorithms, seeds)
        passes = _passes(wanted, lanes)
        while True:
            while missing := [run for run in wanted if not self.layout.results.holds(run.identity)]:
                self._work(passes, missing)
            found = [read(self.layout.results, run.identity, partial(self._outcome, run)) for run in wanted]
            whole = [outcome for outcome in found if outcome is not None]
            if len(whole) == len(wanted):
                return whole

    def _wanted(self, algorithms: Sequence[Algorithm], seeds: Sequence[int]) -> list[Wanted]:
        identity = partial(
            run_identity,
            fingerprint(self.federation),
            described_model(self.model, self.federation, self.training),
            training=self.training,
            solo=self._described_solo(),
            start=self.initial_params,
        )
        return [
            Wanted(identity(algorithm=algorithm, seed=seed), algorithm, seed)
            for seed in seeds
            for algorithm in algorithms
        ]

    def _described_solo(self) -> Any:
        """The rule by which solo losses are found, or the losses themselves."""
        if isinstance(self.solo, str):
            epochs = None if self.solo == "exact" else epochs_alone(self.training, self.solo_epochs)
            return {"stop": self.solo, "epochs": epochs}
        losses = self.solo.losses(self.training.gap_split) if isinstance(self.solo, Solo) else self.solo
        return {"losses": [float(loss) for loss in losses]}

    def _work(self, passes: Sequence[Sequence[Wanted]], missing: Sequence[Wanted]) -> None:
        """Compute one pass, or wait while others compute all that is missing."""
        check_writable(self.layout)
        plan = next_plan(self.layout, passes)
        if plan is None:
            self._wait(missing)
            return
        try:
            self._compute(plan)
        finally:
            plan.release()

    def _wait(self, missing: Sequence[Wanted]) -> None:
        """Until another process has finished one of these runs, or given it up."""
        with progress_bar(f"waiting for {len(missing)} runs of other processes", 1, shown=self.progress) as report:
            while not any(self.layout.results.holds(run.identity) for run in missing):
                for run in missing:
                    claim = Claim.attempt(self.layout.lock(run.identity))
                    if claim is not None:
                        claim.release()
                        return
                report(0)
                time.sleep(LOOK_SECONDS)

    def _compute(self, plan: Plan) -> None:
        """Train the runs of a plan, and put those that are missing onto the shelf."""
        starts, checkpoint = [self._start(run) for run in plan.runs], self.layout.checkpoints.of(plan.key)
        started = time.monotonic() - checkpoint.spent()
        try:
            trained = run_pass(
                self.federation,
                self.model,
                self.training,
                starts,
                checkpoint=checkpoint,
                onlooker=self.onlooker,
                progress=self.progress,
            )
        except DivergedError as problem:
            self._give_up(plan, problem, time.monotonic() - started)
            return
        about = provenance(self.federation, time.monotonic() - started)
        for lane, (run, result) in enumerate(zip(plan.runs, trained, strict=True)):
            if not self.layout.results.holds(run.identity):
                place = {"key": plan.key, "lane": lane, "lanes": len(plan.runs)}
                more = {"pass": place, "summary": _summary(result)}
                self.layout.results.land(run.identity, partial(results.write, result), about | more)
        plan.done()

    def _start(self, run: Wanted) -> Start:
        (start,) = starts_of(
            self.federation,
            self.model,
            [run.algorithm],
            self.training,
            seed=run.seed,
            solo=partial(self._solo, run.seed) if isinstance(self.solo, str) else self.solo,
            initial_params=self.initial_params,
        )
        return start

    def _solo(self, seed: int) -> Solo:
        assert isinstance(self.solo, str)
        return stored_solo(
            self.layout,
            self.federation,
            self.model,
            self.training,
            stop=self.solo,
            max_epochs=self.solo_epochs,
            seed=seed,
            progress=self.progress,
        )

    def _give_up(self, plan: Plan, problem: DivergedError, seconds: float) -> None:
        """Note down which run of a pass diverged; the others are then trained in a pass without it."""
        lane = (problem.client or 0) // len(self.federation.clients)
        about = provenance(self.federation, seconds) | {"diverged": str(problem)}
        self.layout.results.land(plan.runs[lane].identity, lambda folder: None, about)
        plan.done()

    def _outcome(self, run: Wanted, entry: Entry) -> Result | Entry:
        return entry if entry.diverged else results.load(entry.folder, model=self.model, algorithm=run.algorithm)


def _passes(wanted: Sequence[Wanted], lanes: int | None) -> list[list[Wanted]]:
    """Runs in the groups in which they are computed if none of them is there."""
    most = lanes or len(wanted)
    groups = kinds([run.algorithm for run in wanted])
    return [[wanted[i] for i in group[a : a + most]] for group in groups for a in range(0, len(group), most)]


def _summary(result: Result) -> dict[str, Any]:
    # JSON knows no NaN, which accuracies are where targets are numbers.
    return {name: None if value != value else value for name, value in asdict(result.summary()).items()}
