"""Some clients are absent from a round: who takes part, what is remembered of the others, and who cannot do without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from lossgap.algorithms.base import Measured
from lossgap.engine.sequential import SequentialStepper
from lossgap.training import client_keys, drawn

SOLO = [0.1, 0.4, 0.2, 0.3]
METHODS = [
    lg.FedAvg(weighting="size"),
    lg.Eagle(gap_penalty=1.0),
    lg.Eagle(gap_penalty=0.5, lag=0, forget_after=2),
    lg.QFFL(q=2.0),
    lg.Udj(power=2.0, desert=(1.0, 2.0, 3.0, 4.0)),
    lg.FedFV(alpha=0.3),
    lg.Focus(clusters=2),
    lg.Ditto(base=lg.Eagle(gap_penalty=1.0)),
]


@pytest.mark.parametrize("work", [{}, {"local_epochs": 1, "batch_size": 4, "record_every": 2}], ids=["full", "batches"])
@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_compiled_equals_sequential(ragged: lg.Federation, algorithm: lg.Algorithm, work: dict) -> None:
    training = lg.Training(rounds=6, step_size=0.3, precision="float64", participation=0.5, **work)
    a, b = (
        lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO, **engine)
        for engine in ({}, {"engine": SequentialStepper.of})
    )
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-10, atol=1e-10), a.params, b.params)
    for name in ("train_loss", "gap", "multiplier"):
        np.testing.assert_allclose(getattr(a.history, name), getattr(b.history, name), rtol=1e-10, atol=1e-10)


def test_every_client_takes_part_about_as_often() -> None:
    keys = client_keys(jax.random.key(3), [f"site {k}" for k in range(10)])
    rounds = np.asarray(jax.vmap(lambda t: drawn(keys, t, 3))(jnp.arange(2000)))
    assert all(len(set(who)) == 3 for who in rounds[:50].tolist())
    share = np.bincount(rounds.ravel(), minlength=10) / 2000
    np.testing.assert_allclose(share, 0.3, atol=0.05)


def test_who_takes_part_does_not_depend_on_the_order_of_clients() -> None:
    names = [f"site {k}" for k in range(6)]
    forwards, backwards = (client_keys(jax.random.key(0), order) for order in (names, names[::-1]))
    for t in range(20):
        assert {names[k] for k in drawn(forwards, t, 2)} == {names[::-1][k] for k in drawn(backwards, t, 2)}


def test_absent_clients_do_not_move_the_model(ragged: lg.Federation) -> None:
    """One of four takes part in the only round: the model makes that client's own step."""
    training = lg.Training(rounds=1, step_size=0.3, precision="float64", participation=0.25)
    moved = lg.train(ragged, lg.models.linear(), lg.FedAvg(), training, solo=SOLO)
    start = lg.models.initial_params(lg.models.linear(), ragged.features, ragged.outputs, seed=0, precision="float64")
    steps = []
    with jax.enable_x64(True):
        for client in ragged.clients:
            x, y = jnp.asarray(client.train.x, float), jnp.asarray(client.train.y)
            gradient = jax.grad(lambda p, x=x, y=y: lg.models.linear().row_losses(p, x, y).mean())(start)
            steps.append(np.asarray(start["kernel"] - 0.3 * gradient["kernel"]))
    fits = [np.allclose(moved.params["kernel"], step, atol=1e-12) for step in steps]
    assert sum(fits) == 1


def test_eagle_remembers_the_last_gap_and_its_age() -> None:
    eagle = lg.Eagle(gap_penalty=1.0, normalize=None, forget_after=2)

    def told(state, who, gaps):
        gaps = jnp.asarray(gaps, jnp.float32)
        return eagle.observe(state, Measured(gaps, gaps, gaps, jnp.asarray(who)))

    book = told(eagle.init((), 3), [0, 1], [1.0, 3.0])
    # Client 2 has told nothing and stands at the mean of the others: w = 1 + 4·3/2·(−1, 1, 0).
    np.testing.assert_allclose(eagle.multipliers(book), [-5, 7, 1])
    book = told(told(book, [1, 2], [3.0, 5.0]), [1, 2], [3.0, 5.0])
    assert book.age.tolist() == [2, 0, 0]
    np.testing.assert_allclose(eagle.multipliers(book), [-11, 1, 13])  # the old gap of client 0 still counts
    book = told(book, [1, 2], [3.0, 5.0])
    np.testing.assert_allclose(eagle.multipliers(book), [1, -5, 7])  # three rounds old: it does not any more


@pytest.mark.parametrize("algorithm", [lg.AFL(), lg.Gifair(), lg.FedDGGA(), lg.Ditto(base=lg.AFL())], ids=str)
def test_a_method_that_needs_everyone_says_so(ragged: lg.Federation, algorithm: lg.Algorithm) -> None:
    with pytest.raises(lg.SettingError, match=r"needs every client each round.*2 of 4.*Use Eagle or QFFL"):
        lg.train(ragged, lg.models.linear(), algorithm, lg.Training(rounds=2, participation=0.5))


@pytest.mark.parametrize("share", [0.0, -0.1, 1.2, float("nan")])
def test_participation_is_a_share(share: float) -> None:
    with pytest.raises(lg.SettingError, match="participation"):
        lg.Training(participation=share)
