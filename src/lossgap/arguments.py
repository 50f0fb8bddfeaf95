"""Calls with settings that somebody wrote down: names, types and a place to point to when one does not fit."""

import difflib
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from lossgap.errors import SettingError

T = TypeVar("T")
Settings = Mapping[str, Any]


def call(target: Callable[..., T], settings: Settings, where: str) -> T:
    """Call `target` with settings that are checked against its signature; `where` says where they stand."""
    return target(**checked(target, settings, where))


def checked(target: Callable[..., object], settings: Settings, where: str) -> dict[str, Any]:
    """Settings as the values that the signature of `target` asks for."""
    parameters = _writable(target)
    known(settings, parameters, where)
    missing = [name for name, (_, default) in parameters.items() if default is inspect.Parameter.empty]
    for name in missing:
        if name not in settings:
            raise SettingError(f"{where}: {name} is missing. Add a line `{name} = …`.")
    return {name: _fitting(parameters[name][0], setting, f"{where}.{name}") for name, setting in settings.items()}


def known(settings: Settings, names: Iterable[str], where: str) -> None:
    """Refuse a key that is none of these names."""
    names = list(names)
    for key in settings:
        if key not in names:
            known_ones = f"Known are {', '.join(names)}." if names else "It takes no settings."
            raise SettingError(f"{where}: the key {key!r} is unknown.{nearest(key, names)} {known_ones}")


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that was probably meant, as a question; empty if there is none."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def _writable(target: Callable[..., object]) -> dict[str, tuple[Any, Any]]:
    """Type and default of each parameter that can be written down; a function, such as a loss, cannot."""
    hints = typing.get_type_hints(target)
    parameters = inspect.signature(target).parameters
    return {name: (hints[name], p.default) for name, p in parameters.items() if not _takes_a_function(hints[name])}


def _takes_a_function(hint: Any) -> bool:
    return typing.get_origin(hint) is Callable or any(map(_takes_a_function, typing.get_args(hint)))


def _fitting(hint: Any, setting: Any, key: str) -> Any:
    for kind in (hint, *typing.get_args(hint)):
        if isinstance(kind, type) and is_dataclass(kind) and isinstance(setting, Mapping):
            return call(kind, setting, key)  # a section of its own
    if hint is Any or (isinstance(hint, type) and isinstance(setting, hint)):
        return setting
    try:
        # By way of JSON, whose lists may be tuples while a text is never taken for a number.
        return TypeAdapter(hint).validate_json(json.dumps(setting, default=str), strict=True)
    except ValidationError as problem:
        raise SettingError(f"{key}: {setting!r} does not fit: {_wish(problem)}.") from problem


def _wish(problem: ValidationError) -> str:
    first = problem.errors()[0]
    message = (first["msg"][0].lower() + first["msg"][1:]).replace("array", "list")  # as TOML calls it
    place = [part + 1 for part in first["loc"] if isinstance(part, int)]
    return f"entry {place[0]}: {message}" if place else message
