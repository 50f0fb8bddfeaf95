"""The paper's Figure 3: on the synthetic clients, equal losses harm the client with easy data; equal gaps do not."""

import numpy as np
import pytest

import lossgap as lg

SEEDS = (0, 42, 100, 200)
METHODS = {
    "fedavg": lg.FedAvg(),
    "q-ffl": lg.QFFL(q=5.0),
    "afl": lg.AFL(),
    "eagle": lg.Eagle(gap_penalty=2.0),
}


def results(seed: int, gap_split: str) -> dict[str, lg.Result]:
    federation, model = lg.datasets.synthetic(seed=seed), lg.models.linear()
    training = lg.Training(rounds=2000, step_size=0.5, gap_split=gap_split)
    solo = lg.train_solo(federation, model, training, seed=seed)
    return {
        name: lg.train(federation, model, method, training, solo=solo, seed=seed) for name, method in METHODS.items()
    }


@pytest.mark.parametrize("gap_split", ["train", "validation"])
@pytest.mark.parametrize("seed", SEEDS)
def test_loss_parity_leaves_the_easy_client_with_the_largest_gap(seed: int, gap_split: str) -> None:
    found = results(seed, gap_split)
    for name in ("afl", "q-ffl"):
        assert np.argmax([client.gap for client in found[name].clients]) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_eagle_has_the_smallest_variance_of_gaps_on_the_rows_it_trains_on(seed: int) -> None:
    variances = {name: result.summary().gap_variance for name, result in results(seed, "train").items()}
    assert min(variances, key=variances.__getitem__) == "eagle"


def test_eagle_has_the_smallest_variance_on_validation_rows_where_they_are_many() -> None:
    for seed in SEEDS:
        federation = lg.datasets.synthetic(seed=seed, rows=300, fractions=(1 / 3, 1 / 3, 1 / 3))
        training = lg.Training(rounds=2000, step_size=0.5)
        comparison = {
            name: lg.train(federation, lg.models.linear(), method, training, seed=seed).summary().gap_variance
            for name, method in METHODS.items()
        }
        assert min(comparison, key=comparison.__getitem__) == "eagle"
