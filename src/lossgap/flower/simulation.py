"""A federation's clients as Flower nodes on Ray: one machine or a cluster of them, by the messages of a real run."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import Any

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from lossgap.algorithms.base import Algorithm
from lossgap.datasets.home import user_cache
from lossgap.disk import read_tensors, write_tensors
from lossgap.engine.learner import JaxLearner
from lossgap.errors import SettingError
from lossgap.federation import SPLITS, Client, Federation, Split
from lossgap.flower.courier import Patience
from lossgap.flower.honesty import metrics_of
from lossgap.flower.messages import HELLO, order
from lossgap.flower.site import client_app
from lossgap.flower.strategy import FairStrategy
from lossgap.models import Model, initial_params
from lossgap.result import Result
from lossgap.solo import Solo
from lossgap.training import Training

PATIENCE = Patience(round=3600.0, absence=600.0, look=0.02, again=1.0)
MOST_KEPT = 256
"""Clients whose rows a worker keeps in memory."""

_MODELS: dict[str, Model] = {}


def simulate(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training = Training(),
    *,
    solo: Solo | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    cpus: float = 1.0,
    verbose: bool = False,
    progress: bool | None = None,
) -> Result:
    """What `lossgap.train` does, with every client as a node of Flower's simulation.

    Ray runs as many clients at once as there are processors. With RAY_ADDRESS in the environment it is that cluster,
    whose machines need lossgap and must see the temporary folder (TMPDIR) at the same place.

    Args:
        federation, model, algorithm, training, seed: as for `lossgap.train`.
        solo: from `lossgap.train_solo`; by default every node trains alone first.
        folder: where the run is kept after every round, and goes on from.
        cpus: processors for each client at work.
        verbose: show what Flower and Ray have to say.
        progress: show a progress bar; by default on a terminal.
    """
    strategy = FairStrategy(
        algorithm,
        training,
        sites=federation.names,
        solo="converged" if solo is None else _by_name(federation, solo, training),
        seed=seed,
        folder=folder,
        identify=Partitions(federation.names),
        patience=PATIENCE,
    )
    start = initial_params(model, federation.features, federation.outputs, seed=seed, precision=training.precision)
    results: list[Result] = []

    def work(grid: Grid) -> None:
        results.append(strategy.run(grid, start, model=model, progress=progress))

    on_ray(federation, model, work, seed=seed, cpus=cpus, verbose=verbose)
    return replace(results[0], features=federation.features, outputs=federation.outputs)


def on_ray(
    federation: Federation,
    model: Model,
    work: Callable[[Grid], None],
    *,
    seed: int = 0,
    cpus: float = 1.0,
    verbose: bool = False,
) -> None:
    """Have a server do its work while every client of a federation is a node, see `simulate`."""
    try:
        import ray  # noqa: F401
        from flwr.simulation import run_simulation
    except ImportError:
        raise SettingError("Flower's simulation needs Ray. Install it with: pip install 'lossgap[flower]'") from None
    server, over = ServerApp(), Event()

    @server.main()
    def main(grid: Any, context: Context) -> None:
        pull = grid.pull_messages

        def pull_until_over(messages: Sequence[str]) -> Any:
            if over.is_set():
                raise SystemExit  # the server is a thread, which would wait for nodes that are gone
            return pull(messages)

        grid.pull_messages = pull_until_over
        work(grid)

    with _ending(over), _quiet(verbose), tempfile.TemporaryDirectory(prefix="lossgap-") as spool:
        _write(federation, Path(spool))
        run_simulation(
            server,
            client_app(Spooled(spool, model, seed), state=Path(spool) / "state"),
            num_supernodes=len(federation.names),
            backend_config={"client_resources": {"num_cpus": cpus, "num_gpus": 0.0}},
            verbose_logging=verbose,
        )


@dataclass(frozen=True)
class Spooled:
    """Makes the learner of a simulated node from rows on disk. It travels with every message, so it is small."""

    spool: str
    model: Model
    seed: int

    def __call__(self, context: Context, training: Training) -> JaxLearner:
        # Unpickled functions are new objects, for which JAX would compile everything anew: keep the first ones.
        _MODELS.setdefault(self.spool, self.model)
        return _learner(self.spool, int(context.node_config["partition-id"]), training, self.seed)


@lru_cache(maxsize=MOST_KEPT)
def _learner(spool: str, number: int, training: Training, seed: int) -> JaxLearner:
    return JaxLearner.of(_read(Path(spool), number), _MODELS[spool], training, seed=seed)


def _write(federation: Federation, spool: Path) -> None:
    for number, client in enumerate(federation.clients):
        tensors = {f"{split}.{part}": getattr(rows, part) for split, rows in client.splits for part in ("kept", "y")}
        about = {"name": client.name} | {str(split): str(rows.unit or "") for split, rows in client.splits}
        write_tensors(_file(spool, number), tensors, about)


def _read(spool: Path, number: int) -> Client:
    tensors, about = read_tensors(_file(spool, number), "Start the simulation again.")
    splits = (
        Split(tensors[f"{split}.kept"], tensors[f"{split}.y"], float(about[split]) if about[split] else None)
        for split in SPLITS
    )
    return Client(about["name"], *splits)


def _file(spool: Path, number: int) -> Path:
    return spool / f"client-{number}.safetensors"


def _by_name(federation: Federation, solo: Solo, training: Training) -> dict[str, float]:
    return dict(zip(federation.names, solo.losses(training.gap_split).tolist(), strict=True))


@dataclass
class Partitions:
    """Who is who among simulated nodes: they are asked once. Real sites are known by their registration instead."""

    names: Sequence[str]

    def __post_init__(self) -> None:
        self.known: dict[int, str] = {}

    def __call__(self, grid: Grid) -> dict[int, str]:
        nodes = list(grid.get_node_ids())
        asked = {node: Message(order(None, {}), node, HELLO) for node in nodes if node not in self.known}
        replies = grid.send_and_receive(asked.values(), timeout=PATIENCE.absence) if asked else ()
        owner = {message.metadata.message_id: node for node, message in asked.items()}
        for reply in replies:
            if not reply.has_error():
                number: Any = metrics_of(reply.content)["partition"]
                self.known[owner[reply.metadata.reply_to_message_id]] = self.names[number]
        return {node: self.known[node] for node in nodes if node in self.known}


class _Deprecations(logging.Filter):
    """Flower announces that `run_simulation` will go; until then it is the way that needs no project folder."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "DEPRECATED" not in record.getMessage()


@contextmanager
def _ending(over: Event) -> Iterator[None]:
    try:
        yield
    finally:
        over.set()


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Of Flower's log, warnings only; and workers that keep what they compile."""
    logger, silence = logging.getLogger("flwr"), _Deprecations()
    level = logger.level
    # Compiled programs outlast the temporary folder of a simulation, and its workers are the work: Ray would let them
    # step back for anything else on the machine.
    wishes = {"LOSSGAP_CACHE": str(user_cache()), "RAY_worker_niceness": "0"}
    ours = {name: wish for name, wish in wishes.items() if name not in os.environ}
    os.environ.update(ours)
    if not verbose:
        logger.setLevel(logging.WARNING)
        logger.addFilter(silence)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeFilter(silence)
        for name in ours:
            del os.environ[name]
