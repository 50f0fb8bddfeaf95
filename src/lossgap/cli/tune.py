"""`lossgap tune`: which λ suits these clients."""

from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossgap.cli.keeping import kept, store_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossgap.algorithms import Algorithm, Eagle

RULES: dict[str, Any] = {
    "worst-gap": attrgetter("lowest_worst_gap"),
    "knee": attrgetter("knee"),
    "accuracy": attrgetter("accurate"),
}
"""Where `lossgap.tuning`, which loads JAX and so comes late, keeps each rule."""


class Penalties(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them."""

    name = "λ,λ,…"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> tuple[float, ...]:
        try:
            return tuple(float(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of numbers such as 0.1,0.3,1,3", param, context)


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--penalties", type=Penalties(), help="Values of λ, such as 0.1,1,5; by default the paper's.")
@click.option("--rule", type=click.Choice(list(RULES)), default="worst-gap", show_default=True, help="How to choose.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the results; by default as the file says.")
@store_options
def command(
    config: Path,
    penalties: tuple[float, ...] | None,
    rule: str,
    out: Path | None,
    store: Path | None,
    checkpoint_seconds: float,
) -> None:
    """Train EAGLE with many λ in one pass on the clients of a TOML file, and recommend one.

    The file's [[methods]] may hold one Eagle, whose other settings are used.
    """
    from lossgap import config as configs
    from lossgap import tuning
    from lossgap.cli.output import check_folders, folder_of

    settings = configs.read(config)
    eagle, out = _eagle(settings.methods), out or Path(settings.run.out)
    path = tuning.settings_of(eagle, penalties or tuning.PENALTIES)
    check_folders(out, path, settings.run.seeds)
    with kept(store, out, checkpoint_seconds) as runs:
        compare = partial(
            runs.compare,
            settings.make_federation,
            settings.model,
            training=settings.training,
            seeds=settings.run.seeds,
            stop=settings.run.solo,
        )
        compared = compare(path, skip_diverged=True)
        if str(path[0]) not in compared.results:
            compare(path[:1])  # says how FedAvg diverged, with which the others would be compared
        lost = [float(each.gap_penalty or 0) for each in path if str(each) not in compared.results]
        found = tuning.of_results(list(compared.results.values()), rule=RULES[rule](tuning), diverged=lost)
        click.echo(str(found))
        if len(settings.run.seeds) > 1:
            click.echo(f"Means over seeds {', '.join(map(str, settings.run.seeds))}.")
        for results in found.results:
            for result in results:
                result.save(folder_of(out, result.algorithm, result.seed))
    click.echo(f"\nWritten to {out}: one folder per λ and seed, `lossgap show FOLDER` prints it.")


def _eagle(methods: "Sequence[Algorithm]") -> "Eagle":
    """The one EAGLE of a file, or the paper's."""
    from lossgap.algorithms import Eagle
    from lossgap.errors import require

    found = [method for method in methods if isinstance(method, Eagle)]
    require(
        len(found) <= 1, f"tune: the file holds {len(found)} Eagles.", "Keep one: its λ is replaced, the rest is used."
    )
    return found[0] if found else Eagle(gap_penalty=0.0)
