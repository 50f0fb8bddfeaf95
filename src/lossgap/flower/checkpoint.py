"""A run on the server's disk after every round, so that a new run goes on where an old one ended."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lossgap.algorithms.base import Algorithm, Params, State
from lossgap.disk import leaves, plain, read_tensors, whole_file, write_tensors
from lossgap.engine.run import History
from lossgap.errors import FileError
from lossgap.flower.courier import Incident
from lossgap.identity import described_algorithm, differences
from lossgap.training import Training

NAME = "run.safetensors"
AGAIN = "Choose another folder to start anew."
FREE = ("rounds", "record_every")
"""Settings that a run which goes on may change."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run stands: everything that the next round follows from."""

    round: int  # rounds done
    params: Params
    state: State
    names: tuple[str, ...]
    solo_losses: np.ndarray
    solo_keys: tuple[str, ...]
    history: tuple[History, ...]
    incidents: tuple[Incident, ...]

    def save(self, folder: Path, settings: Any) -> None:
        """All of it in one file, which takes the old one's place at once."""
        parts = {"params": self.params, "state": self.state, "solo": self.solo_losses}
        tensors = {f"{part}{path}": np.asarray(a) for part, tree in parts.items() for path, a in leaves(tree).items()}
        for name in ("rounds", "train_loss", "validation_loss", "gap", "multiplier"):
            tensors[f"history.{name}"] = np.concatenate([getattr(line, name) for line in self.history] or [np.zeros(0)])
        about = {
            "round": self.round,
            "names": self.names,
            "solo_keys": self.solo_keys,
            "incidents": [asdict(each) for each in self.incidents],
            "settings": settings,
        }
        with whole_file(folder / NAME) as draft:
            write_tensors(draft, tensors, {"about": json.dumps(about, default=plain)})

    @classmethod
    def load(cls, folder: Path, settings: Any, algorithm: Algorithm, params: Params) -> "Checkpoint":
        """The run of these settings, or an error that says what differs."""
        path = folder / NAME
        tensors, about_text = read_tensors(path, AGAIN)
        try:
            about = json.loads(about_text["about"])
            other = differences(about["settings"], json.loads(json.dumps(settings, default=plain)))
            if other:
                raise FileError(f"{path} holds another run: {'; '.join(other)}. {AGAIN}")
            clients = len(about["names"])
            lines = {n.removeprefix("history."): a for n, a in tensors.items() if n.startswith("history.")}
            return cls(
                round=about["round"],
                params=_tree("params", params, tensors),
                state=_tree("state", algorithm.init(params, clients), tensors),
                names=tuple(about["names"]),
                solo_losses=tensors["solo"],
                solo_keys=tuple(about["solo_keys"]),
                history=(History(**lines),) if len(lines["rounds"]) else (),
                incidents=tuple(Incident(**each) for each in about["incidents"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise FileError(f"{path} is not a complete run: {problem}. {AGAIN}") from problem


def settings_of(algorithm: Algorithm, training: Training, seed: int) -> dict[str, Any]:
    """What must not change within a run."""
    return {
        "algorithm": described_algorithm(algorithm),
        "training": {name: value for name, value in asdict(training).items() if name not in FREE},
        "seed": seed,
    }


def _tree(part: str, like: Any, tensors: dict[str, np.ndarray]) -> Any:
    stored = [jnp.asarray(tensors[f"{part}{path}"]) for path in leaves(like)]
    return jax.tree.unflatten(jax.tree.structure(like), stored)
