"""Sites behind Flower's messages train as the simulator does."""

import jax
import numpy as np
import pytest
from fake_grid import FakeGrid, jax_apps

import lossgap as lg
from lossgap.flower import FairStrategy, Patience

SOLO = dict(zip(("few", "many", "one", "some"), (0.4, 0.3, 0.1, 0.2), strict=True))
QUICK = Patience(round=30, absence=0.2, look=0.001, again=0.01)
METHODS = [
    lg.FedAvg(),
    lg.FedAvg(weighting="size"),
    lg.Eagle(gap_penalty=1.0),
    lg.Eagle(gap_penalty=3.0, normalize=None, lag=0),
    lg.Eagle(target_variance=0.01, normalize="sqrt-k"),
    lg.QFFL(q=2.0),
    lg.AFL(),
    lg.Gifair(),
    lg.MaxFL(),
    lg.Udj(power=2.0, desert=(1.0, 2.0, 3.0, 4.0)),
    lg.Term(),
    lg.FedDGGA(),
    lg.FedFV(alpha=0.3),
    lg.FedMGDA(),
    lg.FedNova(momentum=0.5),
    lg.FedProx(pull=0.5),
    lg.PropFair(ceiling=3.0),
    lg.Ditto(base=lg.Eagle(gap_penalty=1.0), pull=0.3),
]


@pytest.fixture(scope="session")
def alphabetical(ragged: lg.Federation) -> lg.Federation:
    """In the order that the server keeps."""
    clients = tuple(sorted(ragged.clients, key=lambda client: client.name))
    with pytest.warns(lg.DataWarning):
        return lg.Federation(clients, classes=3)


def start(federation: lg.Federation, model: lg.Model, precision: str = "float32") -> dict:
    return lg.models.initial_params(model, federation.features, federation.outputs, seed=0, precision=precision)


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_flower_equals_the_simulator(alphabetical: lg.Federation, algorithm: lg.Algorithm, tmp_path) -> None:
    model, training = lg.models.linear(), lg.Training(rounds=5, step_size=0.3, local_steps=2)
    simulated = lg.train(alphabetical, model, algorithm, training, solo=list(SOLO.values()))
    grid = FakeGrid(jax_apps(alphabetical, model, state=tmp_path))
    strategy = FairStrategy(algorithm, training, sites=4, solo=SOLO, patience=QUICK)
    result = strategy.run(grid, start(alphabetical, model))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, atol=1e-5), result.params, simulated.params)
    for name in ("train_loss", "validation_loss", "gap", "multiplier"):
        np.testing.assert_allclose(getattr(result.history, name), getattr(simulated.history, name), atol=1e-5)
    for row, other in zip(result.clients, simulated.clients, strict=True):
        assert vars(row) == pytest.approx(vars(other), abs=1e-5)
    assert strategy.incidents == ()
