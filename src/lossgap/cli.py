"""The command line. Modules are imported inside the commands, so that `--help` answers at once."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossgap import __version__
from lossgap.errors import LossgapError

if TYPE_CHECKING:
    from lossgap.comparison import Comparison
    from lossgap.result import Result


class Program(click.Group):
    """Turns lossgap's errors into one line on standard error."""

    def invoke(self, context: click.Context) -> Any:
        warnings.showwarning = lambda message, *_, **__: click.secho(f"warning: {message}", fg="yellow", err=True)
        try:
            return super().invoke(context)
        except LossgapError as problem:
            click.secho(f"error: {problem}", fg="red", err=True)
            sys.exit(1)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lossgap")
def main() -> None:
    """Train one model for several self-interested parties so that each gains about as much from joining."""


@main.command()
@click.option("--seed", default=0, show_default=True, help="Of the data, the initialisation and the split.")
@click.option("--methods", type=click.Choice(["four", "all"]), default="four", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("lossgap-demo"), show_default=True
)
def demo(seed: int, methods: str, out: Path) -> None:
    """The paper's three synthetic clients under four methods, or all: who gains, who loses."""
    import lossgap as lg

    click.echo("Three clients, two classes: easy for client 0, hard for client 1, nearly hopeless for client 2.")
    click.echo("A gap is the loss of the shared model minus the best loss that the client reaches alone.\n")
    chosen = [lg.FedAvg(), lg.QFFL(q=5.0), lg.AFL(), lg.Eagle(gap_penalty=2.0)]
    if methods == "all":
        chosen += [lg.Term(), lg.Gifair(), lg.Udj(power=2.0), lg.MaxFL(), lg.PropFair(), lg.FedProx(), lg.FedNova()]
        chosen += [lg.FedMGDA(), lg.FedFV(), lg.FedDGGA(), lg.Focus(), lg.Ditto()]
    training = lg.Training(rounds=2000, step_size=0.5)
    _show(lg.compare(lg.datasets.synthetic, lg.models.linear(), chosen, training, seeds=(seed,)), out)


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the result; by default as the file says.")
def train(config: Path, out: Path | None) -> None:
    """Train the one method of a TOML file, with its first seed."""
    from lossgap import config as configs
    from lossgap.errors import require
    from lossgap.experiment import train
    from lossgap.solo import train_solo

    settings = configs.read(config)
    require(
        len(settings.methods) == 1,
        f"{config} names {len(settings.methods)} methods.",
        "Keep one, or use `lossgap compare`.",
    )
    seed = settings.run.seeds[0]
    federation = settings.make_federation(seed=seed)
    solo = train_solo(federation, settings.model, settings.training, stop=settings.run.solo, seed=seed)
    result = train(federation, settings.model, settings.methods[0], settings.training, solo=solo, seed=seed)
    click.echo(str(result))
    click.echo(f"\nWritten to {result.save(_folder(out or Path(settings.run.out), result))}.")


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the results; by default as the file says.")
def compare(config: Path, out: Path | None) -> None:
    """Train every method of a TOML file on every seed, and compare."""
    from lossgap import config as configs
    from lossgap.comparison import compare

    settings = configs.read(config)
    comparison = compare(
        settings.make_federation,
        settings.model,
        settings.methods,
        settings.training,
        seeds=settings.run.seeds,
        stop=settings.run.solo,
    )
    _show(comparison, out or Path(settings.run.out))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def show(folder: Path) -> None:
    """Print a saved result."""
    from lossgap.store import load

    click.echo(str(load(folder)))


def _show(comparison: "Comparison", out: Path) -> None:
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
            result.save(_folder(out, result))
    click.echo(f"\nWritten to {out}: one folder per method and seed, `lossgap show FOLDER` prints it.")


def _folder(out: Path, result: "Result") -> Path:
    label = "".join(c if c.isalnum() or c in "-._" else "-" for c in str(result.algorithm)).strip("-")
    return out / f"{label}-seed-{result.seed}"
