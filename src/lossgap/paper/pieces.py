"""Every table and figure of the paper by name: which experiments it needs, and what is made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lossgap.charts import Figure
from lossgap.errors import require
from lossgap.paper import claims, figures, settings
from lossgap.paper.claims import Claim
from lossgap.paper.published import TABLES
from lossgap.paper.run import Outcome
from lossgap.paper.settings import Experiment, Preset, several
from lossgap.paper.statistics import differences_table, seeds_table
from lossgap.paper.tables import beside_published, numbers, spreads_of
from lossgap.table import Table

BASELINE = "FedAvg"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of the output."""

    name: str
    title: str
    table: Table
    values: Table | None = None  # the same as numbers, where the table itself holds text
    on_page: bool = True  # otherwise it is written as csv only


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is made of a piece's outcomes."""

    sheets: tuple[Sheet, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    published_claims: tuple[Claim, ...] = ()  # the same claims against the paper's own numbers


Experiments = Callable[[Preset], tuple[Experiment, ...]]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A table or figure of the paper."""

    name: str
    title: str
    experiments: Experiments
    made: Callable[[Sequence[Outcome]], Parts]


def _table(name: str, experiment: Callable[[Preset], Experiment], title: str) -> Piece:
    judged = claims.of_table(name)

    def made(outcomes: Sequence[Outcome]) -> Parts:
        (outcome,), published = outcomes, TABLES[name]
        _check_rows(outcome)
        summaries, seeds = outcome.summaries, outcome.experiment.seeds
        ours = spreads_of(summaries)
        return Parts(
            sheets=(
                Sheet(
                    name="table",
                    title=f"Mean ± standard deviation over {several(seeds)}, beside the published table",
                    table=beside_published(ours, published),
                    values=numbers(ours, published),
                ),
                Sheet(
                    name="differences",
                    title=f"Paired differences to {BASELINE}, mean [95 % t interval], n = {len(seeds)}",
                    table=differences_table(summaries, against=BASELINE),
                ),
                Sheet(name="seeds", title="Every seed", table=seeds_table(summaries, seeds), on_page=False),
                Sheet(name="clients", title="Every client", table=outcome.clients(), on_page=False),
            ),
            figures={"gaps": figures.gaps(outcome)},
            claims=tuple(claim(ours) for claim in judged),
            published_claims=tuple(claim(published.spreads) for claim in judged),
        )

    return Piece(name=name, title=title, experiments=lambda preset: (experiment(preset),), made=made)


def _check_rows(outcome: Outcome) -> None:
    compared = BASELINE in outcome.results and any(claims.penalty_of(label) is not None for label in outcome.results)
    require(
        compared,
        f"{outcome.experiment.name}: {', '.join(outcome.diverged)} diverged, so that EAGLE cannot be compared.",
        "Take a smaller step size.",
    )


def _two_clients(outcomes: Sequence[Outcome]) -> Parts:
    (outcome,) = outcomes
    return Parts(
        sheets=(_clients(outcome),),
        figures={"figure": figures.two_clients(outcome)},
        claims=(claims.loss_parity_harms_the_easy_client(outcome.gaps, ("AFL",), "EAGLE λ=2"),),
    )


def _synthetic_gaps(outcomes: Sequence[Outcome]) -> Parts:
    (outcome,) = outcomes
    return Parts(
        sheets=(_clients(outcome),),
        figures={"figure": figures.losses_and_gaps(outcome)},
        claims=(
            claims.loss_parity_harms_the_easy_client(outcome.gaps, ("q-FFL q=5", "AFL"), "EAGLE λ=2"),
            claims.eagle_varies_least(outcome.gaps, "EAGLE λ=2"),
        ),
    )


def _synthetic_losses(outcomes: Sequence[Outcome]) -> Parts:
    (outcome,) = outcomes
    losses = {label: [[c.train_loss for c in r.clients] for r in each] for label, each in outcome.results.items()}
    return Parts(
        figures={"figure": figures.training_losses(outcome)},
        claims=tuple(claims.easy_loss_raised(losses, label, BASELINE) for label in ("q-FFL q=5", "AFL")),
    )


def _gaps(outcomes: Sequence[Outcome]) -> Parts:
    """The box plot, and what the paper reads in it."""
    (outcome,) = outcomes
    ours, judged = spreads_of(outcome.summaries), (claims.smallest_worst_gap, claims.smallest_variance)
    return Parts(
        sheets=(_clients(outcome),),
        figures={"figure": figures.gaps(outcome)},
        claims=tuple(claim(ours) for claim in judged),
        published_claims=tuple(claim(TABLES[outcome.experiment.name].spreads) for claim in judged),
    )


def _best_losses(outcomes: Sequence[Outcome]) -> Parts:
    uneven, even = outcomes
    rows = [
        (outcome.experiment.name, seed, float(losses.min()), float(losses.max()))
        for outcome in outcomes
        for seed, losses in zip(outcome.experiment.seeds, outcome.best_losses, strict=True)
    ]
    table = Table(("clients", "seed", "smallest L_k*", "largest L_k*"), tuple(rows))
    return Parts(
        sheets=(Sheet(name="table", title="Best local losses", table=table),),
        figures={"figure": figures.best_losses({outcome.experiment.name: outcome for outcome in outcomes})},
        claims=(claims.losses_differ_more(uneven.best_losses, even.best_losses),),
    )


def _clients(outcome: Outcome) -> Sheet:
    return Sheet(name="clients", title="Every client", table=outcome.clients(), on_page=False)


def _alone(alpha: float, preset: Preset) -> Experiment:
    """Solo models only."""
    return replace(settings.linear(alpha, preset), name=f"α = {alpha:g}", methods={})


ALPHAS = (0.1, 0.5, 1.0, 2000.0)

ALL: tuple[Piece, ...] = (
    Piece(
        name="two-clients",
        title="Figure 1: two clients under equal losses and under equal gaps",
        experiments=lambda preset: (settings.two_clients(preset),),
        made=_two_clients,
    ),
    Piece(
        name="synthetic-data",
        title="Figure 5 (appendix): the three synthetic clients",
        experiments=lambda preset: (replace(settings.synthetic(preset), methods={}),),
        made=lambda outcomes: Parts(figures={"figure": figures.data(outcomes[0])}),
    ),
    Piece(
        name="synthetic-gaps",
        title="Figure 3: losses and gaps of the three synthetic clients",
        experiments=lambda preset: (settings.synthetic(preset),),
        made=_synthetic_gaps,
    ),
    Piece(
        name="synthetic-losses",
        title="Figure 6 (appendix): training losses of the three synthetic clients",
        experiments=lambda preset: (settings.synthetic(preset),),
        made=_synthetic_losses,
    ),
    Piece(
        name="best-losses",
        title="Figure 2: the best local losses for uneven and even data, linear model",
        experiments=lambda preset: (_alone(0.1, preset), _alone(2000.0, preset)),
        made=_best_losses,
    ),
    *(
        _table(
            f"linear-{alpha:g}",
            partial(settings.linear, alpha),
            f"{'Table 1' if alpha == 0.1 else 'Appendix'}: linear model on EMNIST, α = {alpha:g}",
        )
        for alpha in ALPHAS
    ),
    *(
        _table(f"cnn-{alpha:g}", partial(settings.cnn, alpha), f"Appendix: CNN on EMNIST, α = {alpha:g}")
        for alpha in ALPHAS
    ),
    Piece(
        name="cnn-gaps",
        title="Figure 4: the gaps of all clients, CNN on EMNIST, α = 0.5",
        experiments=lambda preset: (settings.cnn(0.5, preset),),
        made=_gaps,
    ),
    _table("dirty-mnist", settings.dirty_mnist, "Table 2: CNN on DirtyMNIST"),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "synthetic": ("two-clients", "synthetic-data", "synthetic-gaps", "synthetic-losses"),
    "linear": tuple(f"linear-{alpha:g}" for alpha in ALPHAS),
    "cnn": (*(f"cnn-{alpha:g}" for alpha in ALPHAS), "cnn-gaps"),
    "all": tuple(piece.name for piece in ALL),
}


def named(name: str) -> tuple[Piece, ...]:
    """A piece, or all of a group."""
    by_name = {piece.name: piece for piece in ALL}
    require(
        name in by_name or name in GROUPS,
        f"reproduce: there is no {name!r}.",
        f"Use one of {', '.join([*by_name, *GROUPS])}.",
    )
    return tuple(by_name[each] for each in GROUPS.get(name, (name,)))


def contents() -> Table:
    """What there is to rebuild."""
    pieces = [(piece.name, piece.title) for piece in ALL]
    groups = [(name, f"all of {', '.join(members)}") for name, members in GROUPS.items() if name != "all"]
    return Table(("name", "what it is"), (*pieces, *groups, ("all", "everything")))
