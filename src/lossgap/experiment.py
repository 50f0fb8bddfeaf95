"""Train one method, or compare several over seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from lossgap.algorithms.base import Algorithm, Params
from lossgap.engine.compiled import CompiledStepper
from lossgap.engine.curvature import safe_steps
from lossgap.engine.run import History, Stepper, drive
from lossgap.errors import require
from lossgap.federation import Federation
from lossgap.metrics import ClientRow, Summary, client_rows, verdict
from lossgap.models import BATCHES, Model, initial_params
from lossgap.progress import progress_bar
from lossgap.solo import Solo, Stop, train_solo
from lossgap.table import Table
from lossgap.training import Training


class Engine(Protocol):
    """How a run is computed: `lossgap.engine.compiled.CompiledStepper.of` or its sequential twin."""

    def __call__(
        self,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training,
        *,
        params: Params,
        solo_losses: np.ndarray,
        key: jax.Array,
    ) -> Stepper: ...


@dataclass(frozen=True, kw_only=True)
class Result:
    """A trained model, how it serves each client, and how it came about."""

    algorithm: Algorithm
    model: Model
    training: Training
    seed: int
    params: Params
    history: History
    clients: tuple[ClientRow, ...]
    features: tuple[int, ...]  # the shape of one row
    outputs: int

    def predict(self, x: ArrayLike, *, client: str | None = None) -> np.ndarray:
        """The class of each row, or the predicted number where targets were numbers.

        A personal method serves each client a model of its own: name the client.
        """
        params, names = self.params, [row.name for row in self.clients]
        if self.algorithm.personal:
            require(
                client in names,
                f"predict: {self.algorithm} has a model for each client, and client is {client!r}.",
                f"Name one of {', '.join(names)}.",
            )
            params = jax.tree.map(lambda p: p[names.index(str(client))], params)
        with jax.enable_x64(self.training.precision == "float64"):
            rows = jnp.asarray(x, self.training.precision)
            outputs = np.asarray(self.algorithm.served(self.model).outputs(params, rows))
        return outputs.argmax(axis=-1) if self.outputs > 1 else outputs[:, 0]

    def summary(self) -> Summary:
        """Summaries over clients, each counting the same."""
        return Summary.of(self.clients)

    def verdict(self) -> str:
        """Who is helped and who is harmed, in one plain sentence."""
        return f"{self.algorithm} {verdict(self.clients)}."

    def table(self) -> Table:
        """One row per client."""
        columns = ("client", "rows", "solo loss", "shared loss", "gap", "test accuracy", "against alone")
        return Table(
            columns,
            tuple(
                (c.name, c.rows, c.solo_loss, c.solo_loss + c.gap, c.gap, c.test_accuracy, c.standing)
                for c in self.clients
            ),
        )

    def save(self, folder: str | Path) -> Path:
        """Write the result into a folder; `lossgap.load` reads it back."""
        from lossgap.store import save  # imported late: the store knows results, not the other way round

        return save(self, folder)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.verdict()}"


def train(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training = Training(),
    *,
    seed: int = 0,
    solo: Solo | Sequence[float] | None = None,
    initial_params: Params | None = None,
    engine: Engine = CompiledStepper.of,
    progress: bool | None = None,
) -> Result:
    """Train one shared model.

    Args:
        federation: who holds which rows.
        model: a network, such as `lossgap.models.linear()`.
        algorithm: a method, such as `lossgap.Eagle(gap_penalty=1.0)`.
        training: rounds, step size and local work.
        seed: of the initialisation and of batches. Nothing else is random.
        solo: what each client could reach alone, from `train_solo`, or K losses in client order; by default
            `train_solo` with the same training and seed.
        initial_params: where to start, in place of the seed's own initialisation.
        engine: the compiled engine, or its plain twin `lossgap.engine.sequential.SequentialStepper.of`.
        progress: show a progress bar; by default on a terminal.
    """
    if solo is None:
        solo = train_solo(federation, model, training, seed=seed, progress=progress)
    solo_losses = _solo_losses(federation, training, solo)
    params = _start(federation, model, training, seed, initial_params)
    with jax.enable_x64(training.precision == "float64"):
        key = jax.random.fold_in(jax.random.key(seed), BATCHES)
        stepper = engine(federation, model, algorithm, training, params=params, solo_losses=solo_losses, key=key)
        safe_step = safe_steps(federation, model, params)
        with progress_bar(str(algorithm), training.rounds, shown=progress) as report:
            run = drive(stepper, training, federation.names, safe_step=safe_step, progress=report)
        final = jax.tree.map(np.asarray, algorithm.evaluated(run.params, run.state))
        clients = client_rows(
            federation,
            algorithm.served(model),
            final,
            personal=algorithm.personal,
            solo_losses=solo_losses,
            gap_split=training.gap_split,
            precision=training.precision,
        )
    return Result(
        algorithm=algorithm,
        model=model,
        training=training,
        seed=seed,
        params=final,
        history=run.history,
        clients=clients,
        features=federation.features,
        outputs=federation.outputs,
    )


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same seeds."""

    seeds: tuple[int, ...]
    results: Mapping[str, tuple[Result, ...]]  # by method, one result per seed

    def table(self) -> Table:
        """One row per method: mean over seeds, and the standard deviation (ddof = 1) where there are several."""
        measures = {
            "worst gap": lambda s: s.max_gap,
            "best gap": lambda s: s.min_gap,
            "gap variance": lambda s: s.gap_variance,
            "accuracy": lambda s: s.mean_accuracy,
            "worst accuracy": lambda s: s.worst_accuracy,
            "worse off than alone": lambda s: len(s.worse_off),
        }
        rows = []
        for label, results in self.results.items():
            summaries = [result.summary() for result in results]
            rows.append((label, *(_mean_and_deviation(list(map(of, summaries))) for of in measures.values())))
        return Table(("method", *measures), tuple(rows))

    def __str__(self) -> str:
        seeds = (
            f"mean ± standard deviation (ddof = 1) over {len(self.seeds)} seeds" if len(self.seeds) > 1 else "one seed"
        )
        return f"{self.table()}\n{seeds}: {', '.join(map(str, self.seeds))}"


def compare(
    make_federation: Callable[..., Federation],
    model: Model,
    algorithms: Sequence[Algorithm],
    training: Training = Training(),
    *,
    seeds: Sequence[int] = (0,),
    stop: Stop = "converged",
    progress: bool | None = None,
) -> Comparison:
    """Train every method on every seed; solo models are trained once per seed and shared.

    Args:
        make_federation: called as `make_federation(seed=seed)`, such as `lossgap.datasets.synthetic`.
        model, algorithms, training: as for `train`.
        seeds: each gives a federation, an initialisation and its batches.
        stop: how each client trains alone, see `train_solo`.
        progress: show progress bars; by default on a terminal.
    """
    _check_comparison(algorithms, seeds)
    results: dict[str, list[Result]] = {str(algorithm): [] for algorithm in algorithms}
    for seed in seeds:
        federation = make_federation(seed=seed)
        solo = train_solo(federation, model, training, stop=stop, seed=seed, progress=progress)
        for algorithm in algorithms:
            result = train(federation, model, algorithm, training, seed=seed, solo=solo, progress=progress)
            results[str(algorithm)].append(result)
    return Comparison(tuple(seeds), {label: tuple(each) for label, each in results.items()})


def _solo_losses(federation: Federation, training: Training, solo: Solo | Sequence[float]) -> np.ndarray:
    losses = solo.losses(training.gap_split) if isinstance(solo, Solo) else np.asarray(solo, np.float64)
    require(
        losses.shape == (len(federation.clients),),
        f"train: solo holds {losses.size} losses for {len(federation.clients)} clients.",
        "Give one per client, in the order of federation.names.",
    )
    bad = np.flatnonzero(~np.isfinite(losses))
    require(
        len(bad) == 0,
        f"train: the solo loss of client {federation.names[bad[0]] if len(bad) else ''!r} is not a finite number.",
        "Give a number, or leave solo out to have it trained.",
    )
    return losses


def _start(federation: Federation, model: Model, training: Training, seed: int, given: Params | None) -> Params:
    own = initial_params(model, federation.features, federation.outputs, seed=seed, precision=training.precision)
    if given is None:
        return own
    shapes = [jax.tree.map(np.shape, params) for params in (own, given)]
    require(
        shapes[0] == shapes[1],
        f"train: initial_params have shapes {shapes[1]}, but the model wants {shapes[0]}.",
        "Start from a model with the same layers, features and classes.",
    )
    return jax.tree.map(lambda p: np.asarray(p, training.precision), given)


def _check_comparison(algorithms: Sequence[Algorithm], seeds: Sequence[int]) -> None:
    require(algorithms, "compare: there are no methods.", "Give at least one, such as lossgap.FedAvg().")
    require(seeds, "compare: there are no seeds.", "Give at least one.")
    labels = [str(algorithm) for algorithm in algorithms]
    twice = [label for label in labels if labels.count(label) > 1]
    require(not twice, f"compare: {twice and twice[0]} stands twice.", "Leave one out.")


def _mean_and_deviation(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.4f}"
