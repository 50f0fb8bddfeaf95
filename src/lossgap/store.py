"""Results on disk: JSON and safetensors, never pickle."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import lossgap
from lossgap import algorithms, models
from lossgap.algorithms import Algorithm
from lossgap.engine.run import History
from lossgap.errors import FileError, SettingError
from lossgap.metrics import ClientRow
from lossgap.models import Model, Params
from lossgap.result import Result
from lossgap.training import Training

FORMAT = "lossgap result"
VERSION = 1
DESCRIPTION, PARAMS, HISTORY = "result.json", "params.safetensors", "history.safetensors"


def save(result: Result, folder: str | Path) -> Path:
    """Write a result into a folder of its own, all or nothing; an earlier result in it is replaced."""
    folder = Path(folder)
    check_room(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        save_file({name: np.asarray(leaf, order="C") for name, leaf in _leaves(result.params)}, draft / PARAMS)
        save_file({f.name: getattr(result.history, f.name) for f in fields(History)}, draft / HISTORY)
        (draft / DESCRIPTION).write_text(json.dumps(_description(result), indent=2, default=_plain) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


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
            history=History(**_tensors(folder / HISTORY)),
            clients=tuple(ClientRow(**_numbers(row)) for row in described["clients"]),
            features=tuple(described["features"]),
            outputs=described["outputs"],
        )
    except SettingError as problem:
        raise FileError(f"{folder / DESCRIPTION}: {problem}") from problem
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FileError(f"{folder / DESCRIPTION}: not a complete result ({problem}). Save it again.") from problem


def _description(result: Result) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "lossgap": lossgap.__version__,
        "algorithm": _described(result.algorithm),
        "model": result.model.name,
        "training": asdict(result.training),
        "seed": result.seed,
        "features": list(result.features),
        "outputs": result.outputs,
        # JSON knows no NaN, which accuracies are where targets are numbers.
        "clients": [{k: None if v != v else v for k, v in asdict(row).items()} for row in result.clients],
    }


def _described(setting: Any) -> Any:
    """A method as its name and settings, some of which may be methods themselves."""
    if not isinstance(setting, Algorithm):
        return setting
    settings = {f.name: _described(getattr(setting, f.name)) for f in fields(setting)}
    return {"name": type(setting).__name__, "settings": settings}


def _plain(number: Any) -> Any:
    """NumPy's and JAX's numbers and arrays, which JSON does not know."""
    return np.asarray(number).tolist()


def _read_description(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileError(f"{path.parent} holds no result: there is no {path.name} in it. Check the path.") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {problem}. It may be cut off; save the result again.") from problem
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
    stored = _tensors(path)
    shape = models.initial_params(model, tuple(described["features"]), described["outputs"], seed=0)
    clients = len(described["clients"])
    shape = jax.eval_shape(lambda params: algorithm.evaluated(params, algorithm.init(params, clients)), shape)
    wanted = dict(_leaves(shape))
    if {k: v.shape for k, v in stored.items()} != {k: v.shape for k, v in wanted.items()}:
        raise FileError(f"{path} does not fit the model {model.name!r}. Pass the model it was trained with as model=….")
    return jax.tree.unflatten(jax.tree.structure(shape), [stored[name] for name in wanted])


def _leaves(params: Params) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _tensors(path: Path) -> dict[str, np.ndarray]:
    try:
        return dict(load_file(path))
    except FileNotFoundError:
        raise FileError(f"{path} is missing. Save the result again.") from None
    except (SafetensorError, OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {problem}. It may be cut off; save the result again.") from problem


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: float("nan") if v is None else v for k, v in row.items()}
