"""`lossgap show`: a saved result."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Print a saved result."""
    from lossgap.store import load

    click.echo(str(load(folder)))
