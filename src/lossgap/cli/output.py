"""What several commands print and where they write."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossgap.algorithms import Algorithm
    from lossgap.comparison import Comparison


def show_comparison(comparison: "Comparison", out: Path) -> None:
    """Print who gains and who loses under each method, and write every result."""
    from lossgap.picture import gap_picture

    first = [results[0] for results in comparison.results.values()]
    click.echo(gap_picture(first))
    if len(comparison.seeds) > 1:
        click.echo(f"(seed {comparison.seeds[0]})")
    click.echo(f"\n{comparison}\n")
    for result in first:
        click.echo(result.verdict())
    for results in comparison.results.values():
        for result in results:
            result.save(folder_of(out, result.algorithm, result.seed))
    click.echo(f"\nWritten to {out}: one folder per method and seed, `lossgap show FOLDER` prints it.")


def check_folders(out: Path, methods: "Sequence[Algorithm]", seeds: "Sequence[int]") -> None:
    """Refuse, before any work is done, a place that results could not be written to."""
    from lossgap.store import check_room

    for method in methods:
        for seed in seeds:
            check_room(folder_of(out, method, seed))


def folder_of(out: Path, method: "Algorithm", seed: int) -> Path:
    """A folder that a person recognises: the method and the seed."""
    label = "".join(c if c.isalnum() or c in "-._" else "-" for c in str(method)).strip("-")
    return out / f"{label}-seed-{seed}"
