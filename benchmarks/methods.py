"""The table of all methods in docs/methods.md: each tuned on validation rows with one budget, read on test rows.

    python benchmarks/methods.py                    # all three data sets; what is done already is not done again
    python benchmarks/methods.py digits --seeds 0   # one of them, fewer seeds

Every method gets six settings: three strengths of its own times two step sizes, or six step sizes. Runs are kept in a
store, so that the command may be cut off and called again, also by several processes at once.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import lossgap as lg
from lossgap.comparison import NOTIONS, summary_table
from lossgap.paper.statistics import differences_table
from lossgap.selection import Candidate, Selection, grid, tune_methods

SEEDS = (0, 42, 100, 200)
MODEL = lg.models.linear()
READ = ("max_gap", "gap_variance", "mean_accuracy", "worst_accuracy", "mean_loss", "worst_loss", "appeal")


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, and how clients train on it."""

    title: str
    make_federation: Callable[..., lg.Federation]
    training: lg.Training  # with the larger of the two step sizes
    smaller: float  # the other one
    solo_training: lg.Training
    lanes: int | None = None

    @property
    def trainings(self) -> tuple[lg.Training, ...]:
        return self.training, replace(self.training, step_size=self.smaller)


TASKS = {
    "synthetic": Task(
        title="Synthetic: three clients with 500 rows each; a round is one full-batch step; 1,000 rounds",
        make_federation=partial(lg.datasets.synthetic, rows=500),
        training=lg.Training(rounds=1000, step_size=0.5, record_every=1000),
        smaller=0.1,
        solo_training=lg.Training(rounds=1000, step_size=0.5),
    ),
    "digits": Task(
        title="Digits, α = 0.1: five clients; a round is one epoch of batches of 16 rows; 100 rounds",
        make_federation=partial(lg.datasets.digits, clients=5, alpha=0.1),
        training=lg.Training(rounds=100, step_size=0.5, local_epochs=1, batch_size=16, record_every=100),
        smaller=0.1,
        solo_training=lg.Training(rounds=300, step_size=0.5, local_epochs=1, batch_size=16),
        lanes=1,
    ),
    "emnist": Task(
        title="EMNIST, α = 0.1: ten clients, 4,000 rows; a round is five full-batch steps; 80 rounds",
        make_federation=partial(lg.datasets.emnist, clients=10, alpha=0.1, rows=4000, parts=("test",)),
        training=lg.Training(rounds=80, step_size=1.0, local_steps=5, record_every=80),
        smaller=0.3,
        solo_training=lg.Training(rounds=1000, step_size=1.0),
        lanes=1,
    ),
}


def deserving(power: float, solo_losses: np.ndarray) -> lg.Algorithm:
    """UDJ-FL whose γ_k = 1 / L_k*: a client that does well alone deserves a small loss."""
    return lg.Udj(power=power, desert=tuple(float(1 / max(loss, 0.01)) for loss in solo_losses))


def grids(task: Task) -> Mapping[str, Sequence[Candidate]]:
    """Six settings of every method."""
    trainings = task.trainings
    steps = [replace(task.training, step_size=task.training.step_size * share) for share in STEP_SHARES]
    return {
        "FedAvg": tuple(Candidate(algorithm=lg.FedAvg(), training=t, label=f"step {t.step_size:g}") for t in steps),
        "EAGLE": grid("λ", {v: lg.Eagle(gap_penalty=v, normalize="sqrt-k") for v in (0.1, 0.3, 1.0)}, trainings),
        "q-FFL": grid("q", {v: lg.QFFL(q=v) for v in (0.1, 1.0, 5.0)}, trainings),
        "AFL": grid("γ", {v: lg.AFL(mixture_step=v) for v in (0.001, 0.01, 0.1)}, trainings),
        "TERM": grid("t", {v: lg.Term(tilt=v) for v in (0.1, 1.0, 5.0)}, trainings),
        "GIFAIR": grid("strength", {v: lg.Gifair(strength=v) for v in (0.1, 0.3, 0.9)}, trainings),
        "UDJ-FL": grid("p", {v: partial(deserving, v) for v in (1.0, 2.0, 4.0)}, trainings),
        "MaxFL": grid("η_g", {v: lg.MaxFL(server_step_size=v) for v in (0.5, 1.0, 2.0)}, trainings),
        "PropFair": grid("M", {v: lg.PropFair(ceiling=v) for v in (3.0, 5.0, 10.0)}, trainings),
        "FedProx": grid("ω", {v: lg.FedProx(pull=v) for v in (0.01, 0.1, 1.0)}, trainings),
        "FedNova": grid("ρ", {v: lg.FedNova(momentum=v) for v in (0.0, 0.3, 0.9)}, trainings),
        "FedMGDA+": grid("ε", {v: lg.FedMGDA(radius=v) for v in (0.01, 0.1, 1.0)}, trainings),
        "FedFV": grid("α", {v: lg.FedFV(alpha=v) for v in (0.0, 0.1, 0.5)}, trainings),
        "FedDG-GA": grid("d", {v: lg.FedDGGA(step=v) for v in (0.01, 0.05, 0.2)}, trainings),
        "FOCUS": grid("clusters", {2: lg.Focus(clusters=2), 3: lg.Focus(clusters=3)}, [*trainings, steps[1]]),
        "Ditto": grid("ω", {v: lg.Ditto(pull=v) for v in (0.01, 0.1, 1.0)}, trainings),
    }


STEP_SHARES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
"""FedAvg has nothing else to tune."""


def page(task: Task, selection: Selection, stop: str) -> str:
    """A section of docs/methods.md."""
    notions = tuple(name for name in NOTIONS if name not in READ)
    parts = [
        f"## {task.title}",
        f"L_k* by `stop={stop!r}`. Mean ± standard deviation over seeds {', '.join(map(str, selection.seeds))}.",
        selection.table(READ).markdown(),
        "The other notions of fairness, means over seeds:",
        summary_table(selection.summaries, notions, deviations=False).markdown(),
        "Paired differences to FedAvg, mean [95 % t interval]; in bold where the interval leaves out zero:",
        differences_table(selection.summaries, against="FedAvg").markdown(),
        "What was chosen:",
        selection.choices().markdown(),
        *(f"{label} diverged at each of its settings on some seed." for label in selection.diverged),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=f"of {', '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--stop", choices=["best", "converged"], default="best", help="how clients train alone")
    parser.add_argument("--store", type=Path, default=Path(".benchmarks/methods"), help="where runs are kept")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/methods-tables"))
    arguments = parser.parse_args()
    for name in arguments.tasks:
        task = TASKS[name]
        selection = tune_methods(
            task.make_federation,
            MODEL,
            grids(task),
            lg.Store(arguments.store),
            solo_training=task.solo_training,
            stop=arguments.stop,
            seeds=tuple(arguments.seeds),
            lanes=task.lanes,
            tell=lambda line, name=name: print(f"{name}: {line}", flush=True),
        )
        text = page(task, selection, arguments.stop)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"{name}-{arguments.stop}.md").write_text(text + "\n", encoding="utf-8")
        print(text, flush=True)


if __name__ == "__main__":
    main()
