"""`lossgap theory`: what the convergence theorems say of a run, and what is measured."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossgap.config import Config
    from lossgap.theory import Problem
    from lossgap.training import Training


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
    from lossgap import theory
    from lossgap.errors import require

    require(
        not run.is_dir(),
        f"{run} is a folder: a saved result holds no rows to measure gradients on.",
        "Give the TOML file that it was trained from.",
    )
    settings = configs.read(run)
    penalties = _penalties(settings)
    seed, training = settings.run.seeds[0], settings.training
    require(
        training.local_epochs is None,
        "theory: the theorems want as many local steps of every client, and local_epochs gives each its own number.",
        "Use local_steps.",
    )
    problem = theory.Problem.of(settings.make_federation(seed=seed), settings.model, seed=seed)
    _tell_constants(problem, settings, penalties)
    for penalty in penalties:
        given = None if training.step_size == "safe" else training.step
        for title, step in (("With the step size of the file", given), ("With the largest step that is covered", None)):
            if title.endswith("file") and step is None:
                continue
            found = theory.check(
                problem,
                penalty=penalty,
                rounds=rounds,
                local_steps=training.local_steps,
                batch_size=training.batch_size,
                step_size=step,
            )
            click.echo(f"\n{title}\n{found}")
    _tell_prices(problem, penalties)
    if figures is not None:
        _draw(problem, penalties, training, figures)


def _penalties(settings: "Config") -> "Sequence[float]":
    from lossgap.errors import require
    from lossgap.theory.start import penalty_of

    penalties = sorted({penalty_of(method) for method in settings.methods} - {0.0})
    require(
        penalties, "theory: the file names no Eagle with a gap_penalty.", 'Add [[methods]] with name = "Eagle" to it.'
    )
    return penalties


def _tell_constants(problem: "Problem", settings: "Config", penalties: "Sequence[float]") -> None:
    import numpy as np

    from lossgap import theory
    from lossgap.algorithms import Eagle
    from lossgap.models import linear
    from lossgap.table import Table
    from lossgap.theory.start import gradient_bounds

    bounded = problem.model is linear() and problem.federation.classes is not None
    B = gradient_bounds(problem.federation) if bounded else np.full(problem.clients, np.nan)
    rows = zip(problem.federation.names, problem.federation.rows().tolist(), problem.smoothness, B, strict=True)
    columns = ("client", "rows", "β", "B anywhere")
    click.echo(str(Table(columns, tuple((name, n, float(beta), float(b)) for name, n, beta, b in rows))))
    for penalty in penalties:
        eagle = Eagle(gap_penalty=penalty, normalize=None, lag=0)
        start, solo = problem.arrays.start, np.asarray(problem.arrays.solo_losses)
        step = theory.safe_step_size(problem.federation, problem.model, eagle, start, solo, _proofs(settings.training))
        click.echo(f'λ = {penalty:g}: step_size="safe" is {step:.3g}, known before the first step')


def _proofs(training: "Training") -> "Training":
    from dataclasses import replace

    return replace(training, gap_split="train", precision="float64")


def _tell_prices(problem: "Problem", penalties: "Sequence[float]") -> None:
    from lossgap.theory.study import price_table, prices

    found = prices(problem, penalties)
    click.echo(f"\nThe price of fairness\n{price_table({f'λ = {p.penalty:g}': p for p in found})}")


def _draw(problem: "Problem", penalties: "Sequence[float]", training: "Training", folder: Path) -> None:
    from lossgap.theory import figures, study

    folder.mkdir(parents=True, exist_ok=True)
    found = study.grid(problem, batch_size=training.batch_size)
    penalty = min(study.PENALTIES, key=lambda each: abs(each - penalties[0]))
    runs = [found[penalty, steps] for steps in study.LOCAL_STEPS[:2]]
    rate = study.rate(problem, penalty=penalties[0], local_steps=training.local_steps, batch_size=training.batch_size)
    swept = study.prices(problem)
    drawn = {
        "rounds": figures.over_rounds(runs),
        "looseness": figures.over_penalties(found),
        "rate": figures.over_horizons({f"λ = {penalties[0]:g}, I = {training.local_steps}": rate}),
        "price": figures.price_of_fairness(
            {"by λ": swept}, "λ", [p.penalty for p in swept], title="The price of fairness"
        ),
    }
    for name, figure in drawn.items():
        click.echo(f"Drawn: {figure.save(folder / f'{name}.svg')}")
