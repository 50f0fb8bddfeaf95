"""`lossgap train`: one method of a TOML file."""

from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the result; by default as the file says.")
def command(config: Path, out: Path | None) -> None:
    """Train the one method of a TOML file, with its first seed."""
    from lossgap import config as configs
    from lossgap.cli.output import check_folders, folder_of
    from lossgap.errors import require
    from lossgap.experiment import train
    from lossgap.solo import train_solo

    settings = configs.read(config)
    require(
        len(settings.methods) == 1,
        f"{config} names {len(settings.methods)} methods.",
        "Keep one, or use `lossgap compare`.",
    )
    (method,), seed, out = settings.methods, settings.run.seeds[0], out or Path(settings.run.out)
    check_folders(out, [method], [seed])
    federation = settings.make_federation(seed=seed)
    solo = train_solo(federation, settings.model, settings.training, stop=settings.run.solo, seed=seed)
    result = train(federation, settings.model, method, settings.training, solo=solo, seed=seed)
    click.echo(str(result))
    click.echo(f"\nWritten to {result.save(folder_of(out, method, seed))}.")
