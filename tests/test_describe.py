"""A description says what each client holds, and its numbers are those of their definitions."""

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::lossgap.DataWarning")


def labelled(*counts: list[int]) -> lg.Federation:
    """Clients with these rows of each class, and features that are all the same."""
    arrays = {}
    for k, own in enumerate(counts):
        y = np.repeat(np.arange(len(own)), own)
        arrays[f"client {k}"] = (np.ones((len(y), 2)), y)
    return lg.Federation.from_arrays(arrays, classes=len(counts[0]))


def test_labels_and_rows_are_counted():
    description = labelled([10, 20, 0], [5, 5, 30]).describe()
    assert [client.labels.tolist() for client in description.clients] == [[10, 20, 0], [5, 5, 30]]
    assert [sum(client.rows) for client in description.clients] == [30, 40]
    assert [client.classes_held for client in description.clients] == [2, 3]
    assert description.clients[0].rows == (18, 6, 6)


def test_skews_by_hand():
    # Shares (1, 0) and (1/4, 3/4) against everybody's (40, 30)/70.
    description = labelled([30, 0], [10, 30]).describe()
    assert [client.distance for client in description.clients] == pytest.approx([3 / 7, 4 / 7 - 1 / 4])
    assert description.label_skew == pytest.approx((3 / 7 + 4 / 7 - 1 / 4) / 2)
    assert description.size_skew == pytest.approx(4 / 3)


def test_equal_mixtures_have_no_skew():
    description = labelled([20, 20], [20, 20], [20, 20]).describe()
    assert (description.label_skew, description.size_skew, description.feature_skew) == (0, 1, 0)


def test_clients_without_a_common_class_are_as_unlike_as_can_be():
    k = 10
    counts = np.diag([30] * k).tolist()
    assert labelled(*counts).describe().label_skew == pytest.approx(1 - 1 / k)


def test_feature_skew_is_the_share_of_variance_between_clients():
    rng = np.random.default_rng(0)
    means = np.array([0.0, 1.0, 3.0])
    x = [rng.normal(size=(500 * (k + 1), 4)) + m for k, m in enumerate(means)]
    arrays = {str(k): (own, np.arange(len(own)) % 2) for k, own in enumerate(x)}
    found = lg.Federation.from_arrays(arrays).describe().feature_skew
    centres = np.array([own.mean(axis=0) for own in x])
    between = centres.var(axis=0).sum()
    within = np.mean([own.var(axis=0).sum() for own in x])
    assert found == pytest.approx(between / (between + within), rel=1e-4)


def test_rotation_shows_in_features_and_not_in_labels():
    plain, turned = (
        lg.datasets.digits(clients=3, alpha=1000.0, skew=lg.Skew(rotation=angle)).describe() for angle in (0.0, 90.0)
    )
    assert turned.feature_skew > 10 * plain.feature_skew
    assert turned.label_skew == plain.label_skew < 0.02


def test_smaller_alpha_is_more_skew():
    skews = [lg.datasets.digits(clients=5, alpha=alpha).describe().label_skew for alpha in (0.05, 0.5, 5.0, 500.0)]
    assert skews == sorted(skews, reverse=True)


def test_bytes_are_described_as_they_are_kept():
    x = np.random.default_rng(0).integers(0, 256, (60, 4, 4)).astype(np.uint8)
    y = np.arange(60) % 2
    kept, floats = (
        lg.Federation.from_arrays({"a": lg.Split(part, y, 255), "b": lg.Split(part[::-1] // 2, y, 255)})
        for part in (x, x.astype(np.float64))
    )
    assert kept.describe().feature_skew == pytest.approx(floats.describe().feature_skew, rel=0.05)


def test_targets_that_are_numbers():
    rng = np.random.default_rng(0)
    arrays = {f"plant {k}": (rng.normal(size=(40, 3)), rng.normal(10.0 * k, 1, 40)) for k in range(3)}
    description = lg.Federation.from_arrays(arrays).describe()
    assert description.regression
    y = arrays["plant 2"][1]
    assert description.clients[2].target == pytest.approx((y.mean(), y.std(), y.min(), y.max()))
    assert [client.labels.sum() for client in description.clients] == [40] * 3
    assert description.label_skew > 0.6  # hardly any bin is shared
    text = str(description)
    assert "deviation" in text
    assert "numbers to predict" in text
    assert " to " in description.figure().svg()


@pytest.mark.parametrize("clients", [3, 10, 100])
def test_it_stays_readable(clients):
    rng = np.random.default_rng(0)
    arrays = {
        f"client {k}": (rng.normal(size=(rows, 2)), rng.integers(0, 30, rows))
        for k, rows in enumerate(rng.integers(20, 200, clients))
    }
    description = lg.Federation.from_arrays(arrays, classes=30).describe()
    lines = str(description).splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) < 130
    assert len(description.table(everybody=True).rows) == clients
    assert ("more, which" in str(description)) == (clients > 24)
    svg = description.figure().svg()
    assert all(f"client {k}" in svg for k in range(clients))
    assert description.figure(shares=True).height < 1_700


def test_a_long_federation_shows_its_smallest_and_largest_client():
    description = labelled(*[[k + 3, k + 3] for k in range(60)]).describe()
    names = [row[0] for row in description.table().rows]
    assert (names[0], names[-1]) == ("client 59", "client 0")
    assert len(names) == len(set(names)) == 24


def test_many_classes_are_a_strip_of_shades():
    description = labelled([40, 20, 1, *[0] * 17], [0] * 19 + [50]).describe()
    strips = [row[-1] for row in description.table().rows]
    assert strips == ["│█▒░" + " " * 17 + "│", "│" + " " * 19 + "█│"]


def test_the_picture_has_a_bar_of_labels_for_each_client():
    figure = labelled([10, 20, 0], [5, 5, 30]).describe().figure()
    assert "client 0, 1: 20" in figure.svg()
    assert "client 1, 2: 30" in figure.svg()
    assert "client 0, 2" not in figure.svg()


def test_a_notebook_draws_it():
    assert labelled([10, 20], [5, 5]).describe()._repr_svg_().startswith("<svg")


def test_the_command_prints_and_draws(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[federation]\ndataset = 'digits'\nclients = 4\n[[methods]]\nname = 'FedAvg'\n[run]\nseeds = [3]\n")
    result = CliRunner().invoke(main, ["describe", str(path), "--out", str(tmp_path / "clients.svg")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(str(lg.datasets.digits(clients=4, seed=3).describe()))
    assert (tmp_path / "clients.svg").read_text().startswith("<svg")
