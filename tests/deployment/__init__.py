"""Real SuperLinks and SuperNodes on this machine, from a project that `lossgap flower new` has written."""

import csv
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import lossgap as lg
from lossgap.flower import project

COMPLETED = "finished:completed"


def write_project(folder: Path, example: Any = None) -> Path:
    project.write(folder, example)
    return folder


def rehearse_of(folder: Path) -> ModuleType:
    """The project's own `rehearse.py`."""
    name = f"rehearse_of_{folder.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, folder / "rehearse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@contextmanager
def rehearsal(project: Path, federation: lg.Federation, **settings: str) -> Iterator[Any]:
    """A rehearsal of the project with this federation's rows, and proof that none of its processes is left."""
    module = rehearse_of(project)
    folder = project.parent / f"{project.name}-files"
    sites = [module.Site(client.name, write_rows(client, folder)) for client in federation.clients]
    shared = {"LOSSGAP_CACHE": str(project.parent / "programs")}  # what one site has compiled serves all
    with module.Rehearsal(project, folder, sites, settings=shared | settings) as running:
        yield running
    running.wait_until(lambda: not list(module.marked(running.mark)), 10, "processes are left")


def write_rows(client: lg.Client, folder: Path) -> Path:
    """A client's rows as a site's table, so that the split is the same."""
    path = folder / client.name / "rows.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["x", "y", "class", "split"])
        for split, rows in client.splits:
            for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
                table.writerow([*x, "ab"[y], split])
    return path


def three_sites() -> lg.Federation:
    """The synthetic clients under the names of a bare project's sites."""
    clients = lg.datasets.synthetic(seed=0).clients
    names = ("north", "south", "west")
    return lg.Federation.from_splits(
        {name: {split: (r.x, r.y) for split, r in client.splits} for name, client in zip(names, clients, strict=True)}
    )


def result_of(running: Any, name: str = "first") -> lg.Result:
    return lg.load(running.folder / "operator/state/runs" / name / "result")


def simulated(federation: lg.Federation, result: lg.Result) -> lg.Result:
    """The same run in the simulator."""
    return lg.train(
        federation,
        lg.models.linear(),
        result.algorithm,
        result.training,
        seed=result.seed,
        solo=[row.solo_loss for row in result.clients],
        progress=False,
    )


def assert_same(one: lg.Result, two: lg.Result, tolerance: float = 1e-5) -> None:
    for name in ("kernel", "bias"):
        np.testing.assert_allclose(one.params[name], two.params[name], atol=tolerance)
    np.testing.assert_allclose(one.history.gap, two.history.gap, atol=tolerance)
    np.testing.assert_allclose(one.history.multiplier, two.history.multiplier, atol=tolerance)


def seconds_of_rounds(log: str) -> list[float]:
    """How long each round took, from the server app's log."""
    return [float(found) for found in re.findall(r"Round \d+ took ([\d.]+) s", log)]
