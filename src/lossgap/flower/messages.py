"""What travels between the server and a site, in Flower's records.

An order is one `arrays` record with the parameters and one `config` record; an answer to `train` is one `arrays` record
with θ_k and one `metrics` record. That is the form that Flower's own modifiers, such as its clipping, expect.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from lossgap.algorithms.base import Params
from lossgap.engine.learner import Learner
from lossgap.errors import require

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"

TRAIN = "train"
EVALUATE = "evaluate"
MEASURE = "query.measure"
WALK = "query.walk"
ALONE = "query.alone"
HELLO = "query.hello"
"""The types of message that a site answers."""


def packed(params: Params) -> ArrayRecord:
    """Parameters by their paths, always in the same order."""
    return ArrayRecord({path: Array(np.asarray(leaf)) for path, leaf in by_path(params).items()})


def unpacked(record: ArrayRecord) -> dict[str, np.ndarray]:
    return {path: array.numpy() for path, array in record.items()}


def by_path(params: Params) -> dict[str, Any]:
    """Leaves by paths such as "layers/0/kernel"."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def arranged(arrays: Mapping[str, np.ndarray], learner: Learner) -> Params:
    """Parameters as a learner arranges them: those of other frameworks are plain dictionaries."""
    structure = getattr(learner, "structure", None)
    if structure is None:
        return dict(arrays)
    paths = list(by_path(jax.tree.unflatten(structure, range(structure.num_leaves))))
    require(
        sorted(paths) == sorted(arrays),
        f"The server's parameters are {', '.join(arrays)}; the model of {learner.name!r} has {', '.join(paths)}.",
        "Use the same model at the server and at every site.",
    )
    return jax.tree.unflatten(structure, [arrays[path] for path in paths])


def order(params: Params | None, config: Mapping[str, Any], **trees: Params) -> RecordDict:
    """What a site is asked to do. Every site gets records of its own."""
    arrays = {} if params is None else {ARRAYS: packed(params)}
    others = {name: packed(tree) for name, tree in trees.items()}
    return RecordDict({**arrays, **others, CONFIG: ConfigRecord(dict(config))})


def told(metrics: Mapping[str, float], **config: str) -> RecordDict:
    """What a site answers."""
    records: dict[str, Any] = {METRICS: MetricRecord(dict(metrics))}
    if config:
        records[CONFIG] = ConfigRecord(dict(config))
    return RecordDict(records)
