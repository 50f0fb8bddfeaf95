"""The patients of UCI Heart Disease, a table for each of the four hospitals (`lossgap data fetch heart` gets them)."""

import csv
from pathlib import Path

from my_federation.agreed import CLASSES, FEATURES, SITES, TARGET
from rehearse import Site

import lossgap as lg

TORCH = ("hungarian", "va")
"""Hospitals that would rather train in PyTorch."""


def make(folder: Path) -> list[Site]:
    """The hospitals, each with a table of its own."""
    federation = lg.datasets.heart(seed=0)
    assert federation.names == SITES
    assert federation.features == (len(FEATURES),)
    return [
        write(client, folder / client.name / "rows.csv", "torch" if client.name in TORCH else "jax")
        for client in federation.clients
    ]


def write(client: lg.Client, path: Path, framework: str) -> Site:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*FEATURES, TARGET, "split"])
        for split, rows in client.splits:
            for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
                table.writerow([*x, CLASSES[y], split])
    return Site(client.name, path, framework)
