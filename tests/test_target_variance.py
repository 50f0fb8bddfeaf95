"""ε-loss gap parity as a goal: λ follows from a variance that the gaps shall not exceed."""

import numpy as np
import pytest

import lossgap as lg

TRAINING = lg.Training(rounds=3000, step_size=0.5, record_every=10, gap_split="train")


def variance(result: lg.Result) -> np.ndarray:
    return result.history.gap.var(axis=1, ddof=1)


@pytest.fixture(scope="module")
def synthetic() -> tuple[lg.Federation, lg.Solo]:
    federation = lg.datasets.synthetic(seed=0)
    return federation, lg.train_solo(federation, lg.models.linear(), TRAINING)


def trained(synthetic: tuple[lg.Federation, lg.Solo], **settings: float) -> lg.Result:
    federation, solo = synthetic
    eagle = lg.Eagle(normalize="sqrt-k", **settings)
    return lg.train(federation, lg.models.linear(), eagle, TRAINING, solo=solo)


def test_the_variance_comes_down_to_its_target(synthetic) -> None:
    free = variance(trained(synthetic, gap_penalty=0.0))[-1]
    goal = free / 2
    result = trained(synthetic, target_variance=goal)
    assert variance(result)[-1] < 1.05 * goal < free
    assert variance(result)[-1] > 0.5 * goal  # and no further than asked for: λ comes down again


def test_a_target_that_holds_anyhow_is_fedavg(synthetic) -> None:
    asked, free = trained(synthetic, target_variance=1e6), trained(synthetic, gap_penalty=0.0)
    np.testing.assert_array_equal(asked.params["kernel"], free.params["kernel"])
    assert "was reached: " in asked.verdict()


def test_a_target_out_of_reach_is_said_with_the_best_found(synthetic) -> None:
    result = trained(synthetic, target_variance=1e-12)
    assert "target variance 1e-12 was not reached" in result.verdict()


def test_levelling_down_is_called_by_its_name() -> None:
    eagle = lg.Eagle(target_variance=0.05)
    gaps = np.array([[0.1, 0.7], [0.6, 0.9], [0.9, 0.95]])
    (remark,) = eagle.remarks(np.array([0, 10, 20]), gaps)
    assert "by levelling down: the worst gap is 0.95, and was 0.7 at round 0" in remark


def test_a_target_needs_no_penalty_and_one_of_them_is_needed() -> None:
    assert str(lg.Eagle(target_variance=0.01)) == "Eagle(target_variance=0.01)"
    with pytest.raises(lg.SettingError, match="neither gap_penalty nor target_variance"):
        lg.Eagle()
