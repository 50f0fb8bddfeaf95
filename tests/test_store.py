"""A store: what is there is read, what is missing is trained, nothing is trained twice."""

import jax
import numpy as np
import pytest

import lossgap as lg
from lossgap.store import solos, sweep

TRAINING = lg.Training(rounds=30, step_size=0.3)
LAMBDAS = [lg.Eagle(gap_penalty=penalty) for penalty in (0.1, 1.0, 3.0)]


@pytest.fixture(scope="module")
def federation() -> lg.Federation:
    return lg.datasets.synthetic(seed=0)


@pytest.fixture
def store(tmp_path) -> lg.Store:
    return lg.Store(tmp_path / "runs")


def no_training(*_, **__):
    pytest.fail("a run was trained that is there")


def assert_identical(one: lg.Result, other: lg.Result) -> None:
    """Bit for bit."""
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    for name in ("rounds", "train_loss", "validation_loss", "gap", "multiplier"):
        np.testing.assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)
    assert repr(one.clients) == repr(other.clients)
    assert (one.algorithm, one.training, one.seed) == (other.algorithm, other.training, other.seed)


def test_a_run_is_what_train_gives_and_is_trained_once(federation, store, monkeypatch):
    plain = lg.train(federation, lg.models.linear(), lg.FedAvg(), TRAINING, seed=3)
    first = store.train(federation, lg.models.linear(), lg.FedAvg(), TRAINING, seed=3)
    monkeypatch.setattr(sweep, "run_pass", no_training)
    monkeypatch.setattr(solos, "train_solo", no_training)
    again = lg.Store(store.folder).train(
        lg.datasets.synthetic(seed=0), lg.models.linear(), lg.FedAvg(), TRAINING, seed=3
    )
    assert_identical(plain, first)
    assert_identical(first, again)


def test_a_sweep_trains_what_is_missing_only(federation, store, monkeypatch):
    def swept(algorithms):
        return store.sweep(federation, lg.models.linear(), algorithms, TRAINING, seeds=(0, 1))

    passes = []
    real = sweep.run_pass
    monkeypatch.setattr(
        sweep, "run_pass", lambda *a, **k: passes.append([str(s.algorithm) for s in a[3]]) or real(*a, **k)
    )
    first = swept(LAMBDAS[:2])
    assert passes == [[str(each) for each in LAMBDAS[:2]] * 2]
    more = swept([*LAMBDAS, lg.FedAvg()])
    assert passes[1:] == [[str(LAMBDAS[2])] * 2, ["FedAvg"] * 2]
    assert [(r.seed, r.algorithm) for r in more] == [(s, a) for s in (0, 1) for a in (*LAMBDAS, lg.FedAvg())]
    for one, again in zip(first, [more[0], more[1], more[4], more[5]], strict=True):
        assert_identical(one, again)


def test_solo_losses_are_trained_once_for_all_methods(federation, store, monkeypatch):
    calls = []
    real = solos.train_solo
    monkeypatch.setattr(solos, "train_solo", lambda *a, **k: calls.append(k["seed"]) or real(*a, **k))
    for algorithm in (lg.FedAvg(), lg.AFL()):
        for record_every in (1, 5):
            training = lg.Training(rounds=30, step_size=0.3, record_every=record_every)
            store.sweep(federation, lg.models.linear(), [algorithm], training, seeds=(0, 1))
    assert calls == [0, 1]
    plain = lg.train_solo(federation, lg.models.linear(), TRAINING, seed=1)
    again = store.train_solo(federation, lg.models.linear(), TRAINING, seed=1)
    assert calls == [0, 1]
    assert repr(plain) == repr(again)


def test_a_run_that_diverges_stops_no_other(federation, store):
    training = lg.Training(rounds=50, step_size=5.0)
    wild = lg.Eagle(gap_penalty=1e6, normalize=None)
    methods = [lg.Eagle(gap_penalty=0.1, normalize=None), wild, lg.FedAvg()]
    with pytest.raises(lg.DivergedError, match="Eagle") as first:
        store.sweep(federation, lg.models.linear(), methods, training)
    kept = store.sweep(federation, lg.models.linear(), methods, training, skip_diverged=True)
    assert [result.algorithm for result in kept] == [methods[0], methods[2]]
    compared = store.compare(lambda seed: federation, lg.models.linear(), methods, training, skip_diverged=True)
    assert list(compared.results) == [str(methods[0]), str(methods[2])]
    with pytest.raises(lg.DivergedError) as again:
        store.train(federation, lg.models.linear(), wild, training)
    assert str(again.value) == str(first.value)
