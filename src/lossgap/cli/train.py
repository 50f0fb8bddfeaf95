"""`lossgap train`: one method of a TOML file."""

from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--on", type=click.Choice(["here", "flower"]), default="here", help="Where the clients run; flower: on Ray."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the result; by default as the file says.")
def command(config: Path, on: str, out: Path | None) -> None:
    """Train the one method of a TOML file, with its first seed.

    With --on flower, every client is a node of Flower's simulation on Ray, on this machine or on the cluster that
    RAY_ADDRESS names, and the run goes through the messages of a real one. The figures are the same.
    """
    from lossgap import config as configs
    from lossgap.cli.output import check_folders, folder_of
    from lossgap.errors import require
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
    if on == "flower":
        from lossgap.flower import simulate as train
    else:
        from lossgap.experiment import train  # type: ignore[assignment]
    result = train(federation, settings.model, method, settings.training, solo=solo, seed=seed)
    click.echo(str(result))
    click.echo(f"\nWritten to {result.save(folder_of(out, method, seed))}.")
