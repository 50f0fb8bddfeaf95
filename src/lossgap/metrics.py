"""What each client gets, and summaries that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from lossgap.engine.rows import blocked_rows, flat_rows, similar_sizes
from lossgap.federation import SPLITS, Federation, Split, SplitName
from lossgap.models import Model, Params
from lossgap.table import listed

INDIFFERENT = 0.005
"""A gap within this many nats of zero counts as neither a gain nor a loss."""

SMALLEST_SOLO_LOSS = 0.01
"""Below this, the ratio of two losses says nothing: a client with separable rows would have an infinite one."""


@dataclass(frozen=True, kw_only=True)
class ClientRow:
    """How the shared model serves one client. Accuracies are NaN where targets are numbers."""

    name: str
    rows: int  # training rows
    train_loss: float
    validation_loss: float
    test_loss: float
    train_accuracy: float
    validation_accuracy: float
    test_accuracy: float
    solo_loss: float  # L_k*: the best loss alone, on the rows that gaps are measured on
    gap: float  # r_k: the shared model's loss on those rows minus the solo loss

    @property
    def standing(self) -> str:
        """What joining did for this client."""
        if abs(self.gap) <= INDIFFERENT:
            return "same"
        return "gains" if self.gap < 0 else "loses"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summaries over clients, every client counting the same: each method's own notion of fairness, for every method.

    Losses are those on the rows that gaps are measured on, accuracies those on test rows. Variances and deviations have
    ddof = 1, as in the paper.
    """

    max_gap: float
    min_gap: float
    gap_range: float  # FAA, the metric of FOCUS
    mean_gap: float
    gap_variance: float  # EAGLE's
    mean_accuracy: float
    worst_accuracy: float
    accuracy_deviation: float
    mean_loss: float
    worst_loss: float  # AFL's
    loss_variance: float  # q-FFL's, GIFAIR's
    loss_gini: float  # 0: all losses equal, towards 1: one client bears them all
    desert_spread: float  # UDJ-FL's: largest minus smallest L_k(θ) / L_k*
    appeal: float  # MaxFL's: the share of clients with a smaller loss than alone
    worse_off: tuple[str, ...]  # clients that alone would have done better

    @classmethod
    def of(cls, clients: Sequence[ClientRow]) -> "Summary":
        gaps, solo, accuracies = (
            np.array([getattr(client, name) for client in clients]) for name in ("gap", "solo_loss", "test_accuracy")
        )
        losses = solo + gaps
        ratios = losses / np.maximum(solo, SMALLEST_SOLO_LOSS)
        return cls(
            max_gap=float(gaps.max()),
            min_gap=float(gaps.min()),
            gap_range=float(np.ptp(gaps)),
            mean_gap=float(gaps.mean()),
            gap_variance=float(gaps.var(ddof=1)),
            mean_accuracy=float(accuracies.mean()),
            worst_accuracy=float(accuracies.min()),
            accuracy_deviation=float(accuracies.std(ddof=1)),
            mean_loss=float(losses.mean()),
            worst_loss=float(losses.max()),
            loss_variance=float(losses.var(ddof=1)),
            loss_gini=gini(losses),
            desert_spread=float(np.ptp(ratios)),
            appeal=float((gaps < 0).mean()),
            worse_off=tuple(client.name for client in clients if client.standing == "loses"),
        )


def gini(values: np.ndarray) -> float:
    """Half the mean absolute difference of all pairs, relative to the mean."""
    differences = np.abs(values[:, None] - values[None, :]).mean()
    return float(differences / (2 * values.mean())) if values.mean() else 0.0


@dataclass(frozen=True)
class Scores:
    """Mean loss and accuracy of each client, [client], and the loss of every row, client after client."""

    loss: np.ndarray
    accuracy: np.ndarray
    row_losses: np.ndarray


def scores(splits: Sequence[Split], model: Model, params: Params, precision: str) -> Scores:
    """One model on some clients' rows. Accuracies are NaN where targets are numbers."""
    rows = flat_rows(splits, np.dtype(precision))
    losses, right = (np.asarray(a, np.float64) for a in _per_row(model, params, rows.x, rows.y))
    owner, count = np.asarray(rows.client), np.array([len(split) for split in splits])
    return Scores(np.bincount(owner, losses) / count, np.bincount(owner, right) / count, losses)


def personal_scores(splits: Sequence[Split], model: Model, params: Params, precision: str) -> Scores:
    """Each client's own model, `params` [client, ...], on its rows."""
    each: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    groups = similar_sizes([len(split) for split in splits])
    for block, members in zip(blocked_rows(splits, np.dtype(precision), groups), groups, strict=True):
        own = jax.tree.map(lambda p: p[np.array(members)], params)  # noqa: B023 - used before members moves on
        losses, right = (np.asarray(a, np.float64) for a in _per_row_each(model, own, block.x, block.y))
        for i, k in enumerate(members):
            each[k] = losses[i, : len(splits[k])], right[i, : len(splits[k])]
    own_losses, own_right = ([each[k][part] for k in range(len(splits))] for part in (0, 1))
    loss, accuracy = (np.array([a.mean() for a in own]) for own in (own_losses, own_right))
    return Scores(loss, accuracy, np.concatenate(own_losses))


def client_rows(
    federation: Federation,
    model: Model,
    params: Params,
    *,
    personal: bool,
    solo_losses: np.ndarray,
    gap_split: SplitName,
    precision: str,
) -> tuple[ClientRow, ...]:
    """What each client is served, the shared model or one of its own, on all its rows."""
    score = personal_scores if personal else scores
    by_split = {split: score(federation.splits(split), model, params, precision) for split in SPLITS}
    gaps = by_split[gap_split].loss - solo_losses
    return tuple(
        ClientRow(
            name=client.name,
            rows=len(client.train),
            solo_loss=float(solo_losses[k]),
            gap=float(gaps[k]),
            **{f"{split}_loss": float(s.loss[k]) for split, s in by_split.items()},
            **{f"{split}_accuracy": float(s.accuracy[k]) for split, s in by_split.items()},
        )
        for k, client in enumerate(federation.clients)
    )


def measured_on(split: SplitName, clients: Sequence[ClientRow], solo_losses: ArrayLike) -> tuple[ClientRow, ...]:
    """The same clients with gaps on another split, given what the solo models lose there, [client]."""
    losses = [float(getattr(client, f"{split}_loss")) for client in clients]
    return tuple(
        replace(client, solo_loss=float(solo), gap=loss - float(solo))
        for client, loss, solo in zip(clients, losses, np.asarray(solo_losses), strict=True)
    )


def verdict(clients: Sequence[ClientRow]) -> str:
    """Who is helped and who is harmed against going alone, and by how much of a loss, in one plain sentence."""
    verbs = {"gains": "helps", "loses": "harms", "same": "makes no difference to"}
    groups = {standing: [client for client in clients if client.standing == standing] for standing in verbs}
    return ", ".join(
        f"{verbs[standing]} {listed(list(map(_named, group)))}" for standing, group in groups.items() if group
    )


def _named(client: ClientRow) -> str:
    return client.name if client.standing == "same" else f"{client.name} (by {abs(client.gap):.3f})"


@partial(jax.jit, static_argnums=0)
def _per_row(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
    """Each row's loss, and whether the largest output is that of its label."""
    return model.row_losses(params, x, y), model.hits(params, x, y)


@partial(jax.jit, static_argnums=0)
def _per_row_each(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
    return jax.vmap(partial(_per_row, model))(params, x, y)
