"""`lossgap flower`: from one machine to real sites."""

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Take a federation to real sites, on Flower."""


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--example", type=click.Choice(["hospitals"]), help="A worked example in place of the bare project.")
def new(folder: Path, example: str | None) -> None:
    """Write a ready project: apps, certificates, keys, services, and instructions for every party."""
    import importlib.util

    from lossgap.flower import project

    files = project.write(folder, example)  # type: ignore[arg-type]  # click has checked it
    click.echo(f"Wrote {len(files)} files to {folder}. Its README.md says who does what.")
    if importlib.util.find_spec("flwr") is None:
        click.echo("It needs Flower: pip install 'lossgap[flower]'")
    click.echo(f"Try everything on this machine first: python {folder / 'rehearse.py'}")
