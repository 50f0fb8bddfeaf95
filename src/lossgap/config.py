"""A run described in a TOML file, checked before any work begins, with messages that name the key."""

import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError, validate_call

from lossgap import algorithms, datasets, models
from lossgap.algorithms import Algorithm
from lossgap.errors import FileError, SettingError
from lossgap.federation import Federation
from lossgap.models import Model
from lossgap.solo import Stop
from lossgap.training import Training

T = TypeVar("T")
Settings = Mapping[str, Any]

MODELS: Mapping[str, Callable[..., Model]] = {"linear": models.linear, "mlp": models.mlp, "cnn": models.cnn}
METHODS: Mapping[str, Callable[..., Algorithm]] = {
    name: getattr(algorithms, name) for name in algorithms.__all__ if name != "Algorithm"
}
DATASETS: Mapping[str, Callable[..., Federation]] = {name: getattr(datasets, name) for name in datasets.__all__}
SECTIONS = ("federation", "model", "training", "methods", "run")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The `[run]` section.

    Args:
        seeds: one run of every method per seed.
        solo: how each client trains alone, see `lossgap.train_solo`.
        out: the folder that results are written to.
    """

    seeds: tuple[int, ...] = (0,)
    solo: Stop = "converged"
    out: str = "runs"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a command needs."""

    make_federation: Callable[..., Federation]
    model: Model
    training: Training
    methods: tuple[Algorithm, ...]
    run: RunSettings


def read(path: str | Path) -> Config:
    """Read and check a file; nothing is trained or downloaded yet."""
    path = Path(path)
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path} does not exist. Check the path, or start from examples/compare.toml.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(f"{path} cannot be read: {problem}.") from problem
    except tomllib.TOMLDecodeError as problem:
        raise FileError(f"{path} is not valid TOML: {problem}.") from problem
    try:
        return checked(settings, base=path.parent)
    except SettingError as problem:
        raise SettingError(f"{path}: {problem}") from problem


def checked(settings: Settings, *, base: Path = Path()) -> Config:
    """Settings as values; relative paths start at `base`."""
    _known(settings, SECTIONS, "section")
    for section in ("federation", "methods"):
        if not settings.get(section):
            raise SettingError(f"there is no [{section}] section. See examples/compare.toml for one.")
    return Config(
        make_federation=_federation(settings["federation"], base),
        model=_named(MODELS, settings.get("model", {"name": "linear"}), "model"),
        training=build(Training, settings.get("training", {}), "training"),
        methods=tuple(_named(METHODS, method, "methods") for method in _list(settings["methods"])),
        run=build(RunSettings, settings.get("run", {}), "run"),
    )


def build(target: Callable[..., T], settings: Settings, where: str) -> T:
    """Call `target` with settings that are checked against its signature."""
    _check_keys(target, settings, where)
    try:
        if isinstance(target, type):
            return TypeAdapter(target).validate_python(dict(settings))
        return validate_call(target)(**settings)
    except ValidationError as problem:
        raise SettingError(_explained(problem, where)) from problem


def _federation(settings: Settings, base: Path) -> Callable[..., Federation]:
    if "table" in settings:
        table = dict(settings) | {"table": str(base / str(settings["table"]))}
        _check_keys(Federation.from_table, table, "federation")
        return partial(Federation.from_table, **table)
    kind = _find(DATASETS, settings, "federation", key="dataset")
    rest = {key: value for key, value in settings.items() if key != "dataset"}
    _check_keys(kind, rest, "federation")
    return lambda seed: build(kind, {"seed": seed, **rest}, "federation")


def _named(kinds: Mapping[str, Callable[..., T]], settings: Settings, where: str) -> T:
    kind = _find(kinds, settings, where, key="name")
    return build(kind, {key: value for key, value in settings.items() if key != "name"}, where)


def _find(kinds: Mapping[str, T], settings: Settings, where: str, *, key: str) -> T:
    name = str(settings.get(key))
    if name not in kinds:
        cause = f"{where}.{key}: {name!r} is unknown" if key in settings else f"{where}: there is no {key}"
        raise SettingError(f"{cause}.{_nearest(name, kinds)} Known are {', '.join(kinds)}.")
    return kinds[name]


def _check_keys(target: Callable[..., object], settings: Settings, where: str) -> None:
    parameters = inspect.signature(target).parameters
    _known(settings, parameters, where)
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in settings]
    if missing and missing != ["self"]:
        raise SettingError(f"{where}: {missing[0]} is missing. Add a line `{missing[0]} = …`.")


def _known(settings: Settings, names: Iterable[str], where: str) -> None:
    for key in settings:
        if key not in (names := list(names)):
            raise SettingError(
                f"{where}: the key {key!r} is unknown.{_nearest(key, names)} Known are {', '.join(names)}."
            )


def _nearest(name: str, names: Iterable[str]) -> str:
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def _explained(problem: ValidationError, where: str) -> str:
    first = problem.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SettingError):
        return str(cause)
    key = ".".join([where, *(str(part) for part in first["loc"][:1])])
    wish = first["msg"][0].lower() + first["msg"][1:]
    return f"{key}: {first['input']!r} does not fit: {wish}."


def _list(methods: Any) -> Sequence[Settings]:
    return [methods] if isinstance(methods, Mapping) else methods
