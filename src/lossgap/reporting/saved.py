"""Saved results, wherever they lie: a result's folder, a folder of such folders, or a store."""

from pathlib import Path

from lossgap.algorithms import Eagle, FedAvg
from lossgap.errors import FileError
from lossgap.result import Result
from lossgap.store import load
from lossgap.store.layout import CARD, opened
from lossgap.store.results import DESCRIPTION
from lossgap.store.shelf import Entry


def read_runs(folder: Path) -> tuple[list[Result], list[str]]:
    """The results in a folder in an order to show them, and remarks on runs that have none."""
    if (folder / DESCRIPTION).is_file():
        return [load(folder)], []
    if (folder / CARD).is_file():
        return _stored(folder)
    # [!.]: what another process is writing at this moment has a name with a dot.
    inside = sorted(path.parent for path in folder.glob(f"[!.]*/{DESCRIPTION}")) if folder.is_dir() else []
    if not inside:
        there = "holds no saved result" if folder.is_dir() else "is no folder"
        raise FileError(
            f"{folder} {there}. Give folders that `lossgap train`, `compare` or `tune` wrote, or a store's folder."
        )
    return _in_order([load(path) for path in inside]), []


def _stored(folder: Path) -> tuple[list[Result], list[str]]:
    entries = list(opened(folder).results)
    if not entries:
        raise FileError(f"{folder} is a store without results. Train something into it first.")
    notes = [f"{entry.label} diverged and is not shown: {entry.diverged}" for entry in entries if entry.diverged]
    return _in_order([_checked(entry) for entry in entries if not entry.diverged]), notes


def _checked(entry: Entry) -> Result:
    entry.check()
    return load(entry.folder)


def _in_order(results: list[Result]) -> list[Result]:
    """What the others are compared with first, then by name and setting, EAGLE last; λ ascends."""

    def place(result: Result) -> tuple[int, str, float, str, int]:
        algorithm = result.algorithm
        first = 0 if isinstance(algorithm, FedAvg) else 2 if isinstance(algorithm, Eagle) else 1
        penalty = float(getattr(algorithm, "gap_penalty", None) or 0)
        return first, type(algorithm).__name__, penalty, str(algorithm), result.seed

    return sorted(results, key=place)
