"""`lossgap audit`: the page and a verdict for a model from any framework."""

from pathlib import Path

import click

from lossgap.cli.output import drawing_options


@click.command()
@click.argument("losses", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page; by default LOSSES-audit.html.")
@click.option("--solo-error", type=float, default=0.05, show_default=True, help="How far off solo losses may be.")
@click.option("--split", help="Which split to look at; by default the only one, or test, or validation.")
@click.option("--unit", default="", help="Of the losses, such as nats.")
@click.option("--title", default="", help="Of the page.")
@drawing_options
def command(
    losses: Path,
    out: Path | None,
    solo_error: float,
    split: str | None,
    unit: str,
    title: str,
    svg: bool,
    png: bool,
    tables: bool,
) -> None:
    """Who gains and who loses by a model from any framework.

    LOSSES is a csv file with the columns client, loss, solo_loss, and if you like accuracy, rows, method, split. Writes
    a page and, beside it, the verdict as JSON.
    """
    from lossgap.auditing import audit
    from lossgap.cli.output import write_report

    found = audit(losses, solo_error=solo_error, split=split, unit=unit, title=title)
    click.echo(f"{found}\n")
    out = out or Path(f"{losses.stem}-audit.html")
    write_report(found.report, out, svg=svg, png=png, tables=tables)
    click.echo(f"Verdict: {found.save_verdict(out.with_suffix('.json'))}")
