"""Learners of other frameworks train like JAX ones, alone and together."""

import jax
import numpy as np
import pytest
import torch
from sklearn.linear_model import SGDClassifier, SGDRegressor
from torch.utils.data import DataLoader, TensorDataset

import lossgap as lg
from lossgap.algorithms import FedAvg
from lossgap.engine.learner import JaxLearner
from lossgap.learners import SklearnLearner, TorchLearner
from lossgap.learners.alone import learn_alone
from lossgap.learners.torch import Linear

SOLO = [0.1, 0.4, 0.2, 0.3]
REWEIGHTING = [
    lg.FedAvg(weighting="size"),
    lg.Eagle(gap_penalty=1.0),
    lg.Eagle(gap_penalty=3.0, normalize=None, lag=0),
    lg.QFFL(q=2.0),
]
LOCAL_RULES = [lg.FedProx(pull=0.5), lg.PropFair(ceiling=3.0), lg.FedNova(momentum=0.5), lg.Ditto(pull=0.3)]


@pytest.fixture(scope="module")
def start(ragged: lg.Federation) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"kernel": 0.3 * rng.normal(size=(5, 3)), "bias": np.zeros(3)}


def splits(client: lg.Client) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: (rows.x, rows.y) for name, rows in client.splits}


def torch_sites(federation: lg.Federation, training: lg.Training) -> list[TorchLearner]:
    return [
        TorchLearner(
            name=client.name,
            module=Linear(5, 3).to(getattr(torch, training.precision)),
            training=training,
            **{name: [pair] for name, pair in splits(client).items()},
        )
        for client in federation.clients
    ]


@pytest.mark.parametrize("algorithm", REWEIGHTING + LOCAL_RULES, ids=str)
def test_a_torch_model_trains_like_the_jax_one(ragged: lg.Federation, start: dict, algorithm: lg.Algorithm) -> None:
    training = lg.Training(rounds=5, step_size=0.3, local_steps=1 if algorithm in REWEIGHTING else 3)
    simulated = lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO, initial_params=start)
    sites = torch_sites(ragged, training)
    learned = lg.train_learners(sites, algorithm, training, initial_params=start, solo=SOLO)
    for name in start:
        np.testing.assert_allclose(learned.params[name], simulated.params[name], atol=1e-5)
    np.testing.assert_allclose(learned.history.gap, simulated.history.gap, atol=1e-5)
    for row, other in zip(learned.clients, simulated.clients, strict=True):
        assert vars(row) == pytest.approx(vars(other), abs=1e-5)


def test_jax_and_torch_sites_train_one_model(ragged: lg.Federation, start: dict) -> None:
    training = lg.Training(rounds=5, step_size=0.3)
    simulated = lg.train(ragged, lg.models.linear(), lg.Eagle(gap_penalty=1.0), training, solo=SOLO)
    sites = [
        JaxLearner.of(client, lg.models.linear(), training) if k % 2 else site
        for k, (client, site) in enumerate(zip(ragged.clients, torch_sites(ragged, training), strict=True))
    ]
    first = lg.train(ragged, lg.models.linear(), lg.FedAvg(), lg.Training(rounds=1, step_size=1e-30), solo=SOLO)
    result = lg.train_learners(
        sites, lg.Eagle(gap_penalty=1.0), training, initial_params=first.params, solo=SOLO, model=lg.models.linear()
    )
    np.testing.assert_allclose(result.params["kernel"], simulated.params["kernel"], atol=1e-5)
    assert "helps" in result.verdict() or "harms" in result.verdict()


def test_train_takes_learners_in_place_of_a_federation(ragged: lg.Federation, start: dict) -> None:
    training = lg.Training(rounds=3, step_size=0.3)
    sites = torch_sites(ragged, training)
    method = lg.Eagle(gap_penalty=1.0)
    result = lg.train(sites, algorithm=method, training=training, solo=SOLO)
    same = lg.train_learners(sites, method, training, initial_params=sites[0].params, solo=SOLO)
    np.testing.assert_array_equal(result.params["kernel"], same.params["kernel"])
    with pytest.raises(lg.SettingError, match="no algorithm is given"):
        lg.train(sites)
    jax_sites = [JaxLearner.of(client, lg.models.linear(), training) for client in ragged.clients]
    with pytest.raises(lg.SettingError, match="Give initial_params"):
        lg.train(jax_sites, algorithm=method, training=training)


def test_the_multiplier_scales_the_gradient_and_may_be_negative(ragged: lg.Federation, start: dict) -> None:
    site = torch_sites(ragged, lg.Training(step_size=0.1))[3]
    up, down = (site.fit(start, multiplier, round=0, rule=FedAvg()) for multiplier in (-2.0, 1.0))
    np.testing.assert_allclose(up["kernel"], -2 * down["kernel"], rtol=1e-4, atol=1e-7)
    assert np.abs(down["kernel"]).max() > 1e-3


def test_a_round_draws_what_follows_from_seed_name_and_round(ragged: lg.Federation) -> None:
    client = ragged.clients[3]
    rows = TensorDataset(torch.tensor(client.train.x, dtype=torch.float32), torch.tensor(client.train.y))
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    loaders = {name: DataLoader(rows, batch_size=4, shuffle=True) for name in ("train", "validation", "test")}
    site = TorchLearner(name="many", module=net, training=lg.Training(local_epochs=2), **loaders)
    before = site.params
    assert (site.rows, site.steps) == (23, 12)

    def moved(round: int) -> np.ndarray:
        torch.rand(round + 1)  # whatever was drawn before
        return site.fit(before, 1.0, round=round, rule=FedAvg())["0.weight"]

    first, other, again = moved(1), moved(2), moved(1)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert site.loss(before, "train") == site.loss(before, "test")
    jax.tree.map(np.testing.assert_array_equal, site.params, before)


def test_running_statistics_are_refused() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
    with pytest.raises(lg.SettingError, match=r"'lyon': 1\.running_mean is a running statistic.*GroupNorm"):
        TorchLearner(name="lyon", module=net, train=[], validation=[], test=[], training=lg.Training())
    with pytest.raises(lg.SettingError, match="Give the batch size to the loaders"):
        TorchLearner(name="a", module=net, train=[], validation=[], test=[], training=lg.Training(batch_size=3))


def test_mixtures_are_refused(ragged: lg.Federation, start: dict) -> None:
    with pytest.raises(lg.SettingError, match="mixtures of several networks"):
        lg.train_learners(torch_sites(ragged, lg.Training()), lg.Focus(), initial_params=start, solo=SOLO)


def test_alone_a_learner_finds_what_train_solo_finds(ragged: lg.Federation) -> None:
    training = lg.Training(rounds=60, step_size=0.5)
    for stop in ("converged", "best"):
        solo = lg.train_solo(ragged, lg.models.linear(), training, stop=stop)
        start = lg.models.initial_params(lg.models.linear(), (5,), 3, seed=0)
        for learner, client in zip(torch_sites(ragged, training)[1:3], solo.clients[1:3], strict=True):
            alone = learn_alone(learner, start, rounds=60, stop=stop)
            assert alone.converged == client.converged
            assert alone.validation_loss == pytest.approx(client.validation_loss, abs=1e-4)


def by_hand(kernel: np.ndarray, bias: np.ndarray, x: np.ndarray, y: np.ndarray, step: float) -> tuple:
    """One pass of single-row steps of logistic regression."""
    for row, label in zip(x, y, strict=True):
        error = 1 / (1 + np.exp(-(row @ kernel + bias))) - label
        kernel, bias = kernel - step * error * row, bias - step * error
    return kernel, bias


def test_a_scikit_learn_site_takes_one_step_for_each_row() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 4)), rng.integers(0, 2, 12)
    training = lg.Training(local_epochs=2, step_size=0.1)
    model = SGDClassifier(loss="log_loss", penalty=None, shuffle=False)
    rows = dict.fromkeys(("train", "validation", "test"), (x, y))
    site = SklearnLearner(name="lille", estimator=model, training=training, **rows)
    start = {"kernel": rng.normal(size=(4, 1)), "bias": np.array([0.3])}
    for multiplier in (1.0, -0.5):
        kernel, bias = start["kernel"][:, 0], start["bias"][0]
        for _ in range(2):
            kernel, bias = by_hand(kernel, bias, x, y, 0.1 * multiplier)
        update = site.fit(start, multiplier, round=0, rule=FedAvg())
        np.testing.assert_allclose(update["kernel"][:, 0], start["kernel"][:, 0] - kernel, rtol=1e-9)
        np.testing.assert_allclose(update["bias"][0], start["bias"][0] - bias, rtol=1e-9)
    p = 1 / (1 + np.exp(-(x @ start["kernel"][:, 0] + 0.3)))
    assert site.loss(start, "test") == pytest.approx(-np.log(np.where(y, p, 1 - p)).mean())
    assert site.accuracy(start, "test") == ((p > 0.5) == y).mean()


@pytest.mark.parametrize(
    ("estimator", "classes"), [(SGDClassifier(loss="log_loss", penalty=None), 3), (SGDRegressor(penalty=None), 0)]
)
def test_scikit_learn_sites_train_together(estimator: object, classes: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 40, 4))
    y = (x[..., 0] > 0).astype(int) + (x[..., 1] > 0) if classes else x @ [1.0, -1.0, 0.5, 0.0]
    training = lg.Training(rounds=10, step_size=0.02, local_epochs=1)
    sites = [
        SklearnLearner(
            name=f"site {k}",
            estimator=estimator,
            training=training,
            train=(x[k], y[k]),
            validation=(x[k], y[k]),
            test=(x[k], y[k]),
        )
        for k in range(3)
    ]
    result = lg.train_learners(
        sites, lg.Eagle(gap_penalty=1.0), training, initial_params=sites[0].params, solo=[0.0, 0.1, 0.2]
    )
    assert result.history.train_loss[-1].max() < result.history.train_loss[0].min()
    assert result.params["kernel"].shape == (4, classes or 1)


def test_what_scikit_learn_cannot_do_is_refused() -> None:
    rows = {name: (np.eye(2), [0, 1]) for name in ("train", "validation", "test")}
    for estimator, training, match in [
        (SGDClassifier(loss="log_loss"), lg.Training(local_epochs=1), "penalty is 'l2'. Use penalty=None"),
        (SGDClassifier(penalty=None), lg.Training(local_epochs=1), "Use loss='log_loss'"),
        (SGDClassifier(loss="log_loss", penalty=None), lg.Training(local_steps=3), "one step for each row"),
        (object(), lg.Training(), "neither an SGDClassifier"),
    ]:
        with pytest.raises(lg.SettingError, match=match):
            SklearnLearner(name="a", estimator=estimator, training=training, **rows)
    site = SklearnLearner(
        name="a", estimator=SGDClassifier(loss="log_loss", penalty=None), training=lg.Training(), **rows
    )
    with pytest.raises(lg.SettingError, match="cannot take the steps of FedProx"):
        site.fit(site.params, 1.0, round=0, rule=lg.FedProx())
