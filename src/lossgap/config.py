"""A run described in a TOML file, checked before any work begins, with messages that name the key."""

import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lossgap import algorithms, datasets, models
from lossgap.algorithms import Algorithm
from lossgap.arguments import Settings, call, checked, known, nearest
from lossgap.errors import FileError, LossgapError, SettingError
from lossgap.experiment import check_seeds
from lossgap.federation import Federation
from lossgap.models import Model
from lossgap.solo import Stop
from lossgap.training import Training

T = TypeVar("T")

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

    def __post_init__(self) -> None:
        check_seeds(self.seeds, "run")


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
        settings = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileError(f"{path} does not exist. Check the path, or start from examples/compare.toml.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(f"{path} cannot be read: {problem}.") from problem
    except tomllib.TOMLDecodeError as problem:
        raise FileError(f"{path} is not valid TOML: {problem}.") from problem
    with _naming(path):
        config = from_settings(settings, base=path.parent)
    return replace(config, make_federation=partial(_made, config.make_federation, path))


def from_settings(settings: Settings, *, base: Path = Path()) -> Config:
    """Settings as values; relative paths start at `base`."""
    known(settings, SECTIONS, "section")
    for section in ("federation", "methods"):
        if not settings.get(section):
            raise SettingError(f"there is no [{section}] section. See examples/compare.toml for one.")
    return Config(
        make_federation=_federation(_section(settings, "federation"), base),
        model=_named(MODELS, _section(settings, "model") or {"name": "linear"}, "model"),
        training=call(Training, _section(settings, "training"), "training"),
        methods=tuple(_method(method, "methods") for method in _methods(settings["methods"])),
        run=call(RunSettings, _section(settings, "run"), "run"),
    )


def _section(settings: Settings, name: str) -> Settings:
    section = settings.get(name, {})
    if not isinstance(section, Mapping):
        raise SettingError(
            f"{name}: {section!r} is no section. Write [{name}] on a line of its own, settings below it."
        )
    return section


def _methods(methods: Any) -> Sequence[Settings]:
    methods = [methods] if isinstance(methods, Mapping) else methods
    if not isinstance(methods, list) or not all(isinstance(method, Mapping) for method in methods):
        raise SettingError(
            f"methods: {methods!r} is no section. Write [[methods]] and below it `name = …`, once for each method."
        )
    return methods


def _federation(settings: Settings, base: Path) -> Callable[..., Federation]:
    if "table" in settings and "dataset" in settings:
        raise SettingError("federation: both table and dataset are given. Keep one of them.")
    if "table" in settings:
        return _seeded(Federation.from_table, dict(settings) | {"table": str(base / str(settings["table"]))})
    return _seeded(*_found(DATASETS, settings, "federation", key="dataset"))


def _seeded(make: Callable[..., Federation], settings: Settings) -> Callable[..., Federation]:
    """A federation for each seed; one that the settings name is kept for all of them."""
    arguments = checked(make, settings, "federation")
    return lambda seed: make(**{"seed": seed, **arguments})


def _method(settings: Any, where: str) -> Algorithm:
    """A method, and the one that it is built on."""
    if not isinstance(settings, Mapping):
        raise SettingError(f"{where}: {settings!r} is no method. Write [{where}] and below it `name = …`.")
    kind, rest = _found(METHODS, settings, where, key="name")
    bases = {name for name, hint in typing.get_type_hints(kind).items() if hint is Algorithm}
    built = {name: _method(rest[name], f"{where}.{name}") for name in bases & rest.keys()}
    return call(kind, {**rest, **built}, settings["name"])


def _named(kinds: Mapping[str, Callable[..., T]], settings: Settings, where: str) -> T:
    return call(*_found(kinds, settings, where, key="name"), where)


def _found(kinds: Mapping[str, T], settings: Settings, where: str, *, key: str) -> tuple[T, Settings]:
    """What the settings name, and the other settings."""
    name = str(settings.get(key))
    if name not in kinds:
        cause = f"{where}.{key}: {name!r} is unknown.{nearest(name, kinds)}"
        cause = cause if key in settings else f"{where}: there is no {key}."
        raise SettingError(f"{cause} Known are {', '.join(kinds)}.")
    return kinds[name], {each: setting for each, setting in settings.items() if each != key}


def _made(make: Callable[..., Federation], path: Path, *, seed: int) -> Federation:
    with _naming(path):
        return make(seed=seed)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong is told with the file that it follows from."""
    try:
        yield
    except LossgapError as problem:
        raise type(problem)(f"{path}: {problem}") from problem
