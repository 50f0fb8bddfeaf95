"""L_k*, the best loss that each client could reach alone: what loss gaps are measured against."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import numpy as np

from lossgap.engine.alone import Found, train_alone
from lossgap.engine.checkpoint import Checkpoint, Saves, kept
from lossgap.engine.curvature import with_safe_step_alone
from lossgap.engine.exact import minimise_alone
from lossgap.errors import require
from lossgap.federation import Federation, SplitName
from lossgap.identity import described_model, fingerprint, solo_identity
from lossgap.metrics import scores
from lossgap.models import BATCHES, RESAMPLING, Model, Params, initial_params
from lossgap.training import Training

Stop = Literal["converged", "best", "exact"]

RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class SoloClient:
    """The model a client reaches alone. Its losses are those of that one model on each split."""

    name: str
    params: Params
    train_loss: float
    validation_loss: float
    test_loss: float
    train_accuracy: float
    validation_accuracy: float
    test_accuracy: float
    interval: tuple[float, float]  # 95 % bootstrap interval of the loss on `gap_split`, over its rows
    epochs: int  # passes over the training rows that made this model; with stop="exact", iterations of L-BFGS
    converged: bool
    gradient_norm: float | None  # stop="exact": of the training loss at `params`
    attained: bool | None  # stop="exact": False where the infimum lies at infinity (separable rows, absent classes)


@dataclass(frozen=True)
class Solo:
    """Every client alone, and the rule by which training stopped."""

    clients: tuple[SoloClient, ...]
    stop: Stop

    def losses(self, split: SplitName = "validation") -> np.ndarray:
        """L_k* on one split, [client]."""
        return np.array([getattr(client, f"{split}_loss") for client in self.clients])


def train_solo(
    federation: Federation,
    model: Model,
    training: Training,
    *,
    stop: Stop = "converged",
    max_epochs: int | None = None,
    seed: int = 0,
    checkpoint: Saves | Checkpoint | None = None,
    progress: bool | None = None,
) -> Solo:
    """Train every client alone from the shared initialisation.

    Args:
        federation, model, training: as for `lossgap.train`; an epoch is a pass over a client's own training rows.
        stop: "converged" keeps the last model, once the training loss is flat or the epochs are used up, as the paper
            does. That rewards overfitting: the model's validation loss may be far above what it was earlier.
            "best" trains as long but keeps the epoch with the lowest validation loss. "exact" minimises the training
            loss of a convex model until its gradient has vanished, and says how small it is.
        max_epochs: for "converged" and "best"; by default as many passes as `training` makes together.
        seed: of the initialisation, of batches and of the bootstrap.
        checkpoint: a folder in which the work is saved every ten seconds, and from which it goes on if it was cut off;
            or `lossgap.Checkpoints`. "exact" takes no time worth saving.
        progress: show a progress bar; by default on a terminal.
    """
    require(
        stop in ("converged", "best", "exact"), f"train_solo: stop is {stop!r}.", 'Use "converged", "best" or "exact".'
    )
    require(
        stop != "exact" or model.convex,
        f"train_solo: the loss of model {model.name!r} is not known to be convex, so no minimum can be certified.",
        'Use stop="converged" or "best", or mark your own model Model(..., convex=True) if it is.',
    )
    epochs = epochs_alone(training, max_epochs)
    start = initial_params(model, federation.features, federation.outputs, seed=seed, precision=training.precision)
    with jax.enable_x64(training.precision == "float64"):
        training = with_safe_step_alone(federation, model, start, training)
        if stop == "exact":
            found = minimise_alone(federation, model, start, precision=training.precision, progress=progress)
        else:
            key = jax.random.fold_in(jax.random.key(seed), BATCHES)
            whose = partial(_key, federation, model, training, seed=seed, stop=stop, epochs=epochs)
            with kept(checkpoint, whose) as saves:
                found = train_alone(
                    federation,
                    model,
                    training,
                    start,
                    keep_best=stop == "best",
                    epochs=epochs,
                    key=key,
                    progress=progress,
                    checkpoint=saves,
                )
        described = [
            _described(federation, k, model, training, each, np.random.default_rng([seed, RESAMPLING, k]))
            for k, each in enumerate(found)
        ]
    return Solo(tuple(described), stop)


def epochs_alone(training: Training, most: int | None = None) -> int:
    """The most epochs that a client trains alone; by default as many passes as `training` makes together."""
    return most or training.rounds * (training.local_epochs or training.local_steps)


def _key(federation: Federation, model: Model, training: Training, *, seed: int, stop: Stop, epochs: int) -> str:
    """The hash of what is trained."""
    described = described_model(model, federation, training)
    return solo_identity(fingerprint(federation), described, training, seed=seed, stop=stop, epochs=epochs).key


def _described(
    federation: Federation, k: int, model: Model, training: Training, found: Found, rng: np.random.Generator
) -> SoloClient:
    client = federation.clients[k]
    by_split = {name: scores([rows], model, found.params, training.precision) for name, rows in client.splits}
    return SoloClient(
        name=client.name,
        params=found.params,
        interval=_interval(by_split[training.gap_split].row_losses, rng),
        epochs=found.epochs,
        converged=found.converged,
        gradient_norm=found.gradient_norm,
        attained=found.attained,
        **{f"{split}_loss": float(s.loss[0]) for split, s in by_split.items()},
        **{f"{split}_accuracy": float(s.accuracy[0]) for split, s in by_split.items()},
    )


def _interval(losses: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean."""
    means = [rng.choice(losses, len(losses)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
