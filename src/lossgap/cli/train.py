"""`lossgap train`: one method of a TOML file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossgap.cli.keeping import kept, store_options
from lossgap.cli.watching import check_terminal, logging_to, watched

if TYPE_CHECKING:
    from lossgap.result import Result


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--on", type=click.Choice(["here", "flower"]), default="here", help="Where the clients run; flower: on Ray."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the result; by default as the file says.")
@click.option("--mlflow", metavar="URI", help="An MLflow server that the result is logged to; needs lossgap[mlflow].")
@click.option("--live", is_flag=True, help="Show gaps and multipliers of every client while it is trained.")
@store_options
def command(
    config: Path,
    on: str,
    out: Path | None,
    store: Path | None,
    checkpoint_seconds: float,
    live: bool,
    mlflow: str | None,
) -> None:
    """Train the one method of a TOML file, with its first seed.

    Ctrl-C stops: the result so far is written, and the same command goes on from there.

    With --on flower, every client is a node of Flower's simulation on Ray, on this machine or on the cluster that
    RAY_ADDRESS names, and the run goes through the messages of a real one. The figures are the same.
    """
    from lossgap import config as configs
    from lossgap.cli.output import check_folders, folder_of
    from lossgap.errors import Stopped, require

    check_terminal(live)
    settings = configs.read(config)
    require(
        len(settings.methods) == 1,
        f"{config} names {len(settings.methods)} methods.",
        "Keep one, or use `lossgap compare`.",
    )
    (method,), seed, out = settings.methods, settings.run.seeds[0], out or Path(settings.run.out)
    check_folders(out, [method], [seed])
    federation, model, training = settings.make_federation(seed=seed), settings.model, settings.training
    log = logging_to(mlflow)
    with kept(store, out, checkpoint_seconds) as runs:
        try:
            if live or on == "flower":  # with a progress bar of its own, before the view begins
                solo = runs.train_solo(federation, model, training, stop=settings.run.solo, seed=seed)
            if on == "flower":
                from lossgap.flower import simulate

                result = simulate(federation, model, method, training, solo=solo, seed=seed)
            else:
                with watched(live, str(method), federation.names, training.rounds) as view:
                    result = runs.train(federation, model, method, training, solo=settings.run.solo, seed=seed, **view)
        except Stopped as stopped:
            (result,) = stopped.so_far()
            _write(result, folder_of(out, method, seed))
            raise
        _write(result, folder_of(out, method, seed))
    log(result)


def _write(result: "Result", folder: Path) -> None:
    click.echo(str(result))
    click.echo(f"\nWritten to {result.save(folder)}.")
