"""`lossgap report`: the page on saved runs."""

from pathlib import Path

import click

from lossgap.cli.output import drawing_options
from lossgap.cli.tune import RULES


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("lossgap-report.html"),
    show_default=True,
    help="Where to write the page.",
)
@click.option("--title", default="", help="Of the page.")
@click.option(
    "--rule", type=click.Choice(list(RULES)), default="worst-gap", show_default=True, help="How to recommend a λ."
)
@drawing_options
def command(runs: tuple[Path, ...], out: Path, title: str, rule: str, svg: bool, png: bool, tables: bool) -> None:
    """Write one HTML page on saved runs: who gains, who loses, how even the gains are.

    RUN is a folder that holds saved results, as train, compare and tune write them, or a store's folder; several must
    be about the same clients.
    """
    from lossgap import tuning
    from lossgap.cli.output import write_report
    from lossgap.reporting import report
    from lossgap.reporting.words import takeaways

    made = report(list(runs), title=title, rule=RULES[rule](tuning))
    for sentence in takeaways(made.evidence):
        click.echo(sentence)
    write_report(made, out, svg=svg, png=png, tables=tables)
