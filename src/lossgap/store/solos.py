"""Solo models on disk."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lossgap.disk import leaves, read_json, read_tensors, write_json, write_tensors
from lossgap.errors import FileError
from lossgap.federation import Federation
from lossgap.identity import described_model, fingerprint, solo_identity
from lossgap.models import Model, initial_params
from lossgap.solo import Solo, SoloClient, Stop, epochs_alone, train_solo
from lossgap.store.claims import alone
from lossgap.store.layout import Layout, check_writable
from lossgap.store.shelf import provenance, read
from lossgap.training import Training

DESCRIPTION, PARAMS = "solo.json", "params.safetensors"
AGAIN = "Remove its folder, and the solo models will be trained again."


def stored_solo(
    layout: Layout,
    federation: Federation,
    model: Model,
    training: Training,
    *,
    stop: Stop,
    max_epochs: int | None,
    seed: int,
    progress: bool | None,
) -> Solo:
    """Every client alone: read if it is there, else trained and put there, by one process while others wait."""
    identity = solo_identity(
        fingerprint(federation),
        described_model(model, federation, training),
        training,
        seed=seed,
        stop=stop,
        epochs=epochs_alone(training, max_epochs),
    )
    while True:
        found = read(layout.solos, identity, lambda entry: read_solo(entry.folder, model, federation))
        if found is not None:
            return found
        check_writable(layout)
        with alone(layout.lock(identity)):
            if not layout.solos.holds(identity):
                checkpoint = layout.checkpoints.of(identity.key)
                started = time.monotonic() - checkpoint.spent()
                solo = train_solo(
                    federation,
                    model,
                    training,
                    stop=stop,
                    max_epochs=max_epochs,
                    seed=seed,
                    checkpoint=checkpoint,
                    progress=progress,
                )
                about = provenance(federation, time.monotonic() - started)
                layout.solos.land(identity, partial(write_solo, solo), about)
                checkpoint.remove()


def write_solo(solo: Solo, folder: Path) -> None:
    """Solo models' files: their parameters stacked [client, ...], all else as JSON."""
    stacked = jax.tree.map(lambda *each: np.stack(each), *(client.params for client in solo.clients))
    write_tensors(folder / PARAMS, leaves(stacked))
    write_json(folder / DESCRIPTION, {"stop": solo.stop, "clients": [_described(client) for client in solo.clients]})


def read_solo(folder: Path, model: Model, federation: Federation) -> Solo:
    """Solo models as they were written."""
    described, (stored, _) = read_json(folder / DESCRIPTION, AGAIN), read_tensors(folder / PARAMS, AGAIN)
    shape = initial_params(model, federation.features, federation.outputs, seed=0)
    try:
        stacked = [stored[name] for name in leaves(shape)]
        clients = [
            SoloClient(
                **_numbers(client),
                params=jax.tree.unflatten(jax.tree.structure(shape), [leaf[k] for leaf in stacked]),
            )
            for k, client in enumerate(described["clients"])
        ]
        return Solo(tuple(clients), described["stop"])
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise FileError(f"{folder / DESCRIPTION}: not complete ({problem}). {AGAIN}") from problem


def _described(client: SoloClient) -> dict[str, Any]:
    # JSON knows no NaN, which accuracies are where targets are numbers.
    return {name: None if each != each else each for name, each in vars(client).items() if name != "params"}


def _numbers(described: dict[str, Any]) -> dict[str, Any]:
    accuracies = {name: float("nan") for name, each in described.items() if name.endswith("_accuracy") and each is None}
    return described | accuracies | {"interval": tuple(described["interval"])}
