"""ε-loss gap parity as a goal: λ follows from a variance that the gaps shall not exceed."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from lossgap.algorithms.base import Measured
from lossgap.algorithms.eagle import GapBook
from lossgap.engine.compiled import CompiledStepper
from lossgap.engine.sequential import SequentialStepper

TRAINING = lg.Training(rounds=3000, step_size=0.5, record_every=10, gap_split="train")


def variance(result: lg.Result) -> np.ndarray:
    return result.history.gap.var(axis=1, ddof=1)


@pytest.fixture(scope="module")
def synthetic() -> tuple[lg.Federation, lg.Solo]:
    federation = lg.datasets.synthetic(seed=0)
    return federation, lg.train_solo(federation, lg.models.linear(), TRAINING)


def trained(synthetic: tuple[lg.Federation, lg.Solo], **settings: float | None) -> lg.Result:
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
    assert "target variance 1e-12 cannot be reached without levelling down" in result.verdict()


def told(eagle: lg.Eagle, *rounds: list[float], who: list[int] | None = None, **book: Any) -> GapBook:
    """The server's book after clients told their gaps, round by round; who they were, if not everybody."""
    state = replace(eagle.init((), len(rounds[0]) if who is None else 3), **book)
    for gaps in map(jnp.asarray, rounds):
        state = eagle.observe(state, Measured(gaps, gaps, gaps, None if who is None else jnp.array(who)))
    return state


@pytest.mark.parametrize("seed", range(5))
def test_the_penalty_rises_just_where_gaps_are_uneven_and_the_worst_has_room(seed: int) -> None:
    eagle, draw = lg.Eagle(target_variance=0.04, worst_gap_rise=0.1), np.random.default_rng(seed)
    state = eagle.init((), 4)
    lowest = np.inf
    for gaps in draw.normal(scale=0.25, size=(50, 4)).astype(np.float32):
        before = state if state.penalty > 0 else replace(state, penalty=jnp.asarray(0.5))
        state = eagle.observe(before, Measured(*[jnp.asarray(gaps)] * 3))
        lowest = min(lowest, gaps.max())
        sigma = gaps.std(ddof=1)
        u, v = np.clip([5 * (sigma**2 / 0.036 - 1), 5 * (1 - (gaps.max() - lowest) / 0.1)], -1, 1)
        step = 0.005 * 3 / (16 * max(sigma, 0.2))
        expected = max(0, float(before.penalty) * (1 + 0.05 * min(0, v)) + step * min(u, v))
        assert float(state.penalty) == pytest.approx(expected, abs=1e-6)
        assert (state.penalty > before.penalty) == (u > 0 and v > 0)
        assert float(state.lowest) == pytest.approx(lowest)


def test_at_any_price_the_worst_gap_does_not_hold_the_penalty_down() -> None:
    held, free = lg.Eagle(target_variance=0.001), lg.Eagle(target_variance=0.001, worst_gap_rise=None)
    before, after = [0.0, 0.1], [0.0, 9.0]
    assert told(held, before, after).penalty < told(held, before).penalty
    assert told(free, before, after).penalty > told(free, before).penalty


def test_the_penalty_moves_alike_in_any_unit_of_loss() -> None:
    """In units a thousand times as large all gaps are a thousandth, and λ, which divides by them, a thousand times."""
    gaps = np.random.default_rng(0).normal(size=(40, 4))
    nats = told(lg.Eagle(target_variance=0.5, worst_gap_rise=3.0), *gaps.tolist())
    kilos = told(lg.Eagle(target_variance=0.5e-6, worst_gap_rise=3e-3), *(gaps / 1000).tolist())
    assert float(nats.penalty) > 0
    assert float(kilos.penalty) == pytest.approx(1000 * float(nats.penalty), rel=1e-4)


def test_a_worst_gap_that_rises_without_a_penalty_is_forgiven() -> None:
    eagle, gaps = lg.Eagle(target_variance=100.0), [[0.0, 0.1], *[[0.0, 0.5]] * 100]
    assert float(told(eagle, *gaps).lowest) == pytest.approx(0.5 - 0.4 * 0.99**100, abs=1e-5)
    assert float(told(eagle, *gaps, penalty=jnp.asarray(50.0)).lowest) == pytest.approx(0.1)


def test_no_worst_gap_counts_before_everybody_was_heard() -> None:
    eagle = lg.Eagle(target_variance=0.001)
    some = told(eagle, [0.0, 0.1], who=[0, 1])
    assert float(some.lowest) > 1e30
    everybody = eagle.observe(some, Measured(*[jnp.array([0.7])] * 3, jnp.array([2])))
    assert float(everybody.lowest) == pytest.approx(0.7)


def test_a_target_out_of_reach_levels_nobody_down_unless_at_any_price() -> None:
    federation = lg.datasets.synthetic(seed=100, rows=500)
    training = replace(TRAINING, gap_split="validation")
    solo = lg.train_solo(federation, lg.models.linear(), training)

    def ended(**settings: float | None) -> lg.Result:
        eagle = lg.Eagle(normalize="sqrt-k", **settings)
        return lg.train(federation, lg.models.linear(), eagle, training, solo=solo)

    free, goal = ended(gap_penalty=0.0), 4e-4
    held, forced = ended(target_variance=goal), ended(target_variance=goal, worst_gap_rise=None)
    assert variance(held)[-1] < 0.8 * variance(free)[-1]
    assert held.summary().max_gap < free.summary().max_gap + 0.01
    assert forced.summary().max_gap > free.summary().max_gap + 0.1  # and does not reach it either
    assert "cannot be reached without levelling down: it ended at" in held.verdict()
    assert "was not reached: it ended at" in forced.verdict()


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_compiled_run_is_the_plain_one(participation: float) -> None:
    federation, eagle = lg.datasets.synthetic(seed=0), lg.Eagle(target_variance=0.001, normalize="sqrt-k")
    training = lg.Training(rounds=60, step_size=0.5, participation=participation, precision="float64")

    def ended(engine: Any) -> lg.Result:
        return lg.train(federation, lg.models.linear(), eagle, training, solo=[0.1, 0.5, 0.6], engine=engine)

    compiled, plain = ended(CompiledStepper.of), ended(SequentialStepper.of)
    np.testing.assert_allclose(compiled.history.multiplier, plain.history.multiplier, rtol=0, atol=1e-9)
    np.testing.assert_allclose(compiled.params["kernel"], plain.params["kernel"], rtol=0, atol=1e-9)
    assert np.ptp(plain.history.multiplier[-1]) > 0.1  # λ has moved


def test_levelling_down_is_called_by_its_name() -> None:
    eagle = lg.Eagle(target_variance=0.05)
    gaps = np.array([[0.1, 0.7], [0.6, 0.9], [0.9, 0.95]])
    (remark,) = eagle.remarks(np.array([0, 10, 20]), gaps)
    assert "by levelling down: the worst gap is 0.95, and was 0.7 at round 0" in remark


def test_a_target_needs_no_penalty_and_one_of_them_is_needed() -> None:
    assert str(lg.Eagle(target_variance=0.01)) == "Eagle(target_variance=0.01)"
    with pytest.raises(lg.SettingError, match="neither gap_penalty nor target_variance"):
        lg.Eagle()
