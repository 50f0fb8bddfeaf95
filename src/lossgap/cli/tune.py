"""`lossgap tune`: which λ suits these clients."""

from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
def command(config: Path, penalties: tuple[float, ...] | None, rule: str, out: Path | None) -> None:
    """Train EAGLE with many λ in one pass on the clients of a TOML file, and recommend one.

    The file's [[methods]] may hold one Eagle, whose other settings are used.
    """
    from lossgap import config as configs
    from lossgap import tuning
    from lossgap.cli.output import check_folders, folder_of
    from lossgap.solo import train_solo

    settings = configs.read(config)
    eagle, out = _eagle(settings.methods), out or Path(settings.run.out)
    path = tuning.settings_of(eagle, penalties or tuning.PENALTIES)
    check_folders(out, path, settings.run.seeds)
    by_seed, diverged = [], set[float]()
    for seed in settings.run.seeds:
        federation = settings.make_federation(seed=seed)
        solo = train_solo(federation, settings.model, settings.training, stop=settings.run.solo, seed=seed)
        one = tuning.frontier(
            federation,
            settings.model,
            settings.training,
            penalties=penalties or tuning.PENALTIES,
            eagle=eagle,
            seeds=(seed,),
            solo=solo,
        )
        by_seed.append({point.penalty: results[0] for point, results in zip(one.points, one.results, strict=True)})
        diverged |= set(one.diverged)
    whole = [penalty for penalty in by_seed[0] if penalty not in diverged]
    results = [[of_seed[penalty] for of_seed in by_seed] for penalty in whole]
    found = tuning.of_results(results, rule=RULES[rule](tuning), diverged=tuple(diverged))
    click.echo(str(found))
    if len(by_seed) > 1:
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
