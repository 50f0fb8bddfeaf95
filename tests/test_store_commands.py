"""Commands keep what they train, so that the same command goes on where it was cut off."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner, Result

import lossgap as lg
from lossgap import passes
from lossgap.cli import main
from lossgap.store.scratch import scratch

FILE = """
[federation]
dataset = "two_clients"
[training]
rounds = 40
[run]
seeds = [0, 1]
out = "OUT"
[[methods]]
name = "FedAvg"
"""
EAGLE = '[[methods]]\nname = "Eagle"\ngap_penalty = 1.0\n'


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [command, *map(str, arguments)])


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(FILE.replace("OUT", (tmp_path / "out").as_posix()))
    return path


@pytest.fixture
def passes_made(monkeypatch) -> list[str]:
    """What is trained, in turn."""
    made, real = [], passes.drive

    def drive(*arguments, label, **more):
        made.append(label)
        return real(*arguments, label=label, **more)

    monkeypatch.setattr(passes, "drive", drive)
    return made


def interrupted_at_line(number: int, monkeypatch) -> None:
    """From now on, runs are interrupted after so many lines of their history."""
    real, seen = passes.drive, []

    def look(lines) -> None:
        seen.extend(lines.rounds)
        if len(seen) >= number:
            raise KeyboardInterrupt

    monkeypatch.setattr(passes, "drive", lambda *a, **more: real(*a, **{**more, "onlooker": look}))


def results(out: Path) -> dict[str, lg.Result]:
    return {path.name: lg.load(path) for path in sorted(out.iterdir()) if not path.name.startswith(".")}


def assert_identical(one: lg.Result, other: lg.Result) -> None:
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    np.testing.assert_array_equal(one.history.gap, other.history.gap)


@pytest.mark.parametrize("command", ["train", "compare"])
def test_the_same_command_goes_on_where_it_was_interrupted(file, tmp_path, monkeypatch, passes_made, command):
    assert run(command, file, "--out", tmp_path / "whole").exit_code == 0
    passes_made.clear()
    with monkeypatch.context() as patch:
        interrupted_at_line(7, patch)
        outcome = run(command, file)
    assert outcome.exit_code == 1
    assert "the same command goes on from there" in outcome.stderr
    assert (tmp_path / "out" / ".unfinished").exists()
    so_far = results(tmp_path / "out")
    if command == "train":
        (stopped,) = so_far.values()
        assert 0 < stopped.stopped < 40
        assert f"stopped after {stopped.stopped} of 40 rounds" in outcome.stdout
    else:
        assert not so_far
    assert run(command, file).exit_code == 0
    again, whole = results(tmp_path / "out"), results(tmp_path / "whole")
    assert again.keys() == whole.keys()
    for name in whole:
        assert_identical(again[name], whole[name])
    assert not (tmp_path / "out" / ".unfinished").exists()


def test_a_store_is_shared_by_commands(file, tmp_path, passes_made):
    file.write_text(file.read_text() + EAGLE)
    store = tmp_path / "store"
    assert run("compare", file, "--store", store).exit_code == 0
    made = len(passes_made)
    assert made == 4
    first = run("compare", file, "--store", store, "--out", tmp_path / "again")
    assert first.exit_code == 0
    assert len(passes_made) == made
    assert run("tune", file, "--store", store, "--penalties", "1,5").exit_code == 0
    assert passes_made[made:] == ["Training"] * 2, "λ = 0 and λ = 5 side by side, for each seed; λ = 1 is there"
    assert not list((tmp_path / "out").glob(".*"))


def test_nothing_is_left_of_a_command_that_came_to_nothing(file, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lossgap.solo.train_alone", interrupted)
    outcome = run("train", file)
    assert outcome.exit_code == 1
    assert "goes on from there" not in outcome.stderr
    assert not (tmp_path / "out").exists()


def test_the_last_user_of_a_scratch_store_removes_it(tmp_path):
    place = partial(scratch, tmp_path / "out" / ".unfinished")
    with place():
        with place():
            pass
        assert (tmp_path / "out" / ".unfinished" / "store.json").exists()
    assert not (tmp_path / "out").exists()
