"""A site that keeps its gap to itself: it computes its own multiplier, and what it sends is masked by SecAgg+."""

import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as legacy

from lossgap.algorithms.eagle import Eagle, GapSums
from lossgap.disk import read_json, whole_file, write_json
from lossgap.engine.answers import Losses
from lossgap.errors import require
from lossgap.flower.messages import ARRAYS, CONFIG, by_path
from lossgap.flower.rules import followed
from lossgap.flower.site import Order, Site
from lossgap.flower.solo import kept


def secret_training(site: Site) -> Callable[[Message, Context], Message]:
    """A round of local work, for `secaggplus_mod` to mask: Δ_k, r_k and r_k², in Flower's older form of messages."""

    def train(message: Message, context: Context) -> Message:
        with site.order(_translated(message.content), context) as order:
            answer = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(_secrets(order)), 1, {})
        return Message(legacy.fitres_to_recorddict(answer, True), reply_to=message)

    return train


def _secrets(order: Order) -> list[np.ndarray]:
    gap = _gap(order)
    multiplier = jnp.asarray(_multiplier(order), order.training.precision)
    update = by_path(order.learner.fit(order.params, multiplier, round=order.round, rule=order.rule))
    _remember(order, gap)
    return [*(np.asarray(update[path], np.float64) for path in order.paths), np.array([gap, gap**2])]


def _gap(order: Order) -> float:
    losses, solo = Losses.of(order.learner, order.params), kept(order.folder, str(order.config["solo"]))
    own = losses.validation if order.training.gap_split == "validation" else losses.train
    return own - solo.of(order.training)


def _multiplier(order: Order) -> jax.Array:
    """w_k from the sums of the last round and the gap that this site had in it."""
    eagle = followed(json.loads(str(order.config["eagle"])), lambda name: None)
    require(isinstance(eagle, Eagle), "A private run is by EAGLE.", "Use lossgap.Eagle.")
    assert isinstance(eagle, Eagle)
    sums = GapSums(**json.loads(str(order.config["sums"])))
    return eagle.own_multiplier(_remembered(order), sums)


def _remembered(order: Order) -> float | None:
    """This site's gap in the round before, if it took part in it."""
    path = _file(order)
    note = read_json(path, "Start the run again.") if path.exists() else {}
    current = note.get("run") == order.config["run"] and note.get("round") == order.round - 1
    return float(note["gap"]) if current else None


def _remember(order: Order, gap: float) -> None:
    with whole_file(_file(order)) as draft:
        write_json(draft, {"run": order.config["run"], "round": order.round, "gap": gap})


def _file(order: Order) -> Path:
    return order.folder / f"gap-{order.config['solo']}.json"


def _translated(content: RecordDict) -> RecordDict:
    """An order in the older form of messages, as all others look."""
    told = legacy.recorddict_to_fitins(content, True)
    arrays = zip(json.loads(str(told.config["paths"])), parameters_to_ndarrays(told.parameters), strict=True)
    return RecordDict(
        {ARRAYS: ArrayRecord({path: Array(a) for path, a in arrays}), CONFIG: ConfigRecord(dict(told.config))}
    )
