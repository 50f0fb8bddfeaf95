"""What each client reaches alone."""

import numpy as np
import pytest

import lossgap as lg
from lossgap.engine import alone

LINEAR = lg.models.linear()


@pytest.fixture(scope="module")
def federation() -> lg.Federation:
    return lg.datasets.synthetic(seed=1)


def test_solo_models_do_not_depend_on_other_clients(federation: lg.Federation) -> None:
    training = lg.Training(rounds=30, step_size=0.5, batch_size=16)
    three = lg.train_solo(federation, LINEAR, training)
    two = lg.train_solo(lg.Federation(federation.clients[1:], classes=2), LINEAR, training)
    np.testing.assert_allclose(three.losses()[1:], two.losses(), rtol=1e-6)


def test_a_federation_of_copies_learns_what_each_would_alone(federation: lg.Federation) -> None:
    client = federation.clients[1]
    twins = [lg.Client(name, client.train, client.validation, client.test) for name in ("a", "b")]
    both = lg.Federation(tuple(twins), classes=2)
    training = lg.Training(rounds=40, step_size=0.5, precision="float64")
    solo = lg.train_solo(both, LINEAR, training)
    shared = lg.train(both, LINEAR, lg.FedAvg(), training, solo=solo)
    np.testing.assert_allclose(solo.clients[0].params["kernel"], shared.params["kernel"], rtol=1e-9)
    np.testing.assert_allclose([client.gap for client in shared.clients], 0, atol=1e-9)


def test_training_stops_when_the_loss_is_flat(federation: lg.Federation) -> None:
    solo = lg.train_solo(federation, LINEAR, lg.Training(step_size=0.5), max_epochs=5000)
    assert all(client.converged for client in solo.clients)
    hard = solo.clients[2]
    assert alone.WINDOW < hard.epochs < 1000
    short = lg.train_solo(federation, LINEAR, lg.Training(step_size=0.5), max_epochs=10)
    assert not any(client.converged for client in short.clients)
    assert all(client.epochs == 10 for client in short.clients)


def test_best_keeps_the_epoch_with_the_lowest_validation_loss() -> None:
    rng = np.random.default_rng(0)
    noise = {name: (rng.normal(size=(60, 20)), rng.integers(0, 2, 60)) for name in ("a", "b")}
    federation, training = lg.Federation.from_arrays(noise), lg.Training(rounds=400, step_size=0.5)
    last, best = (lg.train_solo(federation, LINEAR, training, stop=stop) for stop in ("converged", "best"))
    assert (best.losses() < last.losses() - 0.1).all()  # nothing to learn: every epoch makes it worse
    assert (best.losses("train") > last.losses("train")).all()


def test_exact_is_certified_and_lower_than_any_descent(federation: lg.Federation) -> None:
    training = lg.Training(rounds=3000, step_size=0.5, precision="float64")
    exact = lg.train_solo(federation, LINEAR, training, stop="exact")
    descent = lg.train_solo(federation, LINEAR, training)
    assert all(client.converged and client.gradient_norm <= 1e-6 for client in exact.clients)
    assert (exact.losses("train") <= descent.losses("train") + 1e-9).all()
    np.testing.assert_allclose(exact.losses("train")[1:], descent.losses("train")[1:], atol=1e-3)


def test_exact_says_where_no_minimum_is_attained() -> None:
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    apart, mixed, single = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1, 1, 1, 1])
    rows = {"apart": apart, "mixed": mixed, "single": single}
    splits = {name: {"train": (x, y), "validation": (x, y), "test": (x, y)} for name, y in rows.items()}
    with pytest.warns(lg.DataWarning, match="'single'"):
        federation = lg.Federation.from_splits(splits)
    solo = lg.train_solo(federation, LINEAR, lg.Training(), stop="exact")
    assert [client.attained for client in solo.clients] == [False, True, False]
    assert solo.clients[0].train_loss < 1e-5


def test_least_squares_reaches_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    arrays = {name: (rng.normal(size=(40, 3)), rng.normal(size=40)) for name in ("a", "b")}
    federation = lg.Federation.from_arrays(arrays)
    solo = lg.train_solo(federation, LINEAR, lg.Training(precision="float64"), stop="exact")
    train = federation.clients[0].train
    wanted = np.linalg.lstsq(np.column_stack([train.x, np.ones(len(train))]), train.y, rcond=None)[0]
    found = solo.clients[0].params
    np.testing.assert_allclose([*found["kernel"][:, 0], *found["bias"]], wanted, atol=1e-5)


def test_the_interval_holds_the_loss_and_narrows_with_more_rows() -> None:
    widths = []
    for rows in (100, 2000):
        solo = lg.train_solo(lg.datasets.synthetic(rows=rows), LINEAR, lg.Training(rounds=200, step_size=0.5))
        low, high = solo.clients[1].interval
        assert low < solo.clients[1].validation_loss < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 2


def test_exact_refuses_what_it_cannot_certify(images: lg.Federation) -> None:
    with pytest.raises(lg.SettingError, match=r"mlp.*convex"):
        lg.train_solo(images, lg.models.mlp(), lg.Training(), stop="exact")


def test_a_step_that_is_too_large_is_named(federation: lg.Federation) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: (10 * rng.normal(size=(40, 3)), rng.normal(size=40)) for name in ("a", "b")}
    with pytest.raises(lg.DivergedError, match=r"epoch \d+ .*'[ab]'.*step_size=") as caught:
        lg.train_solo(lg.Federation.from_arrays(arrays), LINEAR, lg.Training(step_size=1.0))
    suggested = float(str(caught.value).rsplit("step_size=", 1)[1].split(" ")[0].rstrip("."))
    calm = lg.train_solo(lg.Federation.from_arrays(arrays), LINEAR, lg.Training(step_size=suggested, rounds=500))
    assert np.isfinite(calm.losses()).all()
