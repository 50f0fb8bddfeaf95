"""What several commands print and where they write."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossgap.algorithms import Algorithm
    from lossgap.comparison import Comparison
    from lossgap.reporting import Report


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


def drawing_options(command: "Callable[..., Any]") -> "Callable[..., Any]":
    """Switches of commands that write a page."""
    beside = "into a folder beside the page"
    command = click.option("--tables", is_flag=True, help=f"Also write tables as .csv, .tex and .md {beside}.")(command)
    command = click.option("--png", is_flag=True, help=f"Also write the charts as .png {beside}.")(command)
    return click.option("--svg", is_flag=True, help=f"Also write the charts as .svg {beside}.")(command)


def write_report(report: "Report", out: Path, *, svg: bool = False, png: bool = False, tables: bool = False) -> None:
    """Write the page, and what is wanted beside it, and say where it is."""
    click.echo(f"Page: {report.save(out)}")
    beside = out.with_name(f"{out.stem}-files")
    written = report.save_charts(beside, "svg") if svg else []
    written += report.save_charts(beside, "png") if png else []
    written += report.save_tables(beside) if tables else []
    if written:
        click.echo(f"{len(written)} files for papers: {beside}")
