"""Settings as values: frozen, keyword-only, compared by content, and stackable.

Numbers are the leaves of a pytree, so ten settings of one method can be stacked and trained in one pass, and a new
number does not compile anything again. Fields marked with `static` (names, switches) are part of the program.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, dataclass_transform

import jax


def static(*, default: Any) -> Any:
    """A field that decides which program runs, not which number runs through it."""
    return field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(static, field))
def value(cls: type[Any]) -> type[Any]:
    """Turn a class with annotated fields into a frozen, keyword-only dataclass that is a pytree of its numbers."""
    cls = dataclass(frozen=True, kw_only=True)(cls)
    leaves = [f.name for f in fields(cls) if not f.metadata.get("static")]
    statics = [f.name for f in fields(cls) if f.metadata.get("static")]
    jax.tree_util.register_pytree_with_keys(cls, _flatten(leaves, statics), _unflatten(cls, leaves, statics))
    return cls


def _flatten(leaves: list[str], statics: list[str]) -> Callable[[Any], Any]:
    def flatten(instance: Any) -> Any:
        children = [(jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in leaves]
        return children, tuple(getattr(instance, name) for name in statics)

    return flatten


def _unflatten(cls: type[Any], leaves: list[str], statics: list[str]) -> Callable[[Any, Any], Any]:
    def unflatten(aux: Any, children: Any) -> Any:
        # Not through __init__: its checks are for what a person wrote, and tracers cannot be compared with zero.
        instance = object.__new__(cls)
        for name, child in zip([*leaves, *statics], [*children, *aux], strict=True):
            object.__setattr__(instance, name, child)
        return instance

    return unflatten
