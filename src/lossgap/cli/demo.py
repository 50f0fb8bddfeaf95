"""`lossgap demo`: what the paper is about, in a few seconds."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the data, the initialisation and the split.",
)
@click.option("--methods", type=click.Choice(["four", "all"]), default="four", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("lossgap-demo"), show_default=True
)
def command(seed: int, methods: str, out: Path) -> None:
    """The paper's three synthetic clients under four methods, or all: who gains, who loses."""
    import lossgap as lg
    from lossgap.cli.output import check_folders, show_comparison, write_report

    click.echo("Three clients, two classes: easy for client 0, hard for client 1, nearly hopeless for client 2.")
    click.echo("A gap is the loss of the shared model minus the best loss that the client reaches alone.\n")
    chosen = [lg.FedAvg(), lg.QFFL(q=5.0), lg.AFL(), lg.Eagle(gap_penalty=2.0)]
    if methods == "all":
        chosen += [lg.Term(), lg.Gifair(), lg.Udj(power=2.0), lg.MaxFL(), lg.PropFair(), lg.FedProx(), lg.FedNova()]
        chosen += [lg.FedMGDA(), lg.FedFV(), lg.FedDGGA(), lg.Focus(), lg.Ditto()]
    check_folders(out, chosen, [seed])
    training = lg.Training(rounds=2000, step_size=0.5)
    comparison = lg.compare(lg.datasets.synthetic, lg.models.linear(), chosen, training, seeds=(seed,))
    show_comparison(comparison, out)
    write_report(lg.report(comparison), out.with_name(f"{out.name}.html"))
