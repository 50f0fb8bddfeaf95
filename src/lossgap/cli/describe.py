"""`lossgap describe`: what each client of a file's federation holds."""

from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--seed", type=int, help="Of the split; by default the first of the file.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Draw each client's labels into this .svg or .png."
)
@click.option("--shares", is_flag=True, help="Draw all clients equally long, so that mixtures compare.")
def command(config: Path, seed: int | None, out: Path | None, shares: bool) -> None:
    """Show what each client of CONFIG holds, and how unlike the clients are. Nothing is trained."""
    from lossgap import config as configuration

    settings = configuration.read(config)
    description = settings.make_federation(seed=settings.run.seeds[0] if seed is None else seed).describe()
    click.echo(str(description))
    if out:
        description.figure(shares=shares).save(out)
        click.echo(f"\nDrawn to {out}.")
