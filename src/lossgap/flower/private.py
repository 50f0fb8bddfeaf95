"""EAGLE of which the server learns two sums: SecAgg+ adds up what the sites send, and the sum is all that it sees."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from logging import INFO
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as legacy
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid
from flwr.supercore import log
from jax import Array

from lossgap.algorithms.base import LocalRule, Measured, Params, Replies
from lossgap.algorithms.eagle import Eagle, GapSums
from lossgap.errors import require
from lossgap.flower.courier import Courier, Patience, SitesMissing, gathered
from lossgap.flower.messages import ALONE, by_path, order
from lossgap.flower.nodes import Identify, registered
from lossgap.flower.rules import spelled
from lossgap.learners.alone import Stop
from lossgap.progress import progress_bar
from lossgap.training import Training

FEWEST = 3
"""Of two sites, each would know the other's numbers from the sum."""


@dataclass(frozen=True, kw_only=True)
class PrivateResult:
    """What the server knows after a private run."""

    params: Params
    sites: tuple[str, ...]
    sums: tuple[GapSums, ...]  # of each round, at the θ it started from

    @property
    def mean_gaps(self) -> np.ndarray:
        return np.array([each.mean for each in self.sums])

    @property
    def gap_variances(self) -> np.ndarray:
        """With ddof = 1, as everywhere."""
        return np.array([each.deviation**2 * each.clients / (each.clients - 1) for each in self.sums])


@dataclass(frozen=True)
class MeanUpdate:
    """The mean of the updates, and nothing about any of them."""

    mean: Params

    def combine(self, weights: Array) -> Params:
        # EAGLE's weights are 1/K each, so that Σ_k weights_k Δ_k is the mean.
        return jax.tree.map(lambda u: weights.sum() * u, self.mean)

    def inner_products(self) -> Array:
        raise TypeError("Of masked updates only the mean is known.")

    squared_norms = inner_products


@dataclass
class SecretClients:
    """Sites of whom only sums are heard, as far as EAGLE's round asks for them."""

    courier: Courier
    common: Mapping[str, Any]
    keys: Sequence[str]
    training: Training
    largest: float
    round: int = 0
    sums: list[GapSums] = field(default_factory=list)

    @property
    def everyone(self) -> "SecretClients":
        return self

    def measure(self, params: Params) -> Measured:
        raise TypeError("Nobody is measured in a private run.")

    def walk(self, starts: Params, rule: LocalRule) -> Params:
        raise TypeError("Nobody has a model of its own in a private run.")

    def train(self, params: Params, multipliers: Array, rule: LocalRule) -> Replies:
        """The mean of what the sites send. Each computes its own multiplier from the sums of the round before."""
        before = self.sums[-1] if self.sums else GapSums(len(self.courier.names), 0.0, 0.0)
        paths = list(by_path(params))
        words = {**self.common, "round": self.round, "sums": json.dumps(asdict(before)), "paths": json.dumps(paths)}
        clients, (*update, gaps) = self._mean([np.asarray(leaf) for leaf in by_path(params).values()], words)
        self.sums.append(GapSums(clients, clients * float(gaps[0]), clients * float(gaps[1])))
        self.round += 1
        dtype = self.training.precision
        mean = jax.tree.unflatten(jax.tree.structure(params), [jnp.asarray(u, dtype) for u in update])
        unknown, count = jnp.full(len(self.keys), jnp.nan), jnp.full(len(self.keys), 1)
        said = Measured(unknown, unknown, jnp.full(len(self.keys), gaps[0], dtype))
        return Replies(MeanUpdate(mean), said, count, count, jnp.asarray(self.training.step), unknown)

    def _mean(self, arrays: list[np.ndarray], words: Mapping[str, Any]) -> tuple[int, list[np.ndarray]]:
        """How many sites took part, and the mean of what they sent."""
        there, heard = self.courier.present(), []
        fit = [
            (SimpleNamespace(node_id=node), FitIns(ndarrays_to_parameters(arrays), {**words, "solo": self.keys[k]}))
            for k, node in there.items()
        ]

        def aggregate(round: int, results: Sequence[tuple[Any, Any]], failures: Any) -> tuple[None, dict[str, Any]]:
            heard.append((len(results), parameters_to_ndarrays(results[0][1].parameters)))
            return None, {}

        strategy: Any = SimpleNamespace(configure_fit=lambda *_: fit, aggregate_fit=aggregate)
        manager: Any = SimpleNamespace(num_available=lambda: len(there))
        state = RecordDict(
            {
                MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: self.round + 1}),
                MAIN_PARAMS_RECORD: legacy.parameters_to_arrayrecord(ndarrays_to_parameters(arrays), True),
            }
        )
        context = LegacyContext(Context(0, 0, {}, state, {}), strategy=strategy, client_manager=manager)
        workflow = SecAggPlusWorkflow(
            1.0, 0.5, max_weight=1.0, clipping_range=self.largest, timeout=self.courier.patience.round
        )
        if len(there) >= FEWEST:
            workflow(self.courier.grid, context)
        if not heard:
            absent = [name for k, name in enumerate(self.courier.names) if k not in there]
            raise SitesMissing(
                f"Round {self.round}: secure aggregation came to no end with {len(there)} of "
                f"{len(self.courier.names)} sites; not connected: {', '.join(absent) or 'nobody'}. At least {FEWEST} "
                "and more than half of them must stay until the end of a round. Start the run again."
            )
        return heard[0]


def train_privately(
    grid: Grid,
    initial_params: Params,
    algorithm: Eagle,
    training: Training = Training(),
    *,
    sites: int | Sequence[str] = FEWEST,
    solo: Stop = "converged",
    solo_rounds: int | None = None,
    largest: float = 8.0,
    identify: Identify = registered,
    patience: Patience = Patience(),
    progress: bool | None = None,
) -> PrivateResult:
    """EAGLE, with a server that learns of each round the mean update, Σ r and Σ r², and nothing of any single site.

    Sites run `client_app(..., private=True)`. What they send is masked by Flower's SecAgg+ with four exchanges in each
    round, so a round takes four times as long. Nothing can be checked of what nobody sees: a site that lies is not
    found out, and `Eagle(multiplier_range=…)` is computed by the sites themselves.

    Args:
        grid, initial_params, training, sites, solo, solo_rounds, identify, patience, progress: as for `FairStrategy`.
        algorithm: EAGLE with lag=1 and a fixed `gap_penalty`.
        largest: gaps, their squares and steps beyond this are clipped. Numbers are rounded to this · 2⁻²¹.
    """
    require(algorithm.lag == 1, "train_privately: lag is 0.", "Use lag=1: a site needs the sums before it trains.")
    require(
        algorithm.target_variance is None and algorithm.forget_after is None,
        f"train_privately: {algorithm} looks at single gaps.",
        "Leave target_variance and forget_after out.",
    )
    require(training.participation == 1, "train_privately: participation is below 1.", "Let everybody take part.")
    names = gathered(grid, sites, identify, patience)
    require(len(names) >= FEWEST, f"train_privately: there are {len(names)} sites.", f"Use at least {FEWEST}.")
    courier = Courier(grid, names, identify, patience)
    with jax.enable_x64(training.precision == "float64"):
        params = jax.tree.map(lambda p: np.asarray(p, training.precision), initial_params)
        common = {
            "training": json.dumps(asdict(training)),
            "eagle": json.dumps(spelled(algorithm)[0]),
            "run": secrets.token_hex(8),
        }
        keys = _alone(courier, params, common, solo, solo_rounds or training.rounds)
        clients = SecretClients(courier, common, keys, training, largest)
        state = algorithm.init(params, len(names))
        with progress_bar(f"{algorithm}, private", training.rounds, shown=progress) as report:
            for done in range(1, training.rounds + 1):
                params, state, _ = algorithm.round(params, state, clients)
                log(INFO, "Round %s of %s: mean gap %+.4f", done, training.rounds, clients.sums[-1].mean)
                report(done)
        return PrivateResult(params=jax.tree.map(np.asarray, params), sites=names, sums=tuple(clients.sums))


def _alone(courier: Courier, params: Params, common: Mapping[str, Any], stop: Stop, rounds: int) -> list[str]:
    """Every site finds what it reaches alone, and says only where it keeps it."""
    orders = {
        k: order(params, {**common, "round": 0, "stop": stop, "rounds": rounds}) for k in range(len(courier.names))
    }
    keys = courier.ask(
        ALONE,
        orders,
        lambda k, content: str(content.config_records["config"]["solo"]),
        round=0,
        enough=len(orders),
        seconds=courier.patience.alone,
    )
    return list(keys.values())
