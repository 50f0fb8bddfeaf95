"""`lossgap runs`: what a store holds, for people to look through."""

import csv
import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import lossgap as lg
from lossgap.cli import main
from lossgap.store import catalogue, tables
from lossgap.store.layout import opened

TRAINING = lg.Training(rounds=8, step_size=0.3)
METHODS = [lg.Eagle(gap_penalty=0.5), lg.FedAvg()]


def run(*arguments: str | Path, **more) -> Result:
    return CliRunner().invoke(main, ["runs", *map(str, arguments)], **more)


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> tuple[Path, lg.Comparison]:
    """A store with two methods on two seeds."""
    folder = tmp_path_factory.mktemp("runs") / "store"
    return folder, lg.Store(folder).compare(lg.datasets.synthetic, lg.models.linear(), METHODS, TRAINING, seeds=(0, 1))


@pytest.fixture
def store(filled, tmp_path) -> Path:
    """A copy of it, to be changed."""
    import shutil

    return Path(shutil.copytree(filled[0], tmp_path / "store"))


def test_every_run_is_listed(filled):
    outcome = run("list", filled[0])
    assert outcome.exit_code == 0, outcome.output
    lines = outcome.stdout.splitlines()
    assert [line.split()[1:3] for line in lines[2:6]] == [
        ["Eagle(gap_penalty=0.5)", "0"],
        ["Eagle(gap_penalty=0.5)", "1"],
        ["FedAvg", "0"],
        ["FedAvg", "1"],
    ]
    assert "4 runs, 2 sets of solo models, 0 under way" in lines[6]


def test_a_run_is_shown_by_the_first_digits_of_its_hash(filled):
    folder, comparison = filled
    found = catalogue.runs(opened(folder))[2]
    outcome = run("show", folder, found.key[:6])
    assert outcome.exit_code == 0
    assert found.key in outcome.stdout
    for client in comparison.results["FedAvg"][0].clients:
        assert f"{client.gap:.3f}" in outcome.stdout
        assert client.name in outcome.stdout


def test_runs_are_compared_as_compare_does(filled):
    folder, comparison = filled
    outcome = run("compare", folder)
    assert outcome.exit_code == 0
    assert str(comparison) in outcome.stdout


def test_runs_on_several_federations_with_one_seed_are_not_mixed(store):
    other = lg.datasets.synthetic(seed=7)
    lg.Store(store).sweep(other, lg.models.linear(), METHODS, TRAINING, seeds=(0, 1))
    texts = tables.comparisons(catalogue.runs(opened(store)))
    assert len(texts) == 3, "two federations of one seed each, and one with two seeds"
    assert sum("one seed" in text for text in texts) == 2


def test_other_settings_stand_in_a_table_of_their_own(store):
    longer = lg.Training(rounds=9, step_size=0.3)
    lg.Store(store).train(lg.datasets.synthetic(seed=0), lg.models.linear(), lg.FedAvg(), longer)
    texts = tables.comparisons(catalogue.runs(opened(store)))
    assert [text.split(",")[1] for text in texts] == [" 8 rounds", " 9 rounds"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_client_is_exported(filled, tmp_path, ending):
    folder, comparison = filled
    file = tmp_path / f"clients.{ending}"
    assert run("export", folder, file).exit_code == 0
    if ending == "csv":
        rows = list(csv.DictReader(file.open(encoding="utf-8")))
    else:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    expected = {
        (label, result.seed, client.name): client
        for label, results in comparison.results.items()
        for result in results
        for client in result.clients
    }
    assert len(rows) == len(expected) == 12
    for row in rows:
        client = expected[row["method"], int(row["seed"]), row["name"]]
        for name, value in asdict(client).items():
            assert type(value)(row[name]) == value, name
        assert json.loads(row["settings"])["training"]["rounds"] == 8


def test_summaries_are_exported(filled, tmp_path):
    folder, comparison = filled
    assert run("export", folder, tmp_path / "runs.parquet", "Fed*", "--summaries").exit_code == 0
    rows = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    variances = [result.summary().gap_variance for result in comparison.results["FedAvg"]]
    np.testing.assert_array_equal([row["gap_variance"] for row in rows], variances)


def test_a_file_of_another_kind_is_refused(filled, tmp_path):
    outcome = run("export", filled[0], tmp_path / "clients.xlsx")
    assert (outcome.exit_code, outcome.stderr.startswith("error: ")) == (1, True)
    assert ".parquet" in outcome.stderr


def test_removing_asks_first(store):
    assert run("remove", store, "FedAvg*", input="n\n").exit_code == 1
    assert len(catalogue.runs(opened(store))) == 4
    outcome = run("remove", store, "FedAvg*", input="y\n")
    assert outcome.exit_code == 0
    assert [found.label.split("(")[0] for found in catalogue.runs(opened(store))] == ["Eagle", "Eagle"]


def test_removing_does_not_ask_if_told_so(store):
    assert run("remove", store, "*", "--yes").exit_code == 0
    assert not [path for room in ("results", "solo", "unfinished") for path in store.glob(f"{room}/*")]


def test_a_name_that_fits_nothing_is_refused(store):
    for command in ("list", "show", "compare", "remove"):
        outcome = run(command, store, "0000")
        assert outcome.exit_code == 1
        assert "'0000' names nothing" in outcome.stderr


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    outcome = run("list", tmp_path)
    assert outcome.exit_code == 1
    assert "holds no store" in outcome.stderr
    assert not list(tmp_path.iterdir())


def spoil(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_what_cannot_be_read_is_listed_as_such(store):
    damaged, old, cut, fine = (found.folder for found in catalogue.runs(opened(store)))
    spoil(damaged / "result.json", '"gap":', '"gap": 7, "_":')
    spoil(old / "entry.json", '"version": 1', '"version": 0')
    (cut / "entry.json").write_text("{")
    states = {found.folder: found.state for found in catalogue.runs(opened(store))}
    assert states == {damaged: "damaged", old: "of another version", cut: "damaged", fine: "done"}
    listed = run("list", store).stdout.splitlines()
    assert [line.rpartition("  ")[2] for line in listed[2:6]] == list(states.values())
    assert [
        next(word for word in ("is damaged: ", "is of another version: ") if word in line) for line in listed[-3:]
    ] == ["is damaged: ", "is of another version: ", "is damaged: "]
    assert "has format version 0" in listed[-2]
    exported = run("export", store, store / "clients.csv")
    assert "3 lines written" in exported.stdout  # one for each client of the only run that is whole
    assert exported.stderr.count("Left out") == 3
    with pytest.warns(lg.DataWarning, match="trained again"):
        again = lg.Store(store).train(lg.datasets.synthetic(seed=0), lg.models.linear(), METHODS[0], TRAINING)
    assert again.clients


def test_a_store_of_another_version_is_recognised(store):
    spoil(store / "store.json", '"version": 1', '"version": 2')
    for attempt in (lambda: lg.Store(store), lambda: opened(store)):
        with pytest.raises(lg.FileError, match=r"format version 2.*reads version 1"):
            attempt()
    outcome = run("list", store)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "format version 2" in outcome.stderr


def test_a_run_of_another_release_series_is_trained_anew(store, monkeypatch):
    monkeypatch.setattr(lg, "__version__", "0.2.0")
    lg.Store(store).train(lg.datasets.synthetic(seed=0), lg.models.linear(), lg.FedAvg(), TRAINING)
    assert len(catalogue.runs(opened(store))) == 5


def test_work_under_way_is_listed_and_left_alone(store):
    federation, longer = lg.datasets.synthetic(seed=0), lg.Training(rounds=40, step_size=0.3)

    def interrupted(lines) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lg.Store(store).train(federation, lg.models.linear(), lg.FedAvg(), longer, onlooker=interrupted)
    (begun,) = catalogue.under_way(opened(store))
    assert begun.label == "FedAvg-seed-0"
    assert begun.state == "not saved yet, cut off"
    plan = json.loads((begun.folder / "plan.json").read_text())
    lock = store / "locks" / f"{plan['runs'][0]}.lock"
    lock.write_text(json.dumps({"process": 17, "machine": "elsewhere"}))
    handle = os.open(lock, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert "process 17 on elsewhere is at work" in run("list", store).stdout
    outcome = run("remove", store, begun.key, "--yes")
    assert outcome.exit_code == 1
    assert "process 17" in outcome.stderr
    os.close(handle)
    assert run("remove", store, begun.key, "--yes").exit_code == 0
    assert not catalogue.under_way(opened(store))


def test_a_run_that_diverged_is_listed_with_its_reason(store):
    wild = lg.Training(rounds=200, step_size=0.3)
    method = lg.Eagle(gap_penalty=1e6, normalize=None)
    with pytest.raises(lg.DivergedError):
        lg.Store(store).train(lg.datasets.synthetic(seed=0), lg.models.linear(), method, wild, solo=[0.1, 0.2, 0.3])
    (found,) = (found for found in catalogue.runs(opened(store)) if found.state == "diverged")
    assert "diverged" in run("list", store).stdout
    assert "too large" in run("show", store, found.key).stdout
