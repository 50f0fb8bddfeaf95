"""Differential privacy by Flower's modifiers, and EAGLE of which the server learns two sums only."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, Strategy

import lossgap as lg
from fake_grid import FakeGrid, jax_apps
from lossgap.algorithms.eagle import GapSums
from lossgap.engine.sequential import SequentialStepper
from lossgap.flower import SitesMissing, train_privately
from lossgap.flower.messages import packed, unpacked
from test_flower import EAGLE, MODEL, QUICK, SOLO, apart, sites, start, strategy

__all__ = ["sites"]  # a fixture


def simulated_eagle(federation: lg.Federation, training: lg.Training) -> lg.Result:
    return lg.train(federation, MODEL, EAGLE, training, solo=list(SOLO.values()), engine=SequentialStepper.of)


@pytest.mark.parametrize("normalize", ["unit", "sqrt-k", None])
@pytest.mark.parametrize("bounds", [None, (0.1, 0.6)])
def test_a_site_finds_its_own_multiplier_from_two_sums(normalize: str | None, bounds: tuple | None) -> None:
    eagle = lg.Eagle(gap_penalty=0.7, normalize=normalize, multiplier_range=bounds)
    gaps = np.random.default_rng(0).normal(size=7)
    book = eagle.init((), 7)
    heard = replace(book, gaps=jnp.asarray(gaps, jnp.float32), age=jnp.zeros(7, jnp.int32))
    everyone = eagle.multipliers(heard)
    sums = GapSums(7, gaps.sum(), (gaps**2).sum())
    np.testing.assert_allclose([float(eagle.own_multiplier(gap, sums)) for gap in gaps], everyone, rtol=1e-5)
    at_first = eagle.own_multiplier(None, GapSums(7, 0.0, 0.0))
    np.testing.assert_allclose(at_first, eagle.multipliers(eagle.init((), 7))[0], rtol=1e-6)


def test_private_eagle_equals_eagle(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=5, step_size=0.3, local_steps=2)
    alone = lg.train_solo(sites, MODEL, training)
    simulated = lg.train(sites, MODEL, EAGLE, training, solo=alone, engine=SequentialStepper.of)
    seen: list = []

    def listen(name: str, reply: object) -> object:
        seen.append(reply)
        return reply

    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, private=True), change=listen)
    result = train_privately(grid, start(sites), EAGLE, training, sites=tuple(SOLO), patience=QUICK)
    assert apart(result.params, simulated.params) < 3e-5  # SecAgg+ rounds what it sends, by up to 4e-6
    np.testing.assert_allclose(result.mean_gaps, simulated.history.gap[:-1].mean(axis=1), atol=1e-4)
    np.testing.assert_allclose(result.gap_variances, simulated.history.gap[:-1].var(axis=1, ddof=1), atol=1e-3)
    said = {key for reply in seen for record in reply.content.metric_records.values() for key in record}
    assert said <= {"num_examples"}
    assert all(len(record) == 0 for reply in seen for record in reply.content.array_records.values())


def test_a_private_site_answers_nothing_else(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, private=True))
    with pytest.raises(SitesMissing, match="its answer is an error"):
        strategy(EAGLE, lg.Training(rounds=1)).run(grid, start(sites))


def test_what_a_private_run_cannot_do_is_refused(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, private=True))
    for method, names, match in [
        (lg.Eagle(gap_penalty=1.0, lag=0), tuple(SOLO), "Use lag=1"),
        (lg.Eagle(target_variance=0.1), tuple(SOLO), "looks at single gaps"),
        (EAGLE, ("lyon", "lille"), "Use at least 3"),
    ]:
        with pytest.raises(lg.SettingError, match=match):
            train_privately(grid, start(sites), method, lg.Training(rounds=1), sites=names, patience=QUICK)


def norm(tree: object) -> float:
    return float(np.sqrt(sum(np.square(leaf).sum() for leaf in jax.tree.leaves(tree))))


def test_clipped_updates_are_what_flower_clips(sites: lg.Federation, tmp_path: Path) -> None:
    """One round of FedAvg at a clipping norm below every update: the model moves by the mean of unit vectors."""
    training = lg.Training(rounds=1, step_size=0.3)
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, mods=[fixedclipping_mod]))
    begin = start(sites)
    moved = strategy(lg.FedAvg(), training).run(grid, begin, config={"clipping_norm": 0.01}).params
    single = lg.train(sites, MODEL, lg.FedAvg(), training, solo=list(SOLO.values()), engine=SequentialStepper.of)
    assert norm(jax.tree.map(np.subtract, moved, begin)) <= 0.01 + 1e-6
    assert norm(jax.tree.map(np.subtract, single.params, begin)) > 0.02
    free = strategy(lg.FedAvg(), training).run(grid, begin, config={"clipping_norm": 1e6}).params
    assert apart(free, single.params) < 1e-6


def test_flowers_wrapper_for_differential_privacy_wraps_eagle(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=4, step_size=0.3)
    begin = start(sites)
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, mods=[fixedclipping_mod]))

    def trained(noise: float, clipping: float) -> dict:
        wrapped = DifferentialPrivacyClientSideFixedClipping(strategy(EAGLE, training), noise, clipping, 4)
        result = wrapped.start(grid, packed(begin), num_rounds=4, train_config=ConfigRecord())
        assert isinstance(result.arrays, ArrayRecord)
        return unpacked(result.arrays)

    simulated = simulated_eagle(sites, training)
    assert apart(trained(0.0, 1e6), simulated.params) < 1e-5
    noisy = trained(1.0, 0.1)
    assert 1e-4 < apart(noisy, simulated.params) < 10


def test_a_wrapped_run_has_no_folder(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    wrapped = DifferentialPrivacyClientSideFixedClipping(
        strategy(EAGLE, lg.Training(rounds=1), folder=tmp_path / "run"), 0.0, 1.0, 4
    )
    with pytest.raises(lg.SettingError, match="Leave folder out"):
        wrapped.start(grid, packed(start(sites)), num_rounds=1)


@pytest.mark.parametrize("lag", [0, 1])
def test_the_two_halves_of_a_round_are_the_round(sites: lg.Federation, tmp_path: Path, lag: int) -> None:
    """Flower's own loop, in double precision, also where clients are measured before they train."""
    training = lg.Training(rounds=3, step_size=0.3, precision="float64")
    method = lg.Ditto(base=lg.Eagle(gap_penalty=1.0, lag=lag))
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    begin = start(sites, "float64")
    halved, whole = strategy(method, training), strategy(method, training).run(grid, begin)
    Strategy.start(halved, grid, packed(begin), num_rounds=3)
    assert halved.session is not None
    assert apart(halved.session.carry[1][1], whole.params) < 1e-13


def test_local_differential_privacy_adds_its_noise(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=3, step_size=0.3)
    # The noise has the deviation sensitivity · √(2 ln(1.25/δ)) / ε = 0.0048 in each number, half of it in the mean.
    mod = LocalDpMod(clipping_norm=1e6, sensitivity=0.01, epsilon=10.0, delta=1e-5)
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, mods=[mod]))
    noisy = strategy(EAGLE, training).run(grid, start(sites))
    simulated = simulated_eagle(sites, training)
    assert 1e-4 < apart(noisy.params, simulated.params) < 0.1
