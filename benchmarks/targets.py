"""What lossgap's speed should be relative to: the machine's bare products, one setting, even clients, one local step.

    python benchmarks/targets.py [--only linear,path] [--repeats 5] [--out FOLDER]

Every figure is a ratio of two timings of one run on this machine, each the best of several and without what a run costs
before its first and after its last round. Needs lossgap, and for real images LOSSGAP_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import jax
import jax.numpy as jnp
import machine
import numpy as np
from workloads import EMNIST_CLASSES, SEED, deal, emnist

import lossgap as lg
from lossgap.engine.compiled import CompiledStepper, program, segment

ROWS = 8000
LINEAR = lg.models.linear()
PATH = [lg.Eagle(gap_penalty=penalty, normalize="sqrt-k") for penalty in np.linspace(0.1, 1.0, 10)]


@dataclass(frozen=True)
class Ratio:
    """One line of the table."""

    what: str
    value: float
    wanted: str
    met: bool
    from_: str  # the two timings


def main() -> None:
    options = arguments()
    ratios: list[Ratio] = []
    for name in options.only:
        for ratio in TARGETS[name](options.repeats):
            ratios.append(ratio)
            print(
                f"{'met ' if ratio.met else 'MISS'}  {ratio.what}: {ratio.value:.2f} ({ratio.wanted}); {ratio.from_}",
                flush=True,
            )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "targets.md").write_text(markdown(ratios))
    print(f"Written to {options.out / 'targets.md'}")


def linear(repeats: int) -> list[Ratio]:
    """A round against its bare products, through JAX, on all columns."""
    federation = images(clients=10, alpha=0.1)
    bare = bare_products(federation, repeats)
    fedavg = per_round(federation, lg.FedAvg(), repeats=repeats)
    eagle = per_round(federation, lg.Eagle(gap_penalty=1.0), repeats=repeats)
    return [
        at_least("rate of the bare products, FedAvg round, gaps recorded", bare / fedavg, 0.85, ms(bare, fedavg)),
        at_least("rate of the bare products, EAGLE round, gaps recorded", bare / eagle, 0.85, ms(bare, eagle)),
    ]


def path(repeats: int) -> list[Ratio]:
    """Ten values of λ in one pass against one of them."""
    federation = images(clients=10, alpha=0.1)
    one = per_round(federation, PATH[0], repeats=repeats)
    ten = marginal(
        lambda rounds: lg.train_many(
            federation, LINEAR, PATH, settings(rounds), solo=zeros(federation), progress=False
        ),
        rounds=20,
        repeats=repeats,
    )
    return [at_most("ten λ in one pass, times one λ", ten / one, 7.5, ms(ten, one))]


def skew(repeats: int) -> list[Ratio]:
    """The same rows, held unevenly and by many."""
    even = per_round(images(clients=10, alpha=2000.0), lg.Eagle(gap_penalty=1.0), repeats=repeats)
    uneven = per_round(images(clients=10, alpha=0.1), lg.Eagle(gap_penalty=1.0), repeats=repeats)
    many = per_round(images(clients=1000, alpha=None), lg.Eagle(gap_penalty=1.0), repeats=repeats)
    return [
        at_most("α = 0.1, times α = 2000", uneven / even, 1.25, ms(uneven, even)),
        at_most("1,000 clients, times 10 clients", many / even, 1.5, ms(many, even)),
    ]


def local(repeats: int) -> list[Ratio]:
    """Rows per second of several local steps and of minibatches against one full step."""
    federation = images(clients=10, alpha=0.1)
    one = per_round(federation, lg.FedAvg(), repeats=repeats)
    steps = per_round(federation, lg.FedAvg(), repeats=repeats, rounds=10, local_steps=5, record_every=1000) / 5
    epoch = per_round(
        federation, lg.FedAvg(), repeats=repeats, rounds=10, local_epochs=1, batch_size=32, record_every=1000
    )
    large = per_round(
        federation, lg.FedAvg(), repeats=repeats, rounds=10, local_epochs=1, batch_size=128, record_every=1000
    )
    return [
        at_least("rate of one full step, five full steps", one / steps, 0.6, ms(one, steps)),
        at_least("rate of one full step, batches of 32", one / epoch, 0.6, ms(one, epoch)),
        at_least("rate of one full step, batches of 128", one / large, 0.6, ms(one, large)),
    ]


def cnn(repeats: int) -> list[Ratio]:
    """The network's own floating point operations over time, against the rate of a large product."""
    rng = np.random.default_rng([SEED, 3])
    x, y = emnist(rng, rows=4000)
    splits = {
        f"client {k}": {"train": (a, b), "validation": (a[:9], b[:9]), "test": (a[:9], b[:9])}
        for k, (a, b) in enumerate(zip(np.split(x, 10), np.split(y, 10), strict=True))
    }
    federation = lg.Federation.from_splits(splits, classes=EMNIST_CLASSES)
    work = {"local_epochs": 1, "batch_size": 32, "step_size": 0.05, "record_every": 1000}
    seconds = per_round(federation, lg.FedAvg(), model=lg.models.cnn(), repeats=repeats, rounds=3, **work)
    rate, product = 4000 * NETWORK_FLOP / seconds, square_product(4096, repeats)
    figures = f"{4000 / seconds:,.0f} images/s, {rate / 1e9:.0f} of {product / 1e9:.0f} GFLOP/s"
    return [at_least("rate of a 4096³ product, convolutional network", rate / product, 0.65, figures)]


def compilation(repeats: int) -> list[Ratio]:
    """A second process on the same shapes, and the command line's help."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"LOSSGAP_CACHE": cache}
        code = (
            "import time, lossgap as lg; f = lg.datasets.digits(clients=5, alpha=0.3, seed=0); t = time.perf_counter();"
            "e = lg.Eagle(gap_penalty=1.0); lg.train(f, lg.models.mlp(), e, lg.Training(rounds=3), solo=[0] * 5);"
            "print(time.perf_counter() - t)"
        )
        run = lambda: float(subprocess.check_output([sys.executable, "-c", code], env=environment))  # noqa: E731
        first = run()
        programs = sum(1 for _ in Path(cache).rglob("*-cache"))
        second = run()
        added = sum(1 for _ in Path(cache).rglob("*-cache")) - programs
    command = [str(Path(sys.executable).with_name("lossgap")), "--help"]
    helps = min(timed(lambda: subprocess.run(command, capture_output=True, check=True)) for _ in range(repeats))
    return [
        at_most(
            "programs compiled by a second process", float(added), 0.0, f"{first:.2f} s first, {second:.2f} s second"
        ),
        at_most("seconds of lossgap --help", helps, 0.5, f"best of {repeats}"),
    ]


def memory(repeats: int) -> list[Ratio]:
    """What a compiled run holds beside its rows, on all devices together, against its clients' parameters."""
    federation, ratios = images(clients=10, alpha=0.1), []
    kinds = {
        "linear, one full step": (LINEAR, {}),
        "linear, batches of 32": (LINEAR, {"local_epochs": 1, "batch_size": 32}),
        "convolutional, batches of 32": (lg.models.cnn(), {"local_epochs": 1, "batch_size": 32}),
    }
    for name, (model, work) in kinds.items():
        rows, beside, params = held(federation, model, settings(10, **work))
        figures = f"{beside / 1e6:.1f} MB; parameters {params / 1e6:.2f} MB, ten clients' rows {rows / 1e6:.0f} MB"
        what = f"memory beside the rows, in copies of the parameters per client, {name}"
        ratios.append(at_most(what, beside / (params * len(federation.clients)), 3.0, figures))
    return ratios


def held(federation: lg.Federation, model: lg.Model, training: lg.Training) -> tuple[int, int, int]:
    """Bytes of rows, of all else that a run holds, and of one client's parameters."""
    start = lg.models.initial_params(model, federation.features, federation.outputs, seed=0)
    stepper = CompiledStepper.of(
        federation,
        model,
        lg.Eagle(gap_penalty=1.0),
        training,
        params=start,
        solo_losses=np.zeros(len(federation.clients)),
        key=jax.random.key(0),
    )
    carry, problem = stepper.start(), stepper.clients.problem
    compiled = program(segment, problem.mesh, "room", "glance_each_round")
    needed = compiled.lower(stepper.algorithm, stepper.clients, carry, 0, 1, **stepper.recording).compile()
    found = needed.memory_analysis()
    devices = 1 if problem.mesh is None else problem.mesh.size
    bytes_of = lambda tree: sum(leaf.nbytes for leaf in jax.tree.leaves(tree))  # noqa: E731
    beside = devices * (found.temp_size_in_bytes + found.output_size_in_bytes)
    return bytes_of(problem), beside, bytes_of(carry[0])


TARGETS: dict[str, Callable[[int], list[Ratio]]] = {
    "linear": linear,
    "path": path,
    "skew": skew,
    "local": local,
    "cnn": cnn,
    "memory": memory,
    "compilation": compilation,
}

FIRST, SECOND, HIDDEN, LAST = 26 * 26 * 9 * 32, 11 * 11 * 288 * 64, 1600 * 128, 128 * EMNIST_CLASSES
NETWORK_FLOP = 2 * (3 * (FIRST + SECOND + HIDDEN + LAST) - FIRST)
"""Of one image, forward and backward, as the layers are usually counted; pixels need no gradient."""


def images(clients: int, alpha: float | None) -> lg.Federation:
    """8,000 training and 2,000 validation images; alpha=None deals them out evenly."""
    x, y = emnist(np.random.default_rng([SEED, 2]), rows=ROWS + 2000)
    if alpha is None:
        parts = [np.array_split(np.arange(len(x))[part], clients) for part in (slice(0, ROWS), slice(ROWS, None))]
        held = [[(x[rows], y[rows]) for rows in each] for each in parts]
    else:
        shares = np.random.default_rng([SEED, 4]).dirichlet(np.full(clients, alpha), size=EMNIST_CLASSES)
        held = [deal(x[part], y[part], shares) for part in (slice(0, ROWS), slice(ROWS, None))]
    splits = {
        f"client {k}": {"train": a, "validation": b, "test": b} for k, (a, b) in enumerate(zip(*held, strict=True))
    }
    return lg.Federation.from_splits(splits, classes=EMNIST_CLASSES)


def settings(rounds: int, **more: object) -> lg.Training:
    return lg.Training(**({"rounds": rounds, "step_size": 0.5} | more))


def zeros(federation: lg.Federation) -> list[float]:
    return [0.0] * len(federation.clients)


def per_round(
    federation: lg.Federation,
    algorithm: lg.Algorithm,
    *,
    model: lg.Model = LINEAR,
    repeats: int,
    rounds: int = 60,
    **more: object,
) -> float:
    """Seconds of one more round."""

    def train(rounds: int) -> object:
        training = settings(rounds, **more)
        return lg.train(federation, model, algorithm, training, solo=zeros(federation), progress=False)

    return marginal(train, rounds=rounds, repeats=repeats)


def marginal(train: Callable[[int], object], *, rounds: int, repeats: int) -> float:
    """The best time of a run, less that of a run of one round, for each further round."""
    times = {}
    for length in (1, rounds + 1):
        train(length)  # compiles
        times[length] = min(timed(lambda length=length: train(length)) for _ in range(repeats))
    return (times[rounds + 1] - times[1]) / rounds


def timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def bare_products(federation: lg.Federation, repeats: int) -> float:
    """Seconds of a round's three products, logits and gradient on training rows and logits on validation rows."""
    x, held_out = (
        jnp.concatenate([rows.x.reshape(len(rows), -1) for rows in federation.splits(s)])
        for s in ("train", "validation")
    )
    kernel = jnp.ones((x.shape[1], EMNIST_CLASSES))

    @jax.jit
    def products(x, held_out, kernel):
        def step(_, kernel):
            return kernel + 1e-9 * (x.T @ (x @ kernel)) + 1e-9 * (held_out @ kernel).sum()

        return jax.lax.fori_loop(0, 50, step, kernel)

    run = lambda: products(x, held_out, kernel).block_until_ready()  # noqa: E731
    run()
    return min(timed(run) for _ in range(repeats)) / 50


def square_product(side: int, repeats: int) -> float:
    """Floating point operations per second."""
    a = jnp.ones((side, side))
    product = jax.jit(lambda a: a @ a)
    run = lambda: product(a).block_until_ready()  # noqa: E731
    run()
    return 2 * side**3 / min(timed(run) for _ in range(repeats))


def at_least(what: str, value: float, bound: float, figures: str) -> Ratio:
    return Ratio(what, value, f"at least {bound:g}", value >= bound, figures)


def at_most(what: str, value: float, bound: float, figures: str) -> Ratio:
    return Ratio(what, value, f"at most {bound:g}", value <= bound, figures)


def ms(one: float, other: float) -> str:
    return f"{1e3 * one:.2f} and {1e3 * other:.2f} ms"


def markdown(ratios: list[Ratio]) -> str:
    facts = machine.describe()
    rows = [f"| {r.what} | {r.value:.2f} | {r.wanted} | {'yes' if r.met else '**no**'} | {r.from_} |" for r in ratios]
    head = (
        f"{facts['date']} on {facts['cpu']}, {facts['cores']} cores; load average at the end {facts['load_at_start']}. "
        f"JAX {jax.__version__}, lossgap {lg.__version__}."
    )
    table = ["| ratio | measured | wanted | met | from |", "|---|---:|---|---|---|", *rows]
    return "\n".join(["# lossgap against its own yardsticks", "", head, "", *table, ""])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(TARGETS), help="all: %(default)s")
    parser.add_argument("--repeats", type=int, default=5, help="timings of which the best counts")
    default = Path(__file__).resolve().parents[1] / ".benchmarks" / "targets"
    parser.add_argument("--out", type=Path, default=default, help="folder for targets.md")
    return parser.parse_args()


if __name__ == "__main__":
    print(json.dumps(machine.describe()))
    main()
