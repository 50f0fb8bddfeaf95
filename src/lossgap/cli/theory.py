"""`lossgap theory`: what the convergence theorems say of a run, and what is measured."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossgap.algorithms import Algorithm


@click.command()
@click.argument("run", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also sweep I, λ and T, and draw measured against bound into this folder.",
)
@click.option("--rounds", type=click.IntRange(1), default=500, show_default=True, help="Rounds of each run to measure.")
def command(run: Path, figures: Path | None, rounds: int) -> None:
    """Constants of a problem, the safe step size, and both theorems against what is measured.

    CONFIG is a TOML file as for `lossgap train`; every EAGLE in it is looked at, in the form that the proofs cover:
    current gaps on training rows, no normalisation, multipliers fixed within a round.
    """
    from lossgap import config as configs
    from lossgap.errors import require
    from lossgap.theory import Problem
    from lossgap.theory.report import draw, story

    require(
        not run.is_dir(),
        f"{run} is a folder: a saved result holds no rows to measure gradients on.",
        "Give the TOML file that it was trained from.",
    )
    settings = configs.read(run)
    penalties = _penalties(settings.methods)
    require(
        settings.training.local_epochs is None,
        "theory: the theorems want as many local steps of every client, and local_epochs gives each its own number.",
        "Use local_steps.",
    )
    seed = settings.run.seeds[0]
    problem = Problem.of(settings.make_federation(seed=seed), settings.model, seed=seed)
    for paragraph in story(problem, penalties, settings.training, rounds=rounds):
        click.echo(paragraph)
    if figures is not None:
        for path in draw(problem, penalties[0], settings.training, figures):
            click.echo(f"Drawn: {path}")


def _penalties(methods: "Sequence[Algorithm]") -> "Sequence[float]":
    from lossgap.errors import require
    from lossgap.theory.start import penalty_of

    penalties = sorted({penalty_of(method) for method in methods} - {0.0})
    require(
        penalties, "theory: the file names no Eagle with a gap_penalty.", 'Add [[methods]] with name = "Eagle" to it.'
    )
    return penalties
