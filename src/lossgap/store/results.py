"""Results on disk: JSON and safetensors, never pickle."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import jax

import lossgap
from lossgap import algorithms, models
from lossgap.algorithms import Algorithm
from lossgap.disk import leaves, read_json, read_tensors, whole_folder, write_json, write_tensors
from lossgap.engine.run import History
from lossgap.errors import FileError, SettingError
from lossgap.identity import described_algorithm
from lossgap.metrics import ClientRow
from lossgap.models import Model, Params
from lossgap.result import Result
from lossgap.training import Training

FORMAT = "lossgap result"
VERSION = 1
AGAIN = "Save the result again."
DESCRIPTION, PARAMS, HISTORY = "result.json", "params.safetensors", "history.safetensors"


def save(result: Result, folder: str | Path) -> Path:
    """Write a result into a folder of its own, all or nothing; an earlier result in it is replaced."""
    folder = Path(folder)
    check_room(folder)
    with whole_folder(folder) as draft:
        write(result, draft)
    return folder


def write(result: Result, folder: Path) -> None:
    """A result's files."""
    write_tensors(folder / PARAMS, leaves(result.params))
    write_tensors(folder / HISTORY, {f.name: getattr(result.history, f.name) for f in fields(History)})
    write_json(folder / DESCRIPTION, _description(result))


def check_room(folder: Path) -> None:
    """Refuse, before any work is done, a folder that a result could not be written into."""
    if folder.exists() and not (folder / DESCRIPTION).exists():
        raise FileError(f"{folder} exists and holds no result. Choose another folder, or empty this one.")
    ground = next(path for path in folder.absolute().parents if path.exists())
    if not (ground.is_dir() and os.access(ground, os.W_OK)):
        raise FileError(f"{folder} cannot be written: {ground} is no folder that you may write to. Choose another.")


def load(folder: str | Path, *, model: Model | None = None, algorithm: Algorithm | None = None) -> Result:
    """Read a result back. A model or an algorithm of your own must be given; lossgap's are known by their names."""
    folder = Path(folder)
    described = _read_description(folder / DESCRIPTION)
    try:
        model = model or models.by_name(described["model"])
        algorithm = algorithm or _algorithm(described["algorithm"])
        return Result(
            algorithm=algorithm,
            model=model,
            training=Training(**described["training"]),
            seed=described["seed"],
            params=_params(folder / PARAMS, model, algorithm, described),
            history=History(**read_tensors(folder / HISTORY, AGAIN)[0]),
            clients=tuple(ClientRow(**_numbers(row)) for row in described["clients"]),
            features=tuple(described["features"]),
            outputs=described["outputs"],
        )
    except SettingError as problem:
        raise FileError(f"{folder / DESCRIPTION}: {problem}") from problem
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FileError(f"{folder / DESCRIPTION}: not a complete result ({problem}). Save it again.") from problem


def rows_of(folder: str | Path) -> tuple[ClientRow, ...]:
    """Every client's numbers in a saved result, whatever its model and method are."""
    path = Path(folder) / DESCRIPTION
    try:
        return tuple(ClientRow(**_numbers(row)) for row in _read_description(path)["clients"])
    except (AttributeError, KeyError, TypeError) as problem:
        raise FileError(f"{path}: not a complete result ({problem}). {AGAIN}") from problem


def _description(result: Result) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "lossgap": lossgap.__version__,
        "algorithm": described_algorithm(result.algorithm),
        "model": result.model.name,
        "training": asdict(result.training),
        "seed": result.seed,
        "features": list(result.features),
        "outputs": result.outputs,
        # JSON knows no NaN, which accuracies are where targets are numbers.
        "clients": [{k: None if v != v else v for k, v in asdict(row).items()} for row in result.clients],
    }


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileError(f"{path.parent} holds no result: there is no {path.name} in it. Check the path.")
    described = read_json(path, AGAIN)
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise FileError(f"{path} was not written by lossgap. Give a folder that `result.save` wrote.")
    if described.get("version") != VERSION:
        raise FileError(
            f"{path} has format version {described.get('version')}, and this lossgap {lossgap.__version__} reads "
            f"version {VERSION}. Read it with lossgap {described.get('lossgap')}, which wrote it."
        )
    return described


def _algorithm(described: Mapping[str, Any]) -> Algorithm:
    kind = getattr(algorithms, described["name"], None) if described["name"] in algorithms.__all__ else None
    if kind is None:
        raise SettingError(f"the method {described['name']!r} is not one of lossgap's. Pass algorithm=… to load.")
    return kind(**{name: _setting(setting) for name, setting in described["settings"].items()})


def _setting(setting: Any) -> Any:
    if isinstance(setting, Mapping):
        return _algorithm(setting)
    return tuple(setting) if isinstance(setting, list) else setting


def _params(path: Path, model: Model, algorithm: Algorithm, described: Mapping[str, Any]) -> Params:
    """Tensors arranged as the method and the model arrange their parameters."""
    stored, _ = read_tensors(path, AGAIN)
    shape = models.initial_params(model, tuple(described["features"]), described["outputs"], seed=0)
    clients = len(described["clients"])
    shape = jax.eval_shape(lambda params: algorithm.evaluated(params, algorithm.init(params, clients)), shape)
    wanted = leaves(shape)
    if {k: v.shape for k, v in stored.items()} != {k: v.shape for k, v in wanted.items()}:
        raise FileError(f"{path} does not fit the model {model.name!r}. Pass the model it was trained with as model=….")
    return jax.tree.unflatten(jax.tree.structure(shape), [stored[name] for name in wanted])


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: float("nan") if v is None else v for k, v in row.items()}
