"""Sites have interests of their own and may lie, or be broken: what an answer must be like to count.

Some lies cannot be told from an unlucky truth: a larger gap than the real one. What they can do is bounded by
`Eagle(multiplier_range=(low, high))`, which bounds everyone's influence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import jax
import numpy as np
from flwr.app import MetricRecord, RecordDict

from lossgap.algorithms.base import Params
from lossgap.engine.answers import Answer, Losses
from lossgap.errors import require
from lossgap.flower.messages import ARRAYS, METRICS, by_path, unpacked


class Refused(Exception):
    """An answer that does not count, and why."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What no honest site would exceed.

    Args:
        losses: the least and the largest loss; a custom loss may be below zero.
        rows: the most training rows of one site.
        step: the largest norm of θ − θ_k; None is any finite one.
        solo_drop: nats by which a site may correct its best loss alone without being reported. The first one that it
            told in a run counts, whatever it says later.
    """

    losses: tuple[float, float] = (0.0, 1e6)
    rows: int = 10**9
    step: float | None = None
    solo_drop: float = 1e-3

    def __post_init__(self) -> None:
        low, high = self.losses
        require(low < high, f"Limits: losses is ({low}, {high}).", "Give (low, high) with low < high.")

    def loss(self, metrics: Mapping[str, Any], name: str) -> float:
        """A loss that is there, finite and within bounds."""
        value, (low, high) = _number(metrics, name), self.losses
        if not isfinite(value):
            raise Refused(f"its {name} is {value}")
        if not low <= value <= high:
            raise Refused(f"its {name} is {value:g}, which is outside {low:g} … {high:g}")
        return value

    def count(self, metrics: Mapping[str, Any], name: str) -> int:
        """A number of rows or steps."""
        value = _number(metrics, name)
        if value != int(value) or not 1 <= value <= self.rows:
            raise Refused(f"its number of {name} is {value:g}")
        return int(value)

    def losses_of(self, content: RecordDict) -> Losses:
        metrics = metrics_of(content)
        return Losses(self.loss(metrics, "train-loss"), self.loss(metrics, "validation-loss"))

    def answer(self, content: RecordDict, params: Params) -> Answer:
        """An answer to `train`, from a θ that a site was given."""
        metrics = metrics_of(content)
        arrived = self.params(content, params)
        return Answer(
            update=jax.tree.map(lambda p, a: np.subtract(p, a, dtype=np.asarray(p).dtype), params, arrived),
            losses=self.losses_of(content),
            rows=self.count(metrics, "rows"),
            steps=self.count(metrics, "steps"),
            loss_after=self.loss(metrics, "loss-after") if "loss-after" in metrics else float("nan"),
        )

    def params(self, content: RecordDict, like: Params) -> Params:
        """Parameters of the same names and shapes, finite, and not too far away."""
        arrays, wanted = _arrays(content), by_path(like)
        if set(arrays) != set(wanted):
            raise Refused(
                f"its parameters are {', '.join(arrays) or 'missing'}, and {', '.join(wanted)} were asked for"
            )
        for path, leaf in wanted.items():
            if arrays[path].shape != np.shape(leaf) or arrays[path].dtype.kind != "f":
                raise Refused(
                    f"its {path} is {arrays[path].dtype}{list(arrays[path].shape)}, and should be "
                    f"{np.asarray(leaf).dtype}{list(np.shape(leaf))}"
                )
            if not np.isfinite(arrays[path]).all():
                raise Refused(f"its {path} holds numbers that are not finite")
        if self.step is not None:
            length = np.sqrt(sum(np.square(arrays[path] - leaf).sum() for path, leaf in wanted.items()))
            if length > self.step:
                raise Refused(f"its step has length {length:g}, and {self.step:g} is the most")
        return jax.tree.unflatten(jax.tree.structure(like), [arrays[path] for path in wanted])


def metrics_of(content: RecordDict) -> MetricRecord:
    try:
        return content.metric_records[METRICS]
    except KeyError:
        raise Refused("its answer holds no metrics") from None


def _number(metrics: Mapping[str, Any], name: str) -> float:
    value = metrics.get(name)
    if not isinstance(value, int | float):
        raise Refused(f"its {name} is missing" if value is None else f"its {name} is no number")
    return float(value)


def _arrays(content: RecordDict) -> dict[str, np.ndarray]:
    if ARRAYS not in content.array_records:
        raise Refused("its answer holds no parameters")
    try:
        return unpacked(content.array_records[ARRAYS])
    except (ValueError, TypeError, EOFError, OSError) as problem:
        raise Refused(f"its parameters cannot be read: {problem}") from problem
