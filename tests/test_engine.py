"""The compiled engine equals its plain twin, whatever the clients' sizes and local work."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import lossgap as lg
from lossgap import affine
from lossgap.engine import devices, run
from lossgap.engine.rows import similar_sizes
from lossgap.engine.sequential import SequentialStepper
from lossgap.training import LocalWork, client_keys

ALGORITHMS = [
    lg.FedAvg(),
    lg.FedAvg(weighting="size"),
    lg.Eagle(gap_penalty=1.0),
    lg.Eagle(gap_penalty=0.5, normalize=None, lag=0, multiplier_range=(0.0, 2.0)),
    lg.QFFL(q=2.0),
    lg.AFL(mixture_step=0.2, average=True),
]
WORK = {
    "one full step": {},
    "several full steps": {"local_steps": 3},
    "epochs of minibatches": {"local_epochs": 2, "batch_size": 4},
    "steps of minibatches": {"local_steps": 5, "batch_size": 4, "record_every": 2},
}
SOLO = [0.1, 0.4, 0.2, 0.3]


def assert_same(a: lg.Result, b: lg.Result, tolerance: float) -> None:
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=tolerance, atol=tolerance), a.params, b.params)
    for name in ("rounds", "train_loss", "validation_loss", "gap", "multiplier"):
        theirs = (getattr(result.history, name) for result in (a, b))
        np.testing.assert_allclose(*theirs, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_compiled_equals_sequential(ragged: lg.Federation, algorithm: lg.Algorithm, work: dict) -> None:
    training = lg.Training(rounds=5, step_size=0.3, precision="float64", **work)
    compiled, sequential = (
        lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO, **engine)
        for engine in ({}, {"engine": SequentialStepper.of})
    )
    assert_same(compiled, sequential, 1e-10)


@pytest.fixture
def spread_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the work, it is spread over all devices; `conftest.py` makes three of them."""
    assert len(jax.devices()) == 3
    monkeypatch.setattr(devices, "WORTH_IT", 0)


@pytest.mark.usefixtures("spread_out")
@pytest.mark.parametrize(
    "work", [*WORK.values(), {"participation": 0.5, "local_steps": 2}], ids=[*WORK, "absent clients"]
)
@pytest.mark.parametrize("algorithm", [lg.Eagle(gap_penalty=1.0), lg.QFFL(q=2.0), lg.Ditto()], ids=str)
def test_many_devices_compute_what_one_does(ragged: lg.Federation, algorithm: lg.Algorithm, work: dict) -> None:
    training = lg.Training(rounds=4, step_size=0.3, precision="float64", **work)
    runs = [
        lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO, **engine)
        for engine in ({}, {"engine": SequentialStepper.of})
    ]
    assert_same(*runs, 1e-10)


@pytest.mark.usefixtures("spread_out")
@pytest.mark.parametrize("work", [{}, {"local_steps": 2, "batch_size": 4}], ids=["full", "minibatches"])
def test_devices_never_wait_for_each_other(ragged: lg.Federation, work: dict) -> None:
    """Two exchanges at once, in different orders on different devices, would last for ever."""
    training = lg.Training(rounds=3000, step_size=0.1, record_every=7, **work)
    assert len(lg.train(ragged, lg.models.linear(), lg.QFFL(q=1.0), training, solo=SOLO).history) == 430


@pytest.mark.usefixtures("spread_out")
@pytest.mark.parametrize("work", [{}, {"local_epochs": 1, "batch_size": 4}], ids=["full", "minibatches"])
def test_many_devices_carry_several_runs(ragged: lg.Federation, work: dict) -> None:
    training = lg.Training(rounds=4, step_size=0.3, precision="float64", **work)
    path = [lg.Eagle(gap_penalty=penalty) for penalty in (0.0, 0.5, 2.0)]
    together = lg.train_many(ragged, lg.models.linear(), path, training, solo=SOLO)
    for algorithm, result in zip(path, together, strict=True):
        assert_same(result, lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO), 1e-10)


@pytest.mark.usefixtures("spread_out")
def test_many_devices_take_full_steps_of_a_network(images: lg.Federation) -> None:
    arguments = images, lg.models.cnn((2, 3), 4), lg.Eagle(gap_penalty=0.5), lg.Training(rounds=3, step_size=0.1)
    runs = [lg.train(*arguments, solo=[0.0, 0.1, 0.2], **engine) for engine in ({}, {"engine": SequentialStepper.of})]
    assert_same(*runs, 1e-4)


@pytest.mark.parametrize("work", [{}, {"batch_size": 4}], ids=["full", "minibatches"])
def test_clients_alone_are_the_same_on_many_devices(
    ragged: lg.Federation, monkeypatch: pytest.MonkeyPatch, work: dict
) -> None:
    training = lg.Training(rounds=70, step_size=0.3, precision="float64", **work)
    here = lg.train_solo(ragged, lg.models.linear(), training, stop="best")
    monkeypatch.setattr(devices, "WORTH_IT", 0)
    for one, other in zip(
        here.clients, lg.train_solo(ragged, lg.models.linear(), training, stop="best").clients, strict=True
    ):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), one.params, other.params)
        assert one.epochs == other.epochs


def test_a_large_dense_layer_has_the_same_derivatives() -> None:
    """Its gradient's product is computed in another order; slopes of slopes go through it as well."""
    rng = np.random.default_rng(0)
    x, weights = (jnp.asarray(rng.normal(size=shape)) for shape in ((300, 220), (220, 7)))
    assert x.size >= affine.LARGE
    layer, other = ({"kernel": scale * weights, "bias": jnp.arange(7.0)} for scale in (0.01, 0.03))

    def figures(function: Callable[..., Array]) -> Any:
        loss = lambda layer, x: jnp.square(jnp.tanh(function(layer, x))).sum()  # noqa: E731
        slope = lambda layer: jax.grad(loss, argnums=(0, 1))(layer, x)  # noqa: E731
        each = jax.vmap(slope)(jax.tree.map(lambda *a: jnp.stack(a), layer, other))
        return function(layer, x), slope(layer), jax.jvp(slope, (layer,), (other,)), each

    plain = figures(lambda layer, x: x @ layer["kernel"] + layer["bias"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), figures(affine.affine), plain)


def test_devices_get_clients_whole_and_about_as_many_rows_each() -> None:
    rows = np.array([50, 10, 40, 30, 20])
    hands = devices.dealt(rows.tolist(), 3)
    assert sorted(np.concatenate(hands)) == [0, 1, 2, 3, 4]
    assert max(rows[hand].sum() for hand in hands) == 50


@pytest.mark.parametrize("model", [lg.models.mlp((6,)), lg.models.cnn((2, 3), 4)], ids=lambda model: model.name)
def test_compiled_equals_sequential_for_networks(images: lg.Federation, model: lg.Model) -> None:
    training = lg.Training(rounds=3, step_size=0.1, local_epochs=1, batch_size=5)
    runs = [
        lg.train(images, model, lg.Eagle(gap_penalty=0.5), training, solo=[0.0, 0.1, 0.2], **engine)
        for engine in ({}, {"engine": SequentialStepper.of})
    ]
    assert_same(*runs, 1e-5)


def test_gaps_may_be_measured_on_training_rows(ragged: lg.Federation) -> None:
    training = lg.Training(rounds=2, gap_split="train", precision="float64")
    history = lg.train(ragged, lg.models.linear(), lg.FedAvg(), training, solo=SOLO).history
    np.testing.assert_allclose(history.gap, history.train_loss - SOLO)


def test_segments_leave_no_trace(ragged: lg.Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    training = lg.Training(rounds=40, local_epochs=1, batch_size=4, record_every=3)

    def trained() -> lg.Result:
        return lg.train(ragged, lg.models.linear(), lg.Eagle(gap_penalty=1.0), training, solo=SOLO)

    plain = trained()
    monkeypatch.setattr(run, "GROWTH", 1)
    cut = trained()
    jax.tree.map(np.testing.assert_array_equal, plain.params, cut.params)
    np.testing.assert_array_equal(plain.history.gap, cut.history.gap)


def test_same_seed_same_result_whatever_ran_before(ragged: lg.Federation) -> None:
    training = lg.Training(rounds=6, local_epochs=1, batch_size=4)

    def trained(seed: int) -> lg.Result:
        return lg.train(ragged, lg.models.linear(), lg.QFFL(q=1.0), training, solo=SOLO, seed=seed)

    first, other, again = trained(3), trained(4), trained(3)
    np.testing.assert_array_equal(first.params["kernel"], again.params["kernel"])
    assert not np.allclose(first.params["kernel"], other.params["kernel"])


def test_history_has_a_line_for_each_recorded_round_and_one_for_the_end(ragged: lg.Federation) -> None:
    training = lg.Training(rounds=7, record_every=3)
    result = lg.train(ragged, lg.models.linear(), lg.FedAvg(), training, solo=SOLO)
    assert result.history.rounds.tolist() == [0, 3, 6, 7]
    np.testing.assert_allclose(result.history.gap[-1], [client.gap for client in result.clients], rtol=1e-5)


def test_history_does_not_depend_on_how_often_it_is_written(ragged: lg.Federation) -> None:
    def history(every: int, algorithm: lg.Algorithm) -> run.History:
        training = lg.Training(rounds=6, record_every=every, precision="float64")
        return lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO).history

    for algorithm in (lg.Eagle(gap_penalty=1.0), lg.Eagle(gap_penalty=1.0, lag=0)):
        often, seldom = history(1, algorithm), history(2, algorithm)
        for name in ("gap", "multiplier"):
            np.testing.assert_allclose(getattr(often, name)[::2], getattr(seldom, name), rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 4, 9, 23])
def test_an_epoch_of_batches_holds_every_row_once(rows: int) -> None:
    work = LocalWork(local_steps=1, local_epochs=2, batch_size=4)
    batches = np.asarray(work.batches(jax.random.key(1), rows, sizes=(1, 23)))
    own, others = batches[: work.steps(rows)], batches[work.steps(rows) :]
    for epoch in np.split(own, 2):
        assert sorted(epoch[epoch >= 0]) == list(range(rows))
    assert (others == -1).all()


def test_rows_may_keep_their_order() -> None:
    work = LocalWork(local_steps=1, local_epochs=1, batch_size=4, shuffle=False)
    batches = np.asarray(work.batches(jax.random.key(1), 6, sizes=(6,)))
    assert batches.tolist() == [[0, 1, 2, 3], [4, 5, -1, -1]]


def test_steps_of_minibatches_go_through_the_rows_epoch_after_epoch() -> None:
    work = LocalWork(local_steps=5, local_epochs=None, batch_size=4)
    batches = np.asarray(work.batches(jax.random.key(1), 8, sizes=(8,)))
    assert sorted(batches[:2].ravel()) == sorted(batches[2:4].ravel()) == list(range(8))
    assert batches[:2].ravel().tolist() != batches[2:4].ravel().tolist()


def test_a_client_draws_the_same_whoever_else_takes_part() -> None:
    key = jax.random.key(0)
    alone, together = client_keys(key, ["lyon"]), client_keys(key, ["lille", "lyon"])
    assert (jax.random.key_data(alone[0]) == jax.random.key_data(together[1])).all()


def test_clients_of_one_block_are_of_similar_size() -> None:
    groups = similar_sizes([100, 10, 11, 119, 121, 12])
    assert groups == [[1, 2, 5], [0, 3], [4]]


def test_chunked_rows_change_nothing(images: lg.Federation) -> None:
    whole = lg.models.mlp((6,))
    chunked = lg.Model(whole.init, whole.apply, rows_at_once=4)
    training = lg.Training(rounds=3, precision="float64")
    runs = [lg.train(images, model, lg.FedAvg(), training, solo=[0, 0, 0]) for model in (whole, chunked)]
    assert_same(*runs, 1e-12)


def test_a_custom_model_trains(images: lg.Federation) -> None:
    model = lg.Model(
        init=lambda key, x, outputs: jnp.zeros((x[0].size, outputs)),
        apply=lambda params, x: x.reshape(len(x), -1) @ params,
    )
    result = lg.train(images, model, lg.FedAvg(), lg.Training(rounds=20, step_size=0.5), solo=[0, 0, 0])
    assert result.history.train_loss[-1].mean() < result.history.train_loss[0].mean()


def test_numbers_are_predicted_by_squared_error() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([1.5, -2.0])
    arrays = {}
    for name in ("north", "south"):
        x = rng.normal(size=(60, 2))
        arrays[name] = (x, x @ truth + 3.0)
    federation = lg.Federation.from_arrays(arrays)
    result = lg.train(federation, lg.models.linear(), lg.FedAvg(), lg.Training(rounds=300, step_size=0.3))
    np.testing.assert_allclose(result.params["kernel"][:, 0], truth, atol=1e-3)
    np.testing.assert_allclose(result.predict([[1.0, 1.0]]), [2.5], atol=1e-2)
    assert np.isnan(result.clients[0].test_accuracy)


def test_precision_is_what_was_asked_for(ragged: lg.Federation) -> None:
    for precision in ("float32", "float64"):
        training = lg.Training(rounds=2, precision=precision)
        result = lg.train(ragged, lg.models.linear(), lg.Eagle(gap_penalty=1.0), training, solo=SOLO)
        assert result.params["kernel"].dtype == precision
    assert jnp.ones(()).dtype == "float32"  # and nothing outside has changed
