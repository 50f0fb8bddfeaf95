"""`lossgap compare`: every method and seed of a TOML file."""

from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the results; by default as the file says.")
def command(config: Path, out: Path | None) -> None:
    """Train every method of a TOML file on every seed, and compare."""
    from lossgap import config as configs
    from lossgap.cli.output import check_folders, show_comparison
    from lossgap.comparison import compare

    settings = configs.read(config)
    out = out or Path(settings.run.out)
    check_folders(out, settings.methods, settings.run.seeds)
    comparison = compare(
        settings.make_federation,
        settings.model,
        settings.methods,
        settings.training,
        seeds=settings.run.seeds,
        stop=settings.run.solo,
    )
    show_comparison(comparison, out)
