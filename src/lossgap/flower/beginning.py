"""Where a run begins: with all sites connected and their best losses alone known, or where an earlier run ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from logging import INFO
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from lossgap.algorithms.base import Algorithm, Params
from lossgap.errors import require
from lossgap.experiment import check_fit, checked_solo
from lossgap.flower.checkpoint import NAME, Checkpoint, settings_of
from lossgap.flower.clients import GridClients, Terms
from lossgap.flower.courier import Courier, Patience, gathered
from lossgap.flower.honesty import Limits, metrics_of
from lossgap.flower.messages import ALONE, order
from lossgap.flower.nodes import Identify
from lossgap.flower.session import Session
from lossgap.learners.alone import Stop
from lossgap.models import BATCHES
from lossgap.training import Training, client_keys


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a strategy was told; see `FairStrategy`."""

    algorithm: Algorithm
    training: Training
    sites: int | Sequence[str]
    solo: Stop | Mapping[str, float]
    solo_rounds: int
    seed: int
    folder: Path | None
    quorum: int
    identify: Identify
    patience: Patience
    limits: Limits

    def changed(self, rounds: int | None, seconds: float | None) -> "Beginning":
        """With other rounds or another timeout, if given."""
        training = self.training if rounds is None else replace(self.training, rounds=rounds)
        return replace(
            self,
            training=training,
            patience=self.patience if seconds is None else replace(self.patience, round=seconds),
        )

    def session(self, grid: Grid, initial_params: Params, config: Mapping[str, Any]) -> Session:
        """A new run, or the one in the folder."""
        params = jax.tree.map(lambda p: np.asarray(p, self.training.precision), initial_params)
        if self.folder is not None and (self.folder / NAME).exists():
            return self._resumed(grid, params, config)
        names = gathered(grid, self.sites, self.identify, self.patience)
        log(INFO, "%s sites: %s", len(names), ", ".join(names))
        check_fit([self.algorithm], len(names), self.training, params)
        courier = Courier(grid, names, self.identify, self.patience)
        terms = self._alone(courier, self._terms(np.zeros(len(names)), (), config), params)
        session = self._at(courier, terms, params)
        session.save()
        return session

    def _resumed(self, grid: Grid, params: Params, config: Mapping[str, Any]) -> Session:
        assert self.folder is not None
        stand = Checkpoint.load(
            self.folder, settings_of(self.algorithm, self.training, self.seed), self.algorithm, params
        )
        require(
            isinstance(self.sites, int) or tuple(self.sites) == stand.names,
            f"{self.folder} holds a run of {', '.join(stand.names)}, and sites is {self.sites!r}.",
            "Name the same sites, or choose another folder.",
        )
        log(INFO, "Going on after round %s, from %s.", stand.round, self.folder)
        courier = Courier(grid, stand.names, self.identify, self.patience, list(stand.incidents))
        session = self._at(courier, self._terms(stand.solo_losses, stand.solo_keys, config), params)
        session.carry, session.round = (stand.params, stand.state), stand.round
        session.history = list(stand.history)
        return session

    def _at(self, courier: Courier, terms: Terms, params: Params) -> Session:
        batches = jax.random.fold_in(jax.random.key(self.seed), BATCHES)
        return Session(
            courier=courier,
            terms=terms,
            keys=client_keys(batches, courier.names),
            seed=self.seed,
            folder=self.folder,
            carry=(params, self.algorithm.init(params, len(courier.names))),
        )

    def _terms(self, solo_losses: np.ndarray, solo_keys: tuple[str, ...], config: Mapping[str, Any]) -> Terms:
        return Terms(
            algorithm=self.algorithm,
            training=self.training,
            limits=self.limits,
            quorum=self.quorum,
            solo_losses=solo_losses,
            solo_keys=solo_keys,
            config=config,
        )

    def _alone(self, courier: Courier, terms: Terms, params: Params) -> Terms:
        """L_k* of every site: as given, or found by the sites."""
        names = courier.names
        if not isinstance(self.solo, str):
            unknown = [name for name in names if name not in self.solo]
            require(not unknown, f"FairStrategy: solo has no loss for {', '.join(unknown)}.", "Give one for each site.")
            return replace(terms, solo_losses=checked_solo(names, self.training, [self.solo[name] for name in names]))
        log(INFO, "Every site trains alone, for at most %s rounds.", self.solo_rounds)
        clients = GridClients(courier, terms, 0, None)
        words = {"stop": self.solo, "rounds": self.solo_rounds}
        orders = {k: order(params, clients.config(k) | words) for k in clients.takes_part}
        said = courier.ask(ALONE, orders, self._read, round=0, enough=len(names), seconds=self.patience.alone)
        losses, keys = zip(*said.values(), strict=True)
        return replace(terms, solo_losses=np.array(losses), solo_keys=keys)

    def _read(self, k: int, content: RecordDict) -> tuple[float, str]:
        loss = self.limits.loss(metrics_of(content), "solo-loss")
        return loss, str(content.config_records["config"]["solo"])
