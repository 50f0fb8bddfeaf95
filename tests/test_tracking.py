"""What MLflow is told is what the result holds. The store of this test is MLflow's own, in files."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap import tracking
from lossgap.cli import main
from lossgap.tracking import MOST_POINTS, Mlflow, metrics_of, settings_of


@pytest.fixture(scope="module")
def result() -> lg.Result:
    rng = np.random.default_rng(0)
    rows = {name: (rng.normal(size=(30, 2)), rng.integers(0, 2, 30)) for name in ("Lyon #1", "Zürich")}
    federation, training = lg.Federation.from_arrays(rows), lg.Training(rounds=1200)
    return lg.train(federation, lg.models.linear(), lg.Eagle(gap_penalty=1.0), training, solo=[0.1, 0.2])


def test_curves_are_thinned_out_and_end_where_the_run_ends(result):
    points = [(value, step) for name, value, step in metrics_of(result) if name == "gap/Lyon _1"]
    assert len(points) == MOST_POINTS
    assert points[0] == (result.history.gap[0, 0], 0)
    assert points[-1] == (result.history.gap[-1, 0], 1200)
    assert [step for _, step in points] == sorted({step for _, step in points})


def test_settings_reach_down_to_the_base_of_a_method(result):
    settings = settings_of(replace(result, algorithm=lg.Ditto(base=lg.Eagle(gap_penalty=1.0), pull=0.5)))
    assert settings["Ditto.pull"] == "0.5"
    assert '"gap_penalty": 1.0' in settings["Ditto.base"]
    assert settings["training.rounds"] == "1200"


def test_a_run_is_logged_with_its_files(result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setattr(tracking, "MOST_POINTS", 20)
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    run = MlflowClient(uri).get_run(Mlflow(uri).log(result))
    assert run.info.status == "FINISHED"
    assert run.data.params == settings_of(result)
    for row, name in zip(result.clients, ("Lyon _1", "Z_rich"), strict=True):
        assert run.data.metrics[f"final_gap/{name}"] == row.gap
        assert run.data.metrics[f"final_test_accuracy/{name}"] == row.test_accuracy
    assert run.data.metrics["max_gap"] == result.summary().max_gap
    assert len(MlflowClient(uri).get_metric_history(run.info.run_id, "gap/Lyon _1")) == 20
    files = {file.path for file in MlflowClient(uri).list_artifacts(run.info.run_id)}
    assert files >= {"result.json", "params.safetensors", "history.safetensors"}
    assert ("report.html" in files) == hasattr(lg, "report")


def test_an_address_that_is_none_is_found_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("lossgap.passes.drive", lambda *_, **__: pytest.fail("training began"))
    (tmp_path / "run.toml").write_text(
        f'[federation]\ndataset = "two_clients"\n[run]\nout = "{tmp_path / "out"}"\n[methods]\nname = "FedAvg"\n'
    )
    outcome = CliRunner().invoke(main, ["train", str(tmp_path / "run.toml"), "--mlflow", "gopher://nowhere"])
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("error: MLflow at gopher://nowhere cannot be used")
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", None)
    with pytest.raises(lg.SettingError, match=r"pip install 'lossgap\[mlflow\]'"):
        Mlflow("sqlite:///runs.db")


def test_a_run_that_was_stopped_is_marked(result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setattr(tracking, "MOST_POINTS", 20)
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    stopped = replace(result, training=replace(result.training, rounds=5000))
    assert MlflowClient(uri).get_run(Mlflow(uri).log(stopped)).info.status == "KILLED"
