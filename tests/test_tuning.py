"""The path of λ: the same runs as one by one, rules that choose on it, and what a user is warned of."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap.cli import main
from lossgap.tuning import Point, accurate, knee, lowest_worst_gap, of_results

TRAINING = lg.Training(rounds=300, step_size=0.5)


def point(penalty: float, gaps: list[float], accuracy: float = 0.9, loss: float = 0.5) -> Point:
    """A made-up λ."""
    return Point(
        penalty=penalty,
        gaps=np.array(gaps),
        gap_variance=float(np.var(gaps, ddof=1)),
        accuracy=accuracy,
        mean_loss=loss,
        smallest_multiplier=0.1,
        step_share=1.0,
    )


@pytest.fixture(scope="module")
def path() -> lg.Frontier:
    return lg.frontier(lg.datasets.synthetic(seed=0), lg.models.linear(), TRAINING, penalties=(5.0, 1.0))


def test_fedavg_is_on_the_path_and_lambdas_ascend(path: lg.Frontier) -> None:
    assert [p.penalty for p in path.points] == [0.0, 1.0, 5.0]


def test_each_point_is_the_run_that_one_would_have_made_alone(path: lg.Frontier) -> None:
    alone = lg.train(lg.datasets.synthetic(seed=0), lg.models.linear(), lg.Eagle(gap_penalty=5.0), TRAINING)
    np.testing.assert_allclose(path.points[2].gaps, [client.gap for client in alone.clients], rtol=1e-3, atol=1e-5)


def test_the_run_of_a_recommended_lambda_is_at_hand(path: lg.Frontier) -> None:
    (result,) = path.results[path.chosen]
    assert result.algorithm.gap_penalty == path.recommended
    assert f"λ = {path.recommended:g}" in str(path)


def test_the_lowest_worst_gap_is_chosen() -> None:
    assert lowest_worst_gap([point(0, [0, 0.5]), point(1, [0.1, 0.4]), point(2, [0.45, 0.45])]) == 1


def test_the_knee_is_where_variance_has_fallen_and_loss_has_not_risen() -> None:
    points = [point(0, [0, 0.5], loss=0.5), point(1, [0.1, 0.2], loss=0.51), point(2, [0.2, 0.2], loss=0.9)]
    assert knee(points) == 1


def test_the_largest_lambda_within_a_point_of_accuracy_is_chosen() -> None:
    points = [point(p, [0, 0], accuracy) for p, accuracy in enumerate((0.9, 0.88, 0.895, 0.7))]
    assert accurate(points) == 2
    assert accurate(points, within=0.3) == 3


def test_levelling_down_is_where_everybody_is_worse_off_for_less_variance(path: lg.Frontier) -> None:
    levelled = [point(0, [0, 0.5]), point(1, [0.1, 0.4]), point(2, [0.45, 0.46])]
    found = replace(path, points=tuple(levelled), chosen=1)
    assert found.turning_point == 2
    assert found.warnings[0].startswith("Levelling down: at λ = 2 the gaps vary less than at λ = 1")
    without = replace(path, points=tuple(levelled[:2]), chosen=1)
    assert without.turning_point is None
    assert not any("Levelling" in warning for warning in without.warnings)


def test_negative_multipliers_and_short_steps_are_told(path: lg.Frontier) -> None:
    assert any("multipliers are negative" in w and "client" in w for w in path.warnings)
    short = replace(path, points=tuple(replace(p, step_share=1 - p.penalty / 6) for p in path.points))
    assert any("0.17 of it at λ = 5" in w for w in short.warnings)


def test_equal_multipliers_are_full_steps_whatever_the_normalisation() -> None:
    federation = lg.datasets.synthetic(seed=0)
    for normalize in ("unit", "sqrt-k", None):
        eagle = lg.Eagle(gap_penalty=0.0, normalize=normalize)
        found = lg.frontier(federation, lg.models.linear(), lg.Training(rounds=3), penalties=(2.0,), eagle=eagle)
        assert found.points[0].step_share == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("penalties", "cause"), [((1.0, 1.0), "stands twice"), ((0.0,), "no λ above 0"), ((-1.0,), "is -1")]
)
def test_a_path_that_means_nothing_is_refused(penalties: tuple[float, ...], cause: str) -> None:
    with pytest.raises(lg.SettingError, match=cause):
        lg.frontier(lg.datasets.synthetic(seed=0), lg.models.linear(), TRAINING, penalties=penalties)


def test_runs_without_a_lambda_have_no_frontier() -> None:
    result = lg.train(lg.datasets.synthetic(seed=0), lg.models.linear(), lg.FedAvg(), lg.Training(rounds=2))
    with pytest.raises(lg.SettingError, match="no fixed λ"):
        of_results([[result]])


def test_the_command_recommends_and_writes(tmp_path: Path) -> None:
    config = tmp_path / "tune.toml"
    config.write_text(
        '[federation]\ndataset = "synthetic"\n[training]\nrounds = 20\nstep_size = 0.5\n'
        '[[methods]]\nname = "Eagle"\ngap_penalty = 1.0\nnormalize = "sqrt-k"\n[run]\nseeds = [0, 42]\n'
    )
    out = tmp_path / "runs"
    done = CliRunner().invoke(main, ["tune", str(config), "--penalties", "0.5,2", "--rule", "knee", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "Recommended: λ = " in done.output
    assert "the knee" in done.output
    assert len(list(out.iterdir())) == 6
    wrong = CliRunner().invoke(main, ["tune", str(config), "--penalties", "a,b"])
    assert wrong.exit_code == 2
    assert "no list of numbers" in wrong.output


def test_a_lambda_that_diverges_is_left_out_and_told() -> None:
    found = lg.frontier(
        lg.datasets.synthetic(seed=0),
        lg.models.linear(),
        lg.Training(rounds=200, step_size=0.5),
        penalties=(0.5, 1e6),
        eagle=lg.Eagle(gap_penalty=0.0, normalize=None),
    )
    assert [p.penalty for p in found.points] == [0.0, 0.5]
    assert found.diverged == (1e6,)
    assert found.warnings[0].startswith("λ = 1e+06 diverged and is left out")


def test_fedavg_that_diverges_ends_the_search() -> None:
    with pytest.raises(lg.DivergedError):
        lg.frontier(huge(), lg.models.linear(), lg.Training(rounds=50, step_size=5.0), penalties=(1.0,), solo=[0, 0])


def test_numbers_have_no_accuracy_to_choose_by() -> None:
    with pytest.raises(lg.SettingError, match="no accuracy to choose λ by"):
        lg.frontier(huge(), lg.models.linear(), lg.Training(rounds=5, step_size=0.01), penalties=(1.0,), rule=accurate)


def huge() -> lg.Federation:
    """Numbers to predict, from features with a variance of nine."""
    rng = np.random.default_rng(0)
    arrays = {name: (3 * rng.normal(size=(40, 2)), rng.normal(size=40)) for name in ("north", "south")}
    return lg.Federation.from_arrays(arrays)


def test_it_says_on_which_rows_gaps_were_measured(path: lg.Frontier) -> None:
    assert "gaps are those on validation rows" in str(path)
    federation, training = lg.datasets.synthetic(seed=0), lg.Training(rounds=3, gap_split="train")
    assert "gaps are those on training rows" in str(lg.frontier(federation, lg.models.linear(), training))


def test_every_warning_in_a_run_of_its_own() -> None:
    """Real runs: a strong λ on the synthetic clients makes multipliers negative and steps short."""
    federation, training = lg.datasets.synthetic(seed=0), lg.Training(rounds=1000, step_size=0.5, gap_split="train")
    solo = lg.train_solo(federation, lg.models.linear(), training)
    found = lg.frontier(federation, lg.models.linear(), training, penalties=(1.0, 5.0, 100.0), solo=solo)
    text = "\n".join(found.warnings)
    assert "multipliers are negative" in text
    assert "less than half as long" in text
    assert found.recommended < 100
    assert found.turning_point is not None
