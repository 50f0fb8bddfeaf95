"""Runs in MLflow: settings, every client's numbers and curves, and the files of the result."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import lossgap
from lossgap.errors import FileError, SettingError
from lossgap.identity import described_algorithm
from lossgap.result import Result

EXPERIMENT = "lossgap"
MOST_POINTS = 500
"""Longer curves are thinned out to this; the history among the files is whole."""

AT_ONCE = 1000
"""So many metrics MLflow takes in one request, and half as many characters in one parameter."""

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nobody asked for reports about our users
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default waits for minutes before it says that there is no server
    "GIT_PYTHON_REFRESH": "quiet",
}
ALLOWED = "_-./ "
"""Beside letters and digits, in names of metrics."""


class Mlflow:
    """An MLflow server, or a database such as sqlite:///runs.db, that results are logged to.

    Args:
        uri: where.
        experiment: what runs are filed under.

    The server is asked at once, so that one that does not answer is found before any work is done.
    """

    def __init__(self, uri: str, experiment: str = EXPERIMENT) -> None:
        for name, setting in QUIET.items():
            os.environ.setdefault(name, setting)
        try:
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise SettingError("Logging to MLflow needs another package: pip install 'lossgap[mlflow]'.") from None
        self.uri = uri
        try:
            self._client = MlflowClient(uri)
            found = self._client.get_experiment_by_name(experiment)
            self._experiment = found.experiment_id if found else self._client.create_experiment(experiment)
        except MlflowException as problem:
            cause = str(problem).splitlines()[0][:300].rstrip(".")
            raise FileError(f"MLflow at {uri} cannot be used: {cause}. Is the address right? Does it run?") from problem

    def log(self, result: Result, files: Sequence[Path] = ()) -> str:
        """Log a result and further files; gives the MLflow run's id."""
        from mlflow.entities import Metric, Param

        tags = {"lossgap": lossgap.__version__, "mlflow.note.content": result.verdict()}
        name = f"{result.algorithm}-seed-{result.seed}"
        run = self._client.create_run(self._experiment, run_name=name, tags=tags).info.run_id
        parameters = [Param(key, value[: AT_ONCE // 2]) for key, value in settings_of(result).items()]
        self._client.log_batch(run, params=parameters)
        now = int(time.time() * 1000)
        metrics = [Metric(key, value, now, step) for key, value, step in metrics_of(result)]
        for first in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(run, metrics=metrics[first : first + AT_ONCE])
        with TemporaryDirectory() as folder:
            for path in [*files_of(result, Path(folder)), *files]:
                self._client.log_artifact(run, str(path))
        self._client.set_terminated(run, "FINISHED" if result.stopped is None else "KILLED")
        return str(run)


def files_of(result: Result, folder: Path) -> list[Path]:
    """The result's files and the page about it, written into a folder."""
    files = list(result.save(folder / "result").iterdir())
    if hasattr(lossgap, "report"):
        lossgap.report(result, folder / "report.html")
        files.append(folder / "report.html")
    return files


def settings_of(result: Result) -> dict[str, str]:
    """What a run was asked to do, as names and texts."""
    method = described_algorithm(result.algorithm)
    found = {
        "method": method["name"],
        **_flat(f"{method['name']}.", method["settings"]),
        **_flat("training.", asdict(result.training)),
        "model": result.model.name,
        "seed": result.seed,
        "clients": len(result.clients),
    }
    return {name: str(each) for name, each in found.items()}


def metrics_of(result: Result) -> Iterator[tuple[str, float, int]]:
    """(name, value, round): every client's curves and final numbers, then summaries. What is no number is left out."""
    history = result.history
    chosen = np.unique(np.linspace(0, len(history) - 1, MOST_POINTS).round().astype(int))
    last = int(history.rounds[-1])
    for k, client in enumerate(result.clients):
        name = _allowed(client.name)
        for kind in ("gap", "multiplier", "train_loss", "validation_loss"):
            curve = getattr(history, kind)[:, k]
            yield from _finite((f"{kind}/{name}", curve[i], history.rounds[i]) for i in chosen)
        numbers = {each: value for each, value in asdict(client).items() if each not in ("name", "gap")}
        final = {f"final_{each}/{name}": value for each, value in numbers.items()} | {f"final_gap/{name}": client.gap}
        yield from _finite((each, value, last) for each, value in final.items())
    summary = asdict(result.summary())
    yield "clients_worse_off", float(len(summary.pop("worse_off"))), last
    yield from _finite((each, value, last) for each, value in summary.items())


def _finite(points: Any) -> Iterator[tuple[str, float, int]]:
    return ((name, float(value), int(step)) for name, value, step in points if np.isfinite(value))


def _flat(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{prefix}{name}": json.dumps(each) if isinstance(each, Mapping) else each for name, each in settings.items()
    }


def _allowed(name: str) -> str:
    """A client's name as MLflow takes it for a metric."""
    return "".join(c if (c.isascii() and c.isalnum()) or c in ALLOWED else "_" for c in name)
