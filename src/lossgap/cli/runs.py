"""`lossgap runs`: what a store holds."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lossgap.store.layout import Layout

STORE = click.argument("store", type=click.Path(path_type=Path, file_okay=False))
RUNS = click.argument("runs", nargs=-1)


@click.group()
def command() -> None:
    """List, show, compare, export and remove the runs of a store.

    A RUN is named by the first digits of its hash, by its label, or by a pattern such as "Eagle*".
    """


def _opened(folder: Path) -> "Layout":
    from lossgap.errors import FileError
    from lossgap.store.layout import CARD, opened

    if not (folder / CARD).is_file():
        raise FileError(f"{folder} holds no store: there is no {CARD} in it. Check the path.")
    return opened(folder)


@command.command("list")
@STORE
@RUNS
def list_(store: Path, runs: tuple[str, ...]) -> None:
    """Every run of a STORE, or those named: finished, under way, and what cannot be read."""
    from lossgap.store import catalogue, tables

    layout = _opened(store)
    found, waiting, solos = catalogue.runs(layout), catalogue.under_way(layout), catalogue.solos(layout)
    if runs:
        found, waiting, solos = catalogue.named(found, runs), [], []
    if found:
        click.echo(str(tables.listing(found)))
    megabytes = sum(map(catalogue.size, [*found, *waiting, *solos])) / 1e6
    click.echo(f"{len(found)} runs, {len(solos)} sets of solo models, {len(waiting)} under way; {megabytes:.1f} MB")
    for each in waiting:
        click.echo(f"{each.key[: catalogue.SHOWN]}  {each.label}: {each.state}")
    for each in [*found, *solos]:
        if each.problem:
            click.echo(f"{each.key[: catalogue.SHOWN]}  {each.label} is {each.state}: {each.problem}")


@command.command()
@STORE
@click.argument("runs", nargs=-1, required=True)
def show(store: Path, runs: tuple[str, ...]) -> None:
    """What runs follow from, how they came about, and what each client got."""
    from lossgap.store import catalogue, tables

    found = catalogue.named(catalogue.runs(_opened(store)), runs)
    click.echo("\n\n".join(map(tables.shown, found)))


@command.command()
@STORE
@RUNS
def compare(store: Path, runs: tuple[str, ...]) -> None:
    """Methods side by side over seeds, for all runs or those named."""
    from lossgap.store import catalogue, tables

    found = catalogue.named(catalogue.runs(_opened(store)), runs)
    click.echo("\n\n".join(tables.comparisons(found)))


@command.command()
@STORE
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@RUNS
@click.option("--summaries", is_flag=True, help="One line per run in place of one per client.")
def export(store: Path, file: Path, runs: tuple[str, ...], summaries: bool) -> None:
    """Write every client's numbers to a FILE that ends in .csv or .parquet."""
    from lossgap.store import catalogue, tables

    found = catalogue.named(catalogue.runs(_opened(store)), runs)
    rows = (tables.summary_rows if summaries else tables.client_rows)(found)
    tables.export(rows, file)
    click.echo(f"{len(rows)} lines written to {file}.")
    for run in found:
        if not run.whole:
            click.echo(f"Left out: {run.label}, {run.state}", err=True)


@command.command()
@STORE
@click.argument("runs", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(store: Path, runs: tuple[str, ...], yes: bool) -> None:
    """Remove runs for good: finished ones, solo models, and what was saved of runs under way."""
    from lossgap.store import catalogue

    layout = _opened(store)
    found = catalogue.named([*catalogue.runs(layout), *catalogue.under_way(layout), *catalogue.solos(layout)], runs)
    for each in found:
        click.echo(f"{each.key[: catalogue.SHOWN]}  {each.label}: {each.state}")
    if not yes:
        click.confirm(f"Remove {len(found)} for good?", abort=True)
    for each in found:
        catalogue.remove(layout, each)
    click.echo(f"Removed {len(found)}.")
