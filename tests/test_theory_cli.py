"""`lossgap theory` and step_size = "safe" in a file."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lossgap import config
from lossgap.cli import main

EAGLE = '[federation]\ndataset = "synthetic"\n[training]\n{training}\n[[methods]]\nname = "{method}"\n{more}\n'


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["theory", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(EAGLE.format(training="step_size = 0.05", method="Eagle", more="gap_penalty = 1.0"))
    return path


def test_it_tells_constants_the_safe_step_and_both_theorems(file: Path) -> None:
    told = run(file, "--rounds", 20)
    assert told.exit_code == 0, told.output
    for words in (
        "B anywhere",
        'step_size="safe" is 0.00',
        "too large for the theorems",
        "With a step size that is covered",
    ):
        assert words in told.output
    assert "2: mean ‖∇L‖²" in told.output
    assert "The price of fairness" in told.output


def test_a_saved_result_holds_no_rows(tmp_path: Path) -> None:
    refused = run(tmp_path)
    assert refused.exit_code == 1
    assert "holds no rows" in refused.stderr


def test_there_must_be_an_eagle(file: Path) -> None:
    file.write_text(EAGLE.format(training="", method="FedAvg", more=""))
    refused = run(file)
    assert refused.exit_code == 1
    assert "names no Eagle" in refused.stderr


def test_local_epochs_are_refused(file: Path) -> None:
    file.write_text(EAGLE.format(training="local_epochs = 2", method="Eagle", more="gap_penalty = 1.0"))
    refused = run(file)
    assert refused.exit_code == 1
    assert "Use local_steps" in refused.stderr


def test_a_file_may_ask_for_the_safe_step(file: Path) -> None:
    file.write_text(EAGLE.format(training='step_size = "safe"', method="Eagle", more="gap_penalty = 1.0"))
    assert config.read(file).training.step_size == "safe"
    file.write_text(EAGLE.format(training='step_size = "sfae"', method="Eagle", more="gap_penalty = 1.0"))
    told = CliRunner().invoke(main, ["train", str(file)])
    assert told.exit_code == 1
    assert "training.step_size" in told.stderr


@pytest.mark.slow
def test_figures_are_drawn(file: Path, tmp_path: Path) -> None:
    told = run(file, "--rounds", 20, "--figures", tmp_path / "figures")
    assert told.exit_code == 0, told.output
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"rounds.svg", "looseness.svg", "rate.svg", "price.svg"}
