"""Processes that are killed, and processes that share a store."""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import numpy as np
import pytest

import lossgap as lg
from lossgap.disk import read_tensors
from sweeping import FEW, MANY, swept

SHORT = lg.Training(rounds=20_000, step_size=0.2, record_every=50)
LONG = lg.Training(rounds=600_000, step_size=0.2, record_every=1_000)
PATIENCE = 1200
BEGINNING_SECONDS = 600


@pytest.fixture(scope="module")
def processes(tmp_path_factory) -> ForkServerContext:
    """Starts processes that have loaded everything already and share nothing else."""
    os.environ["LOSSGAP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lossgap.store", "lossgap.experiment"])
    return context


def files_of(store: Path) -> dict[str, bytes | dict]:
    """All numbers that a store holds, by file."""
    found = {}
    for path in sorted(store.glob("*/*/*")):
        name = str(path.relative_to(store))
        if path.suffix == ".safetensors":
            found[name] = {key: (a.dtype, a.shape, a.tobytes()) for key, a in read_tensors(path, "")[0].items()}
        elif path.name in ("result.json", "solo.json"):
            found[name] = path.read_bytes()
    return found


def until(condition, process: ForkServerProcess) -> None:
    deadline = time.monotonic() + BEGINNING_SECONDS
    while process.is_alive() and not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def killed_again_and_again(
    processes: ForkServerContext, store: Path, work: tuple, *, kills: int, within: float, seed: int
) -> Counter:
    """A sweep killed so many times, each time at random within some seconds of its first training, then resumed."""
    rng, log, found = random.Random(seed), store.with_suffix(".log"), Counter()
    for _ in range(kills):
        process = processes.Process(target=swept, args=(store, *work), kwargs={"logged": log})
        process.start()
        until(lambda: log.exists() and f"{process.pid} begins" in log.read_text(), process)  # noqa: B023
        time.sleep(rng.uniform(0, within))
        if not process.is_alive():
            found["too late"] += 1
            continue
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL
        found["killed"] += 1
        found["mid-run"] += any(store.glob("unfinished/*/checkpoint.safetensors"))
    process = processes.Process(target=swept, args=(store, *work), kwargs={"logged": log})
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    return found


def assert_tidy(store: Path) -> None:
    assert not list(store.glob("unfinished/*"))
    assert not list(store.glob("*/.*"))


def whole(tmp_path: Path, work: tuple) -> tuple[dict, float]:
    """A sweep that nobody kills: its numbers, and the seconds that it takes once all is compiled."""
    swept(tmp_path / "warm", *work)
    started = time.perf_counter()
    swept(tmp_path / "whole", *work)
    return files_of(tmp_path / "whole"), time.perf_counter() - started


def test_a_sweep_killed_at_random_ends_with_the_same_numbers(processes, tmp_path):
    expected, seconds = whole(tmp_path, (FEW, SHORT))
    found = killed_again_and_again(processes, tmp_path / "cut", (FEW, SHORT), kills=3, within=seconds / 2, seed=1)
    assert found["killed"] >= 2
    assert files_of(tmp_path / "cut") == expected
    assert len(expected) == 2 * len(FEW) * 3 + 2 * 2
    assert_tidy(tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_sweep_killed_ten_times_at_random_ends_with_the_same_numbers(processes, tmp_path, seed):
    expected, seconds = whole(tmp_path, (MANY, LONG))
    found = killed_again_and_again(processes, tmp_path / "cut", (MANY, LONG), kills=10, within=seconds / 5, seed=seed)
    print(f"uninterrupted {seconds:.1f} s; {dict(found)}")
    assert found["killed"] == 10
    assert found["mid-run"] >= 1
    assert files_of(tmp_path / "cut") == expected
    assert_tidy(tmp_path / "cut")


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_that_share_a_store_train_nothing_twice(processes, tmp_path, count):
    store, log = tmp_path / "shared", tmp_path / "log"
    crew = [processes.Process(target=_count_results, args=(store, SHORT, log, tmp_path / f"{k}")) for k in range(count)]
    for process in crew:
        process.start()
    for process in crew:
        process.join(PATIENCE)
    assert [process.exitcode for process in crew] == [0] * count
    begun = Counter(line.split(" begins ")[1] for line in log.read_text().splitlines() if " begins " in line)
    assert set(begun.values()) == {1}, begun
    runs = sorted(run for pass_ in begun if pass_.startswith("run ") for run in pass_[4:].split(" + "))
    assert runs == sorted(f"{method}#{seed}" for method in FEW for seed in (0, 1))
    assert begun["solo 0"] == begun["solo 1"] == 1
    assert len({line.split()[0] for line in log.read_text().splitlines()}) > 1, "one process did all the work"
    numbers = [np.load(tmp_path / f"{k}.npy") for k in range(count)]
    for other in numbers[1:]:
        np.testing.assert_array_equal(numbers[0], other)
    assert len(numbers[0]) == 2 * len(FEW)
    assert_tidy(store)


def _count_results(store: Path, training: lg.Training, log: Path, out: Path) -> None:
    results = swept(store, FEW, training, logged=log)
    np.save(out, [[client.gap for client in result.clients] for result in results])
