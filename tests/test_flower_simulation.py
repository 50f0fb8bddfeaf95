"""The same run on Ray, by the same command."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from flwr.serverapp import Grid

import lossgap as lg
from conftest import made
from lossgap.cli import main
from lossgap.flower import FairStrategy, simulate
from lossgap.flower.simulation import PATIENCE, Partitions, on_ray
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
def test_every_method_is_the_same_on_ray(capsys: pytest.CaptureFixture) -> None:
    federation, names = three(), ("c", "a", "b")
    solo = dict(zip(names, (0.3, 0.2, 0.4), strict=True))
    methods = [lg.Udj(power=2.0, desert=(1.0, 2.0, 3.0)) if type(m) is lg.Udj else m for m in REWEIGHTING + LOCAL_RULES]
    training = lg.Training(rounds=5, step_size=0.3, local_epochs=2, batch_size=8)
    start = lg.models.initial_params(MODEL, federation.features, federation.outputs, seed=0)
    found: list[lg.Result] = []

    def work(grid: Grid) -> None:
        identify = Partitions(names)
        for method in methods:
            strategy = FairStrategy(method, training, sites=names, solo=solo, identify=identify, patience=PATIENCE)
            found.append(strategy.run(grid, start))

    on_ray(federation, MODEL, work)
    apartness = {}
    for method, result in zip(methods, found, strict=True):
        simulated = lg.train(federation, MODEL, method, training, solo=list(solo.values()))
        apartness[str(method)] = apart(result.params, simulated.params)
    with capsys.disabled():
        print("", *(f"{distance:.1e} {method}" for method, distance in apartness.items()), sep="\n")
    assert max(apartness.values()) < 1e-5


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
