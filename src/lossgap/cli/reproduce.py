"""`lossgap reproduce`: the paper's tables and figures."""

from pathlib import Path

import click


@click.command()
@click.argument("name", required=False)
@click.option(
    "--preset",
    type=click.Choice(["quick", "reduced", "paper"]),
    default="quick",
    show_default=True,
    help="The paper's protocol, what two cores finish of it in an evening, or a reduction that ends in minutes.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("lossgap-reproduction"), show_default=True
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where runs are kept, so that what was cut off goes on; by default in your cache folder.",
)
def command(name: str | None, preset: str, out: Path, store: Path | None) -> None:
    """Rebuild a table or figure of the paper, or a group of them; without NAME, list them.

    Each gets a folder with our table beside the published one, figures, and the paper's claims checked one by one.
    """
    from lossgap.datasets.home import user_cache
    from lossgap.paper import pages, pieces
    from lossgap.paper.run import check_data, run
    from lossgap.paper.settings import PRESETS
    from lossgap.store import Store

    if name is None:
        click.echo(pieces.contents())
        return
    runs = Store(store or user_cache() / "reproduce")
    chosen = next(each for each in PRESETS if each == preset)
    wanted = [(piece, piece.experiments(chosen)) for piece in pieces.named(name)]
    check_data([experiment for _, experiments in wanted for experiment in experiments])
    for piece, experiments in wanted:
        outcomes = [run(experiment, runs, tell=click.echo) for experiment in experiments]
        parts = piece.made(outcomes)
        pages.write(piece, parts, outcomes, chosen, out / piece.name)
        click.echo(f"\n{pages.as_text(piece, parts, outcomes, chosen)}\n\nWritten to {out / piece.name}.\n")
