"""What a method changes about local steps, as text and arrays that a site can follow.

Only rules that a site knows by name are followed: a message never brings code.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from lossgap import algorithms
from lossgap.algorithms.base import Algorithm, LocalRule, Params
from lossgap.algorithms.ditto import PullTo
from lossgap.engine.local import is_plain
from lossgap.errors import require

Described = Mapping[str, Any]
KNOWN: tuple[type, ...] = (PullTo, *(getattr(algorithms, name) for name in algorithms.__all__ if name != "Algorithm"))


def described(rule: LocalRule) -> tuple[Described, dict[str, Params]]:
    """A rule as plain values, and by field the trees that it holds. Plain steps need no words."""
    return ({}, {}) if is_plain(rule) and rule.local_momentum is None else spelled(rule)


def spelled(rule: Any) -> tuple[Described, dict[str, Params]]:
    """As `described`, plain or not."""
    settings: dict[str, Any] = {}
    trees: dict[str, Params] = {}
    for name in (f.name for f in fields(rule)):
        setting = getattr(rule, name)
        if isinstance(setting, Algorithm):
            settings[name], own = spelled(setting)
            trees |= own
        elif isinstance(setting, Mapping | list) or (isinstance(setting, tuple) and hasattr(setting, "_fields")):
            trees[name] = setting
        else:
            settings[name] = _plain(setting)
    return {"name": type(rule).__name__, "settings": settings, "trees": list(trees)}, trees


def followed(rule: Described, tree: Callable[[str], Params], known: tuple[type, ...] = ()) -> LocalRule:
    """The rule that a description names; `tree` gives what stands in one of its fields."""
    if not rule:
        return algorithms.FedAvg()
    kinds = {kind.__name__: kind for kind in (*KNOWN, *known)}
    name = str(rule["name"])
    require(
        name in kinds,
        f"The server follows the local steps of {name}, which this site does not know.",
        "Give its class to client_app(..., rules=(…,)) at every site.",
    )
    settings = {
        key: followed(setting, tree, known) if isinstance(setting, Mapping) else _setting(setting)
        for key, setting in rule["settings"].items()
    }
    return kinds[name](**settings, **{name: tree(name) for name in rule["trees"]})


def _plain(setting: Any) -> Any:
    return setting if isinstance(setting, str | bool | int | float | None) else np.asarray(setting).tolist()


def _setting(setting: Any) -> Any:
    return tuple(setting) if isinstance(setting, list) else setting
