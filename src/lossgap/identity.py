"""What a run is: all that its numbers follow from, as plain values, and the hash of them.

Two runs with the same hash are the same run, wherever and whenever they are computed. What changes no number (a
progress bar, a folder) is left out; what may change one (a row, a setting, lossgap's release series) is in.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

import lossgap
from lossgap import algorithms, models
from lossgap.algorithms import Algorithm
from lossgap.disk import SHORT, leaves, plain
from lossgap.errors import SettingError
from lossgap.federation import Federation
from lossgap.models import Model, Params
from lossgap.training import Training


@dataclass(frozen=True)
class Identity:
    """Everything that some numbers follow from."""

    content: Mapping[str, Any]  # plain values, as JSON holds them
    label: str  # for people; no part of the identity

    @property
    def key(self) -> str:
        """The hash."""
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """A file or folder name that a person recognises."""
        label = "".join(c if c.isalnum() or c in "-._=" else "-" for c in self.label)
        return f"{re.sub('-+', '-', label).strip('-')[:80]}-{self.key[:SHORT]}"


def run_identity(
    federation: str,
    model: Mapping[str, Any],
    algorithm: Algorithm,
    training: Training,
    *,
    seed: int,
    solo: Any,
    start: Params | None = None,
) -> Identity:
    """One run: a method on one split, from one seed.

    Args:
        federation: its `fingerprint`.
        model: its `described_model`.
        solo: how the solo losses were found, or the losses themselves.
        start: initial parameters in place of the seed's own.
    """
    content = {
        "kind": "run",
        "lossgap": series(),
        "federation": federation,
        "model": model,
        "algorithm": described_algorithm(algorithm) | _sources(algorithm),
        "training": asdict(training),
        "seed": seed,
        "solo": solo,
        "start": None if start is None else _digest(*leaves(start).values()),
    }
    return Identity(_canonical(content), f"{algorithm}-seed-{seed}")


def solo_identity(
    federation: str, model: Mapping[str, Any], training: Training, *, seed: int, stop: str, epochs: int
) -> Identity:
    """Every client alone. Only settings that reach a client alone count: how long a history is, say, does not."""
    settings = {name: getattr(training, name) for name in ("precision", "gap_split")}
    if stop != "exact":
        settings |= {"step_size": training.step_size, "batch_size": training.batch_size, "epochs": epochs}
    content = {
        "kind": "solo",
        "lossgap": series(),
        "federation": federation,
        "model": model,
        "training": settings,
        "seed": seed,
        "stop": stop,
    }
    return Identity(_canonical(content), f"solo-{model['name']}-{stop}-seed-{seed}")


def joint_key(keys: Sequence[str]) -> str:
    """The hash of things that are computed together, in this order."""
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()


def series() -> str:
    """The release series: only with a new one may the numbers of a run change."""
    return ".".join(lossgap.__version__.split(".")[:2])


def fingerprint(federation: Federation) -> str:
    """The hash of names, rows, targets and splits."""
    parts: list[Any] = [federation.classes]
    for client in federation.clients:
        parts.append(client.name)
        for name, rows in client.splits:
            parts += [name, rows.unit, rows.kept, rows.y]
    return _digest(*parts)


def described_model(model: Model, federation: Federation, training: Training) -> dict[str, Any]:
    """One of lossgap's models is known by its name, any other by its name and the program that it stands for."""
    try:
        own = models.by_name(model.name) == model
    except SettingError:
        own = False
    return {"name": model.name, "program": None if own else _program(model, federation, training)}


def described_algorithm(setting: Any) -> Any:
    """A method as its name and settings, some of which may be methods themselves."""
    if not isinstance(setting, Algorithm):
        return setting
    settings = {f.name: described_algorithm(getattr(setting, f.name)) for f in fields(setting)}
    return {"name": type(setting).__name__, "settings": settings}


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two identities differ: `training.rounds: 10, not 20`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = list(dict.fromkeys([*one, *other]))
        return [line for name in names for line in differences(one.get(name), other.get(name), f"{path}.{name}")]
    return [] if one == other else [f"{path.removeprefix('.')}: {one!r}, not {other!r}"]


def _sources(algorithm: Algorithm) -> dict[str, Any]:
    """The source text of methods that are not lossgap's, which nothing else tells apart."""
    kinds = {type(algorithm)} | {type(base) for base in _bases(algorithm)}
    foreign = {c for kind in kinds for c in kind.__mro__ if issubclass(c, Algorithm) and not _is_ours(c)}
    return {"sources": {c.__qualname__: _digest(_source(c)) for c in foreign}} if foreign else {}


def _bases(algorithm: Algorithm) -> list[Algorithm]:
    """Methods that a method is built on, all the way down."""
    own = [getattr(algorithm, f.name) for f in fields(algorithm)]
    below = [base for base in own if isinstance(base, Algorithm)]
    return below + [deeper for base in below for deeper in _bases(base)]


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith(f"{algorithms.__name__}.")


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        raise SettingError(
            f"The method {kind.__name__} has no source text that can be read, so its results could not be told from "
            "those of another method of that name. Put the class into a file."
        ) from None


def _program(model: Model, federation: Federation, training: Training) -> str:
    """The hash of what a model computes: its first parameters, and its loss with the derivative, step by step."""
    shape, dtype = federation.features, np.dtype(training.precision)
    start = models.initial_params(model, shape, federation.outputs, seed=0, precision=training.precision)
    with jax.enable_x64(training.precision == "float64"):
        x, share = np.zeros((2, *shape), dtype), np.zeros(2, dtype)
        y = np.zeros(2, np.int32 if federation.classes else dtype)
        traced: ClosedJaxpr = jax.make_jaxpr(jax.value_and_grad(model.batch_loss))(start, x, y, share)
    text = re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr))  # where functions happen to lie in memory
    return _digest(text, model.rows_at_once, *traced.consts, *leaves(start).items())


def _digest(*parts: Any) -> str:
    """The hash of arrays, by type, shape and content, and of plain values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray | jax.Array):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.data)
        elif isinstance(part, Sequence) and not isinstance(part, str):
            digest.update(_digest(*part).encode())
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()


def _canonical(content: Any) -> Any:
    """As JSON would give it back; whole numbers are whole, so that λ = 1 and λ = 1.0 are one setting."""
    if isinstance(content, Mapping):
        return {str(name): _canonical(each) for name, each in content.items()}
    if isinstance(content, list | tuple):
        return [_canonical(each) for each in content]
    if isinstance(content, float) and content.is_integer():
        return int(content)
    return content if isinstance(content, str | int | float | bool | None) else _canonical(_number(content))


def _number(setting: Any) -> Any:
    if isinstance(setting, np.ndarray | np.generic | jax.Array):
        return plain(setting)
    raise SettingError(f"The setting {setting!r} is neither a number nor a text, so runs with it cannot be told apart.")
