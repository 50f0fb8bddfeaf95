"""One run over the grid: the same rounds as in a simulation, kept on disk after each."""

from dataclasses import dataclass, field
from logging import WARNING
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flwr.app import RecordDict
from flwr.supercore import log

from lossgap.algorithms.base import Algorithm, Glance, Params
from lossgap.engine.run import Carry, History
from lossgap.flower.checkpoint import Checkpoint, settings_of
from lossgap.flower.clients import GridClients, Terms
from lossgap.flower.courier import Courier
from lossgap.flower.honesty import metrics_of
from lossgap.flower.messages import EVALUATE, order
from lossgap.learners.training import FOREIGN
from lossgap.metrics import ClientRow
from lossgap.models import Model
from lossgap.result import Result
from lossgap.training import Training, drawn

SCORES = ("train_accuracy", "validation_accuracy", "test_accuracy")


@dataclass
class Session:
    """A run as it goes: where it stands, and how it takes a round further."""

    courier: Courier
    terms: Terms
    keys: jax.Array  # [client], who takes part in a round
    seed: int
    folder: Path | None
    carry: Carry
    round: int = 0
    history: list[History] = field(default_factory=list)
    away: dict[str, int] = field(default_factory=dict)  # sites that did not answer, and for how many rounds

    @property
    def algorithm(self) -> Algorithm:
        return self.terms.algorithm

    @property
    def training(self) -> Training:
        return self.terms.training

    def clients(self) -> GridClients:
        """Who takes part in the coming round."""
        participants = self.training.participants(len(self.courier.names))
        who = None if participants is None else drawn(self.keys, self.round, participants)
        return GridClients(self.courier, self.terms, self.round, None if who is None else tuple(who.tolist()))

    def step(self) -> None:
        """One round, and a line of the history."""
        params, state, glance = self.algorithm.round(*self.carry, self.clients())
        self.take(params, state, glance)

    def take(self, params: Params, state: Any, glance: Glance) -> None:
        """Note what a round did; once it is on disk, the round has happened."""
        if self.round % self.training.record_every == 0:
            self.history.append(line(glance, self.round, len(self.courier.names)))
        self._count(glance)
        self.carry, self.round = (params, state), self.round + 1
        self.save()

    def _count(self, glance: Glance) -> None:
        who, names = glance.measured.who, self.courier.names
        here = set(names) if who is None else {names[k] for k in np.asarray(who)}
        self.away = {name: self.away.get(name, 0) + 1 for name in names if name not in here}

    def said(self) -> str:
        """How the last recorded round looked, and whom it missed."""
        gaps = self.history[-1].gap[0] if self.history else np.zeros(0)
        told = gaps[~np.isnan(gaps)]
        looked = f"gaps {told.min():+.4f} … {told.max():+.4f}" if len(told) else "no gaps"
        away = [] if self.training.participation < 1 else [self._missed(*each) for each in self.away.items()]
        return "; ".join([f"{len(self.courier.names) - len(self.away)} sites, {looked}", *away])

    def _missed(self, name: str, rounds: int) -> str:
        memory = getattr(self.algorithm, "forget_after", None)
        gone = memory is not None and rounds > memory
        return f"{name} absent for {rounds} rounds" + (", its last gap no longer counts" if gone else "")

    def save(self) -> None:
        if self.folder is not None:
            self.standing().save(self.folder, settings_of(self.algorithm, self.training, self.seed))

    def standing(self) -> Checkpoint:
        return Checkpoint(
            round=self.round,
            params=self.carry[0],
            state=self.carry[1],
            names=self.courier.names,
            solo_losses=self.terms.solo_losses,
            solo_keys=self.terms.solo_keys,
            history=tuple(self.history),
            incidents=tuple(self.courier.incidents),
        )

    def result(self, model: Model | None, features: tuple[int, ...] = (), outputs: int = 0) -> Result:
        """What every site gets, as it says itself."""
        clients = self.clients().everyone
        last = line(self.algorithm.glance(*self.carry, clients), self.round, len(self.courier.names))
        lines = [each for each in [*self.history, last] if len(each)]
        served = jax.tree.map(np.asarray, self.algorithm.evaluated(*self.carry))
        return Result(
            algorithm=self.algorithm,
            model=model or FOREIGN,
            training=self.training,
            seed=self.seed,
            params=served,
            history=joined(lines),
            clients=tuple(self._evaluated(clients, served).values()),
            features=features,
            outputs=outputs,
        )

    def _evaluated(self, clients: GridClients, served: Params) -> dict[int, ClientRow]:
        personal, solo = self.algorithm.personal, self.terms.solo_losses
        orders = {
            k: order(
                jax.tree.map(lambda p, k=k: p[k], served) if personal else served,
                clients.config(k) | {"solo-loss": float(solo[k])},
            )
            for k in clients.takes_part
        }
        rows = self.courier.ask(EVALUATE, orders, self._read_row, round=self.round, enough=clients.enough)
        missing = [name for k, name in enumerate(self.courier.names) if k not in rows]
        if missing:
            log(WARNING, "The result lacks %s: no answer at the end.", ", ".join(missing))
        return rows

    def _read_row(self, k: int, content: RecordDict) -> ClientRow:
        metrics, limits, solo = metrics_of(content), self.terms.limits, float(self.terms.solo_losses[k])
        losses = {f"{split}_loss": limits.loss(metrics, f"{split}_loss") for split in ("train", "validation", "test")}
        return ClientRow(
            name=self.courier.names[k],
            rows=limits.count(metrics, "rows"),
            solo_loss=solo,
            gap=losses[f"{self.training.gap_split}_loss"] - solo,
            **losses,
            **{name: float(metrics.get(name, float("nan"))) for name in SCORES},  # type: ignore[arg-type]
        )


def line(glance: Glance, round: int, clients: int) -> History:
    """A line of the history; who did not answer has no numbers in it."""
    measured = glance.measured

    def row(told: jax.Array) -> np.ndarray:
        if measured.who is None:
            return np.asarray(told)[None]
        everyone = np.full((1, clients), np.nan)
        everyone[0, np.asarray(measured.who)] = np.asarray(told)
        return everyone

    kinds = measured.loss_at_global, measured.validation_loss, measured.gaps, glance.multipliers
    return History(np.array([round]), *map(row, kinds))


def joined(lines: list[History]) -> History:
    names = ("rounds", "train_loss", "validation_loss", "gap", "multiplier")
    return History(*(np.concatenate([getattr(each, name) for each in lines]) for name in names))
