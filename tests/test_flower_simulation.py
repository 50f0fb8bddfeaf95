"""The same run on Ray, by the same command."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from conftest import made
from lossgap.cli import main
from lossgap.flower import simulate
from test_flower import LOCAL_RULES, REWEIGHTING, apart

MODEL = lg.models.linear()
CONFIG = """
[federation]
dataset = "synthetic"

[training]
rounds = 5
step_size = 0.3

[methods]
name = "Eagle"
gap_penalty = 1.0

[run]
solo = "best"
"""


def three() -> lg.Federation:
    rng = np.random.default_rng(5)
    splits = {
        name: {"train": made(rng, 20), "validation": made(rng, 8), "test": made(rng, 8)} for name in ("c", "a", "b")
    }
    return lg.Federation.from_splits(splits, classes=3)


def test_train_on_flower_gives_the_same_figures(tmp_path: Path) -> None:
    """One run through Flower's simulation and Ray, started by the command line."""
    (tmp_path / "run.toml").write_text(CONFIG)
    results = {}
    for place in ("here", "flower"):
        outcome = CliRunner().invoke(
            main, ["train", str(tmp_path / "run.toml"), "--on", place, "--out", str(tmp_path / place)]
        )
        assert outcome.exit_code == 0, outcome.output
        (folder,) = (tmp_path / place).iterdir()
        results[place] = lg.load(folder)
    assert apart(results["flower"].params, results["here"].params) < 1e-5
    np.testing.assert_allclose(results["flower"].history.gap, results["here"].history.gap, atol=1e-5)
    x = np.zeros((2, *results["here"].features))
    np.testing.assert_array_equal(results["flower"].predict(x), results["here"].predict(x))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", REWEIGHTING + LOCAL_RULES, ids=str)
def test_every_method_is_the_same_on_ray(algorithm: lg.Algorithm) -> None:
    if isinstance(algorithm, lg.Udj):
        algorithm = lg.Udj(power=2.0, desert=(1.0, 2.0, 3.0))
    training = lg.Training(rounds=5, step_size=0.3, local_epochs=2, batch_size=8)
    solo = lg.train_solo(three(), MODEL, training, stop="best")
    simulated = lg.train(three(), MODEL, algorithm, training, solo=solo)
    result = simulate(three(), MODEL, algorithm, training, solo=solo)
    assert apart(result.params, simulated.params) < 1e-5


@pytest.mark.slow
def test_a_hundred_clients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    splits = {f"site {k}": {name: made(rng, 20) for name in ("train", "validation", "test")} for k in range(100)}
    federation = lg.Federation.from_splits(splits, classes=3)
    training = lg.Training(rounds=3, step_size=0.3, participation=0.3)
    solo = lg.train_solo(federation, MODEL, training, stop="best")
    eagle = lg.Eagle(gap_penalty=1.0)
    simulated = lg.train(federation, MODEL, eagle, training, solo=solo)
    result = simulate(federation, MODEL, eagle, training, solo=solo, folder=tmp_path)
    assert apart(result.params, simulated.params) < 1e-5
