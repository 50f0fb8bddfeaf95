"""`lossgap compare`: every method and seed of a TOML file."""

from pathlib import Path

import click

from lossgap.cli.keeping import kept, store_options


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the results; by default as the file says.")
@store_options
def command(config: Path, out: Path | None, store: Path | None, checkpoint_seconds: float) -> None:
    """Train every method of a TOML file on every seed, and compare."""
    from lossgap import config as configs
    from lossgap.cli.output import check_folders, show_comparison

    settings = configs.read(config)
    out = out or Path(settings.run.out)
    check_folders(out, settings.methods, settings.run.seeds)
    with kept(store, out, checkpoint_seconds) as runs:
        comparison = runs.compare(
            settings.make_federation,
            settings.model,
            settings.methods,
            settings.training,
            seeds=settings.run.seeds,
            stop=settings.run.solo,
        )
        show_comparison(comparison, out)
