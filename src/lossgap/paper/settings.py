"""Each experiment's settings, and what the paper leaves open.

"paper" is the paper's protocol: 10,000 full-batch epochs, four seeds, ten clients. It has two reductions: "reduced" is
what two cores finish in an evening, "quick" ends in minutes. The linear model keeps full batches, but takes ten times
the step and a tenth of the rounds ("quick": a twentieth), which follow nearly the same path. The network takes a few
hundred steps on minibatches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from lossgap import datasets, models
from lossgap.algorithms import AFL, QFFL, Algorithm, Eagle, FedAvg
from lossgap.federation import Federation
from lossgap.models import Model
from lossgap.paper.claims import EAGLE
from lossgap.training import Training

Preset = Literal["quick", "reduced", "paper"]
PRESETS: tuple[Preset, ...] = ("quick", "reduced", "paper")

SEEDS = (0, 42, 100, 200)
"""Of initialisation and splits, as in the paper."""

EMNIST_PENALTIES = (0.1, 1.0, 2.0, 3.0, 5.0)
DIRTY_PENALTIES = (0.1, 0.3, 0.5, 0.7, 1.0, 3.0, 5.0)
POWERS = (1.0, 3.0, 5.0)
"""λ and q of the tables' rows."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A setting that the paper leaves open, and ours."""

    what: str
    paper: str
    ours: str


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods on the same clients, over several seeds."""

    name: str
    make_federation: Callable[..., Federation]  # called with seed=…
    model: Model
    methods: Mapping[str, Algorithm]  # by the label of their row
    training: Training
    solo_training: Training
    seeds: tuple[int, ...] = SEEDS
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the protocol a preset does."""

    rows: int
    training: Training
    solo_training: Training
    mixture_step: float
    seeds: tuple[int, ...] = SEEDS


LINEAR: Mapping[Preset, Scale] = {
    "quick": Scale(
        rows=6_000,
        training=Training(rounds=500, step_size=1.0, record_every=100),
        solo_training=Training(rounds=2_000, step_size=1.0),
        mixture_step=0.01,
    ),
    "reduced": Scale(
        rows=40_000,
        training=Training(rounds=1_000, step_size=1.0, record_every=100),
        solo_training=Training(rounds=3_000, step_size=1.0),
        mixture_step=0.01,
    ),
    "paper": Scale(
        rows=40_000,
        training=Training(rounds=10_000, step_size=0.1, record_every=1_000),
        solo_training=Training(rounds=10_000, step_size=1.0),
        mixture_step=0.001,
    ),
}
"""The published accuracy of 0.693 for even data wants many rows: 40,000 come within 0.006. The published gaps, −2.57 to
−2.08, would want clients alone to take steps of 4 and more, at which their loss swings and the rule stops them in the
middle of it. That is no best loss, so that a step of 1 is taken here, and gaps are smaller: see docs/reproduction."""

MINIBATCH = Training(batch_size=32, step_size=0.2)
"""A round of the network's reductions. It is a single step, as in the protocol: where a multiplier is negative, several
steps lead far up a loss that has no upper bound, before the multiplier is worked out anew."""

FULL_BATCH = Training(rounds=10_000, step_size=0.1, record_every=100)

CNN: Mapping[Preset, Scale] = {
    "quick": Scale(
        rows=2_000,
        training=replace(MINIBATCH, rounds=100, record_every=10),
        solo_training=replace(MINIBATCH, rounds=30),
        mixture_step=0.01,
        seeds=SEEDS[:1],
    ),
    "reduced": Scale(
        rows=6_000,
        training=replace(MINIBATCH, rounds=300, record_every=10),
        solo_training=replace(MINIBATCH, rounds=60),
        mixture_step=0.01,
    ),
    "paper": Scale(rows=20_000, training=FULL_BATCH, solo_training=FULL_BATCH, mixture_step=0.001),
}

DIRTY: Mapping[Preset, Scale] = {
    "quick": replace(CNN["quick"], rows=1_000),
    "reduced": replace(CNN["reduced"], rows=8_000),
    "paper": replace(CNN["paper"], rows=8_000),
}

AMBIGUOUS = Choice(
    what="ambiguous images",
    paper="those of DirtyMNIST",
    ours="as published where they are here, otherwise built from MNIST by the published recipe; all copies of an image "
    "belong to one split of one client",
)
SPLIT = Choice(what="split of each client's rows", paper="not stated", ours="60 % training, 20 % validation, 20 % test")
ONE_STEP = Choice(what="local steps per round", paper="not stated", ours="one full-batch step: a round is an epoch")
ONE_BATCH = Choice(
    what="local steps per round",
    paper="full-batch gradients; steps per round not stated",
    ours="one step on a minibatch of 32 rows of each client, a reduction; losses and gaps are still those of all rows",
)
NETWORK = Choice(
    what="the CNN",
    paper="not stated",
    ours="two 3×3 convolutions (32 and 64 channels), each with ReLU and 2×2 max pooling, then a hidden layer of 128",
)
NORM = Choice(
    what="step size of EAGLE",
    paper="tuned for each algorithm; multipliers have norm 1",
    ours='that of FedAvg, with multipliers of norm √K (normalize="sqrt-k"): the same as norm 1 with a step √K times as '
    "large, and equal to FedAvg at λ = 0",
)


def linear(alpha: float, preset: Preset) -> Experiment:
    """The linear model on EMNIST, divided with Dirichlet(α)."""
    return _on_emnist(f"linear-{alpha:g}", alpha, models.linear(), LINEAR[preset])


def cnn(alpha: float, preset: Preset) -> Experiment:
    """The network on EMNIST, divided with Dirichlet(α)."""
    return _on_emnist(f"cnn-{alpha:g}", alpha, models.cnn(), CNN[preset], NETWORK)


def dirty_mnist(preset: Preset) -> Experiment:
    """The network on DirtyMNIST: five clients, from no ambiguous image to nothing else."""
    scale = DIRTY[preset]
    rows = Choice(what="rows", paper="8,000 in all", ours=f"{scale.rows:,} in all, as many for each client")
    federation = partial(datasets.dirty_mnist, clients=5, rows=scale.rows)
    return _of_table("dirty-mnist", federation, models.cnn(), scale, DIRTY_PENALTIES, rows, AMBIGUOUS, NETWORK)


def synthetic(preset: Preset) -> Experiment:
    """The linear model on the three synthetic clients."""
    training = Training(rounds=1_000 if preset == "quick" else 10_000, step_size=0.5, gap_split="train")
    scale = Scale(rows=100, training=training, solo_training=training, mixture_step=0.1)
    return Experiment(
        name="synthetic",
        make_federation=datasets.synthetic,
        model=models.linear(),
        methods=_few(scale),
        training=training,
        solo_training=training,
        seeds=SEEDS[:1] if preset == "quick" else SEEDS,
        choices=(
            Choice(
                what="who is rotated by 45°",
                paper="client 2 in the text; by the caption of its appendix, clients 1 and 2 share a separator",
                ours="client 2",
            ),
            Choice(
                what="rows that gaps are measured on",
                paper="a validation split of 100 rows per client; how many is not stated",
                ours="training rows (60 of 100): 20 validation rows are too few to tell methods apart",
            ),
            SPLIT,
            ONE_STEP,
            *_steps(scale),
            NORM,
            _mixture(scale.mixture_step),
        ),
    )


def two_clients(preset: Preset) -> Experiment:
    """The linear model on two clients, as in the paper's first figure."""
    base = synthetic(preset)
    made_up = Choice(
        what="the two clients' data",
        paper="not stated",
        ours="200 rows each; client 0 has well separated classes, client 1 a harder task along another direction with "
        "one label in five wrong",
    )
    kept = tuple(c for c in base.choices if c.what != "who is rotated by 45°")
    return replace(base, name="two-clients", make_federation=datasets.two_clients, choices=(made_up, *kept))


def methods(penalties: tuple[float, ...], *, mixture_step: float) -> dict[str, Algorithm]:
    """The rows of a table."""
    return {
        "AFL": AFL(mixture_step=mixture_step),
        "FedAvg": FedAvg(),
        **{f"q-FFL q={q:g}": QFFL(q=q) for q in POWERS},
        **{f"{EAGLE}{penalty:g}": Eagle(gap_penalty=penalty, normalize="sqrt-k") for penalty in penalties},
    }


def several(seeds: Sequence[int]) -> str:
    return "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"


def _on_emnist(name: str, alpha: float, model: Model, scale: Scale, *choices: Choice) -> Experiment:
    federation = partial(datasets.emnist, clients=10, alpha=alpha, rows=scale.rows, parts=("test",))
    return _of_table(name, federation, model, scale, EMNIST_PENALTIES, _rows(scale.rows), *choices)


def _of_table(
    name: str,
    make_federation: Callable[..., Federation],
    model: Model,
    scale: Scale,
    penalties: tuple[float, ...],
    *choices: Choice,
) -> Experiment:
    work = ONE_STEP if scale.training.batch_size is None else ONE_BATCH
    return Experiment(
        name=name,
        make_federation=make_federation,
        model=model,
        methods=methods(penalties, mixture_step=scale.mixture_step),
        training=scale.training,
        solo_training=scale.solo_training,
        seeds=scale.seeds,
        choices=(*choices, SPLIT, work, *_steps(scale), NORM, _mixture(scale.mixture_step)),
    )


def _few(scale: Scale) -> dict[str, Algorithm]:
    """The methods of the synthetic figures."""
    rows = methods((2.0,), mixture_step=scale.mixture_step)
    return {label: rows[label] for label in ("FedAvg", "q-FFL q=5", "AFL", f"{EAGLE}2")}


def _rows(rows: int) -> Choice:
    return Choice(
        what="rows of EMNIST",
        paper="not stated",
        ours=f"{rows:,} of ByClass, drawn anew for each seed from the publisher's test images; pixels in [0, 1]",
    )


def _steps(scale: Scale) -> tuple[Choice, Choice]:
    shared, solo = scale.training, scale.solo_training
    return (
        Choice(what="step size", paper="tuned for each algorithm", ours=f"{shared.step:g} for all"),
        Choice(
            what="solo models",
            paper="until the training loss is flat; step size not stated",
            ours="until it falls by less than 0.0001 in 50 epochs, "
            f"at most {solo.rounds:,} epochs of step {solo.step:g}",
        ),
    )


def _mixture(step: float) -> Choice:
    return Choice(what="step size of AFL's mixture", paper="not stated", ours=f"{step:g}")
