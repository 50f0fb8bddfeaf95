"""Invented rows for a rehearsal: those of the synthetic clients of EAGLE's paper. Your own rows come later."""

import csv
from pathlib import Path

from my_federation.agreed import CLASSES, FEATURES, SITES, TARGET
from rehearse import Site

import lossgap as lg


def make(folder: Path) -> list[Site]:
    """The sites, each with a table of its own."""
    federation = lg.datasets.synthetic(seed=0)
    return [
        write(client, name, folder / name / "rows.csv") for name, client in zip(SITES, federation.clients, strict=True)
    ]


def write(client: lg.Client, name: str, path: Path, framework: str = "jax") -> Site:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*FEATURES, TARGET, "split"])
        for split, rows in client.splits:
            for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
                table.writerow([*x, CLASSES[y], split])
    return Site(name, path, framework)
