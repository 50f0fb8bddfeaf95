"""What every contestant shares: reading the arrays, timing, and the line it prints. Needs NumPy alone.

A contestant is a script that ends in `protocol.main("name", prepare, distributions=(...))`. `prepare(workload)` loads
everything that stays loaded and gives back `train(rounds)`, which starts from the shared initialisation, trains that
many rounds and returns the parameters.
"""

import argparse
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

Params = dict[str, np.ndarray]
Rows = tuple[np.ndarray, np.ndarray]
Train = Callable[[int], Params]
Timer = Callable[[Any, int], tuple[float, Params]]

SHORTEST_TIMING = 1.0  # seconds: below that the clock and the scheduler show


class Skipped(Exception):
    """A framework cannot run a workload; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One race: FedAvg, θ ← mean of the clients' θ_k, from shared initial parameters.

    A client's round is one pass over its rows in the order in which they stand: one step on all of them, or
    consecutive batches of `batch_size` of which the last may be smaller.
    """

    name: str
    clients: list[Rows]
    validation: list[Rows]  # empty where a workload has none; only contestants that measure gaps read it
    params: Params  # "kernel" and "bias", or "LAYER.kernel" and "LAYER.bias"; kernels are [..., inputs, outputs]
    classes: int
    step_size: float
    batch_size: int | None  # None is the full batch
    checked_rounds: int  # after which the parameters are compared with the reference

    def batches(self, client: int) -> list[Rows]:
        """The consecutive batches of one client's pass."""
        x, y = self.clients[client]
        size = self.batch_size or len(y)
        return [(x[start : start + size], y[start : start + size]) for start in range(0, len(y), size)]

    @property
    def training_rows(self) -> int:
        return sum(len(y) for _, y in self.clients)


def save(workload: Workload, path: Path) -> None:
    """Write a workload; the clients' rows stand one after the other with the row number at which each ends."""
    settings = {name: getattr(workload, name) for name in ("name", "classes", "step_size", "checked_rounds")}
    arrays = {f"params/{name}": value for name, value in workload.params.items()}
    for split, clients in (("train", workload.clients), ("validation", workload.validation)):
        if clients:
            arrays[f"{split}/x"] = np.concatenate([x for x, _ in clients])
            arrays[f"{split}/y"] = np.concatenate([y for _, y in clients])
            arrays[f"{split}/ends"] = np.cumsum([len(y) for _, y in clients])
    np.savez(path, **settings, batch_size=workload.batch_size or 0, **arrays)


def load(path: Path) -> Workload:
    with np.load(path) as stored:
        arrays = dict(stored)
    return Workload(
        name=str(arrays["name"]),
        clients=_clients(arrays, "train"),
        validation=_clients(arrays, "validation"),
        params={name.removeprefix("params/"): arrays[name] for name in arrays if name.startswith("params/")},
        classes=int(arrays["classes"]),
        step_size=float(arrays["step_size"]),
        batch_size=int(arrays["batch_size"]) or None,
        checked_rounds=int(arrays["checked_rounds"]),
    )


def _clients(arrays: Params, split: str) -> list[Rows]:
    if f"{split}/ends" not in arrays:
        return []
    cuts = arrays[f"{split}/ends"][:-1]
    return list(zip(np.split(arrays[f"{split}/x"], cuts), np.split(arrays[f"{split}/y"], cuts), strict=True))


def wall_clock(train: Train, rounds: int) -> tuple[float, Params]:
    """Seconds that a run takes from outside, start to parameters in hand."""
    start = perf_counter()
    params = train(rounds)
    return perf_counter() - start, params


def main(
    contestant: str,
    prepare: Callable[[Workload], Any],
    *,
    distributions: tuple[str, ...],
    timer: Timer = wall_clock,
) -> None:
    """Run one workload as the command line says and print one JSON line.

    `timer` is for a framework with a fixed cost at the start of a run that a user would not count as training: its
    `train` measures itself and returns (seconds, params).
    """
    options = arguments()
    workload = load(options.arrays)
    line = {
        "contestant": contestant,
        "workload": workload.name,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in distributions}},
    }
    try:
        train = prepare(workload)
        _, params = timer(train, workload.checked_rounds)
        np.savez(options.params, **params)
        line |= measure(train, timer, workload.checked_rounds, options.repeats)
    except Skipped as reason:
        line["skipped"] = str(reason)
    print(json.dumps(line), flush=True)


def measure(train: Any, timer: Timer, rounds: int, repeats: int) -> dict[str, Any]:
    """Warm seconds per round: the best of several timings, each over enough rounds to last about a second."""
    while (seconds := _warm_seconds(train, timer, rounds)) < SHORTEST_TIMING:
        rounds = math.ceil(rounds * min(1.2 * SHORTEST_TIMING / seconds, 100))
    timings = [timer(train, rounds)[0] / rounds for _ in range(repeats)]
    return {"seconds_per_round": min(timings), "all_seconds_per_round": timings, "rounds": rounds}


def _warm_seconds(train: Any, timer: Timer, rounds: int) -> float:
    """The better of two, as the first may compile and another process may disturb either."""
    return min(timer(train, rounds)[0] for _ in range(2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("arrays", type=Path, help="the workload, as written by workloads.py")
    parser.add_argument("params", type=Path, help="where the parameters after the checked rounds go")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()
