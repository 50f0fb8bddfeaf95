"""Two claims about EAGLE, measured: gaps stay even with absent clients, and a target for their variance is reached.

    python benchmarks/goals.py participation      # needs EMNIST, see `lossgap data`
    python benchmarks/goals.py remedies           # smaller steps and bounds on multipliers
    python benchmarks/goals.py targets            # synthetic, digits and EMNIST
    python benchmarks/goals.py targets digits --any-price
    python benchmarks/goals.py paths              # which variance each fixed λ ends with

Runs are kept in a store: what is done already is not done again.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import lossgap as lg
from lossgap.table import Cell, Table

SEEDS = (0, 42, 100, 200)
MODEL = lg.models.linear()
EMNIST = partial(lg.datasets.emnist, clients=10, alpha=0.1, rows=6000, parts=("test",))
PENALTIES = (0.0, 0.3, 1.0, 3.0)
LARGER = (10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 100.0)
"""For which fixed λ the targets are looked for as well."""

ABSENT = 0.3
ALLOWED = 1.5
"""With 30 % participation the final variance of gaps shall stay within this many times that of full participation."""

SHARES = (0.5, 0.25, 0.001)
"""Targets, as shares of the variance that FedAvg ends with. The last is out of reach."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set on which EAGLE is given targets."""

    make_federation: Callable[..., lg.Federation]
    training: lg.Training
    solo_training: lg.Training


TASKS = {
    "synthetic": Task(
        make_federation=partial(lg.datasets.synthetic, rows=500),
        training=lg.Training(rounds=3000, step_size=0.5, record_every=10),
        solo_training=lg.Training(rounds=3000, step_size=0.5),
    ),
    "synthetic, small steps": Task(
        make_federation=partial(lg.datasets.synthetic, rows=500),
        training=lg.Training(rounds=15000, step_size=0.1, record_every=50),
        solo_training=lg.Training(rounds=3000, step_size=0.5),
    ),
    "digits": Task(
        make_federation=partial(lg.datasets.digits, clients=5, alpha=0.1),
        training=lg.Training(rounds=3000, step_size=0.5, record_every=10),
        solo_training=lg.Training(rounds=3000, step_size=0.5),
    ),
    "EMNIST": Task(
        make_federation=EMNIST,
        training=lg.Training(rounds=1500, step_size=1.0, record_every=10),
        solo_training=lg.Training(rounds=2000, step_size=1.0),
    ),
}


def variances(result: lg.Result) -> np.ndarray:
    """Of the gaps, at each recorded round."""
    return result.history.gap.var(axis=1, ddof=1)


def participation(store: lg.Store, seeds: Sequence[int]) -> Table:
    """EAGLE with everybody, with 30 % of the clients each round, and with 30 % and as many client rounds in all."""
    task = TASKS["EMNIST"]
    whole = replace(task.training, rounds=500)
    absent = replace(whole, participation=ABSENT)
    longer = replace(absent, rounds=round(500 / ABSENT))
    methods = [lg.Eagle(gap_penalty=penalty, normalize="sqrt-k") for penalty in PENALTIES]
    rows: list[tuple[Cell, ...]] = []
    for seed in seeds:
        federation = task.make_federation(seed=seed)
        solo = store.train_solo(federation, MODEL, task.solo_training, seed=seed)
        runs = [
            store.sweep(federation, MODEL, methods, training, seeds=(seed,), solo=solo)
            for training in (whole, absent, longer)
        ]
        for method, (everybody, some, some_longer) in zip(methods, zip(*runs, strict=True), strict=True):
            full, part, late = (variances(result)[-1] for result in (everybody, some, some_longer))
            settled = variances(some)[-11:-1]  # the last hundred rounds: a single one depends on who was there
            rows.append(
                (
                    f"{method.gap_penalty:g}",
                    seed,
                    *map(_small, (full, part, settled.mean(), late)),
                    f"{part / full:.2f}",
                    f"{late / full:.2f}",
                    *(f"{each.summary().mean_accuracy:.3f}" for each in (everybody, some, some_longer)),
                )
            )
    kinds = "everybody", "30 %", "30 %, mean of the last 100 rounds", "30 %, 1,667 rounds"
    accuracies = (f"accuracy, {kind}" for kind in (kinds[0], kinds[1], kinds[3]))
    return Table(("λ", "seed", *kinds, "ratio", "ratio, 1,667 rounds", *accuracies), tuple(sorted(rows, key=_order)))


def remedies(store: lg.Store, seeds: Sequence[int]) -> Table:
    """What a smaller step and bounds on multipliers do for 30 % participation at λ = 1, over its last 100 rounds."""
    task = TASKS["EMNIST"]
    methods = [lg.Eagle(gap_penalty=1.0, normalize="sqrt-k", multiplier_range=bounds) for bounds in (None, (0.0, 2.0))]
    rows: list[tuple[Cell, ...]] = []
    for seed in seeds:
        federation = task.make_federation(seed=seed)
        solo = store.train_solo(federation, MODEL, task.solo_training, seed=seed)
        for step in (1.0, 0.2):
            whole = replace(task.training, rounds=500, step_size=step)
            sweeps = (
                store.sweep(federation, MODEL, methods, training, seeds=(seed,), solo=solo, skip_diverged=True)
                for training in (whole, replace(whole, participation=ABSENT))
            )
            everybody, some = ({result.algorithm: result for result in sweep} for sweep in sweeps)
            rows += [(seed, step, str(m.multiplier_range), *_compared(everybody.get(m), some.get(m))) for m in methods]
    columns = ("seed", "step", "multiplier_range", "everybody", "30 %", "ratio", "accuracy", "accuracy, 30 %")
    return Table(columns, tuple(rows))


def _compared(everybody: lg.Result | None, some: lg.Result | None) -> Sequence[Cell]:
    """Mean variances over the last hundred rounds, and accuracies at the end."""
    if everybody is None or some is None:
        return (None,) * 5
    full, part = (float(variances(result)[-11:].mean()) for result in (everybody, some))
    accuracies = (f"{result.summary().mean_accuracy:.3f}" for result in (everybody, some))
    return _small(full), _small(part), f"{part / full:.2f}", *accuracies


def targets(name: str, store: lg.Store, seeds: Sequence[int], rise: float | None) -> Table:
    """For each target what EAGLE reached, when, and at what price; the worst gap may rise by so much, or by any."""
    task = TASKS[name]
    rows: list[tuple[Cell, ...]] = []
    for seed in seeds:
        federation = task.make_federation(seed=seed)
        solo = store.train_solo(federation, MODEL, task.solo_training, seed=seed)
        train = partial(store.sweep, federation, MODEL, training=task.training, seeds=(seed,), solo=solo)
        (free,) = train(algorithms=[lg.Eagle(gap_penalty=0.0, normalize="sqrt-k")])
        free_variance = float(variances(free)[-1])
        goals = [float(f"{share * free_variance:.3g}") for share in SHARES]
        methods = [lg.Eagle(target_variance=goal, normalize="sqrt-k", worst_gap_rise=rise) for goal in goals]
        found = {result.algorithm: result for result in train(algorithms=methods, skip_diverged=True)}
        for share, goal, method in zip(SHARES, goals, methods, strict=True):
            rows.append((name, seed, f"{share:g} × FedAvg's", *_outcome(goal, found.get(method), free)))
    columns = ("data", "seed", "target", "ε", "variance at the end", "at or below ε from round")
    return Table((*columns, "worst gap", "FedAvg's worst gap", "mean gap", "FedAvg's mean gap", "says"), tuple(rows))


def paths(name: str, store: lg.Store, seeds: Sequence[int]) -> Table:
    """Which variance of gaps each fixed λ ends with, as a share of FedAvg's, and the worst gap with it."""
    task = TASKS[name]
    methods = [lg.Eagle(gap_penalty=penalty, normalize="sqrt-k") for penalty in (*PENALTIES, *LARGER)]
    rows: list[tuple[Cell, ...]] = []
    for seed in seeds:
        federation = task.make_federation(seed=seed)
        solo = store.train_solo(federation, MODEL, task.solo_training, seed=seed)
        found = store.sweep(federation, MODEL, methods, task.training, seeds=(seed,), solo=solo, skip_diverged=True)
        free = variances(found[0])[-1]
        for result in found:
            path = variances(result)[-len(result.history.rounds) // 4 :] / free
            reached = result.summary()
            rows.append(
                (
                    *(name, seed, f"{result.algorithm.gap_penalty:g}", f"{path[-1]:.3f}"),
                    *(f"{path.min():.3f} … {path.max():.3f}", f"{reached.max_gap:.3f}", f"{reached.mean_gap:.3f}"),
                )
            )
    columns = ("data", "seed", "λ", "variance / FedAvg's", "over the last quarter", "worst gap", "mean gap")
    return Table(columns, tuple(rows))


def _outcome(goal: float, result: lg.Result | None, free: lg.Result) -> Iterator[Cell]:
    if result is None:
        yield from (_small(goal), *[None] * 6, "diverged")
        return
    path, reached = variances(result), result.summary()
    above = np.flatnonzero(path > goal)
    since = 0 if not len(above) else above[-1] + 1
    yield _small(goal)
    yield _small(path[-1])
    yield str(result.history.rounds[since]) if since < len(path) else "never"
    yield f"{reached.max_gap:.3f}"
    yield f"{free.summary().max_gap:.3f}"
    yield f"{reached.mean_gap:.3f}"
    yield f"{free.summary().mean_gap:.3f}"
    remark = result.algorithm.remarks(result.history.rounds, result.history.gap)[0]
    sayings = "cannot be reached", "not reached", "by levelling down"
    yield next((saying for saying in sayings if saying in remark), "reached")


def _small(number: float) -> str:
    return f"{number:.3g}"


def _order(row: tuple[Cell, ...]) -> tuple[float, Cell]:
    return float(row[0] or 0), row[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["participation", "remedies", "targets", "paths"])
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=f"of {', '.join(TASKS)}, for targets")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument(
        "--any-price", action="store_true", help="let the worst gap rise as far as it will, for targets"
    )
    parser.add_argument("--store", type=Path, default=Path(".benchmarks/goals"), help="where runs are kept")
    arguments = parser.parse_args()
    store = lg.Store(arguments.store)
    if arguments.what == "participation":
        print(participation(store, arguments.seeds).markdown())
    elif arguments.what == "remedies":
        print(remedies(store, arguments.seeds).markdown())
    else:
        rise = None if arguments.any_price else lg.Eagle(gap_penalty=0.0).worst_gap_rise
        for name in arguments.tasks:
            if arguments.what == "paths":
                print(paths(name, store, arguments.seeds).markdown(), flush=True)
                continue
            print(targets(name, store, arguments.seeds, rise).markdown(), flush=True)


if __name__ == "__main__":
    main()
