"""`lossgap data`: data sets that are published elsewhere, or built from those."""

import click


@click.group()
def command() -> None:
    """Get published data sets, and look whether they are whole."""


@command.command(name="list")
def list_() -> None:
    """What can be fetched, and what is there."""
    from lossgap.datasets.catalogue import CATALOGUE
    from lossgap.datasets.fetch import there
    from lossgap.table import Table

    rows = [
        (
            published.name,
            published.about,
            f"{len(there(published))} of {len(published.files)}",
            _amount(published.size),
            published.licence,
        )
        for published in CATALOGUE
    ]
    click.echo(str(Table(("name", "what", "files here", "download", "licence"), tuple(rows))))


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Download data sets. Run it again after an interruption: it goes on from there."""
    from lossgap.datasets import fetch as fetching

    for published in [fetching.named(name) for name in names]:
        arrived = fetching.fetch(published)
        for path in arrived:
            click.echo(f"fetched {path}")
        if not arrived:
            click.echo(f"{published.name}: all is there already.")


@command.command()
@click.argument("name", type=click.Choice(["ambiguous-mnist"]))
@click.option("--seed", default=0, show_default=True, help="Of everything that is drawn.")
def build(name: str, seed: int) -> None:
    """Make a data set from another one: Ambiguous-MNIST from MNIST, by the published recipe.

    It takes about half an hour on two cores. Run it again after an interruption: it goes on from there.
    """
    from lossgap.datasets.ambiguous import place
    from lossgap.datasets.ambiguous.build import build as built
    from lossgap.datasets.ambiguous.built import read
    from lossgap.datasets.ambiguous.recipe import Recipe
    from lossgap.engine.cache import keep_programs
    from lossgap.errors import SettingError

    keep_programs()
    folder = place.found()
    if folder is None:
        folder = place.room()
        click.echo(f"{built(folder, Recipe(seed=seed), say=click.echo).table()}\n\nbuilt {folder}")
        return
    found = read(folder)
    if found.recipe["seed"] != seed:
        raise SettingError(f"{folder} was built with seed {found.recipe['seed']}. Delete it to build another one.")
    click.echo(f"{found.figures.table()}\n\n{name}: all is there already, in {folder}.")


@command.command()
@click.argument("names", metavar="[NAME...]", nargs=-1)
def verify(names: tuple[str, ...]) -> None:
    """Compare files with the published checksums; by default all that are there."""
    from lossgap.datasets import fetch as fetching
    from lossgap.datasets.catalogue import CATALOGUE
    from lossgap.errors import FileError

    chosen = [fetching.named(name) for name in names] or [each for each in CATALOGUE if fetching.there(each)]
    if not chosen:
        click.echo("No data set is here. `lossgap data fetch NAME` gets one, `lossgap data list` names them.")
    findings = [finding for published in chosen for finding in fetching.verify(published)]
    findings = [finding for finding in findings if names or finding.state != "missing"]
    for finding in findings:
        click.secho(f"{finding.state:14}  {finding.path}", fg="red" if finding.state in fetching.BAD else None)
    bad = sum(finding.state in fetching.BAD for finding in findings)
    if bad:
        raise FileError(f"{bad} of these files are not what was published. `lossgap data fetch NAME` gets them anew.")


@command.command()
@click.argument("name", required=False)
def where(name: str | None) -> None:
    """The folder of all data sets, or of one. LOSSGAP_DATA moves it."""
    from lossgap.datasets import fetch as fetching
    from lossgap.datasets import home

    click.echo(str(home.folder() / fetching.named(name).name if name else home.folder()))


def _amount(size: int | None) -> str:
    if size is None:
        return "unknown"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
