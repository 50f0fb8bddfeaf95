"""What a site reaches alone, found once and kept on its own disk."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import numpy as np
from flwr.app import Context

from lossgap.algorithms.base import Params
from lossgap.disk import read_tensors, whole_file, write_tensors
from lossgap.engine.learner import Learner
from lossgap.errors import FileError
from lossgap.federation import SPLITS
from lossgap.flower.messages import by_path
from lossgap.learners.alone import Stop, learn_alone
from lossgap.progress import progress_bar
from lossgap.training import Training

AGAIN = "Delete what is left of it and start the run again: the site then trains alone anew."
DIGITS = 6
"""Losses of unchanged data agree to so many digits, on any number of threads."""


@dataclass(frozen=True)
class SoloLoss:
    """L_k* of one site, under the key that its file is named by."""

    key: str
    train: float
    validation: float
    rounds: int
    converged: bool

    def of(self, training: Training) -> float:
        return self.validation if training.gap_split == "validation" else self.train


def state_folder(given: Path | None, context: Context) -> Path:
    """Where a site keeps what it must not lose: as its app says, its SuperNode's configuration, or its environment."""
    wish = given or context.node_config.get("lossgap-state") or os.environ.get("LOSSGAP_STATE")
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return Path(str(wish)).expanduser() if wish else home / "lossgap"


def solo_loss(
    learner: Learner, start: Params, training: Training, *, rounds: int, stop: Stop, folder: Path
) -> SoloLoss:
    """Kept from an earlier run with the same rows, start and settings, or found now."""
    key = _key(learner, start, training, rounds, stop)
    if has_kept(folder, key):
        return kept(folder, key)
    with progress_bar(f"{learner.name} alone", rounds) as report:
        alone = learn_alone(learner, start, rounds=rounds, stop=stop, progress=report)
    found = SoloLoss(key, float(alone.train_loss), float(alone.validation_loss), alone.rounds, alone.converged)
    with whole_file(_file(folder, key)) as draft:
        write_tensors(draft, by_path(alone.params), {"solo": json.dumps(asdict(found))})
    return found


def has_kept(folder: Path, key: str) -> bool:
    return bool(key) and _file(folder, key).exists()


def kept(folder: Path, key: str) -> SoloLoss:
    """What was found earlier."""
    path = _file(folder, key)
    _, about = read_tensors(path, AGAIN)
    try:
        return SoloLoss(**json.loads(about["solo"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise FileError(f"{path} is not a complete record: {problem}. {AGAIN}") from problem


def _file(folder: Path, key: str) -> Path:
    return folder / f"solo-{key}.safetensors"


def _key(learner: Learner, start: Params, training: Training, rounds: int, stop: Stop) -> str:
    """A hash of the data, the model and the settings that a solo loss follows from.

    A learner's rows may lie anywhere. They are known by the losses of a model that is drawn around the start: other
    rows have other losses.
    """
    rng = np.random.default_rng(0)
    probe = jax.tree.map(lambda p: (p + rng.normal(size=np.shape(p))).astype(np.asarray(p).dtype), start)
    content = {
        "start": [hashlib.sha256(np.ascontiguousarray(leaf).data).hexdigest() for leaf in by_path(start).values()],
        "rows": learner.rows,
        "losses": [f"{learner.loss(probe, split):.{DIGITS}g}" for split in SPLITS],
        "steps": learner.steps,
        "step_size": training.step,
        "batch_size": training.batch_size,
        "precision": training.precision,
        "rounds": rounds,
        "stop": stop,
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
