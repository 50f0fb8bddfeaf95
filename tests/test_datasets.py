"""The data sets are what they say they are."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import lossgap as lg

MANY = 20_000
TURNED = {"client 2": (2,), "clients 1 and 2": (1, 2)}


def all_rows(client: lg.Client) -> tuple[np.ndarray, np.ndarray]:
    splits = [split for _, split in client.splits]
    return np.concatenate([s.x for s in splits]), np.concatenate([s.y for s in splits])


def same(a: lg.Federation, b: lg.Federation) -> bool:
    return all(
        np.array_equal(left, right)
        for one, two in zip(a.clients, b.clients, strict=True)
        for left, right in zip(all_rows(one), all_rows(two), strict=True)
    )


@pytest.fixture(scope="module", params=list(TURNED))
def paper(request):
    return request.param, lg.datasets.synthetic(rows=MANY, rotated=request.param)


class TestSynthetic:
    def test_three_clients_of_a_hundred_rows_in_the_plane(self):
        federation = lg.datasets.synthetic(seed=0)
        assert federation.names == ("client 0", "client 1", "client 2")
        assert federation.features == (2,)
        assert federation.classes == 2
        assert [federation.rows(split).tolist() for split in ("train", "validation", "test")] == [
            [60, 60, 60],
            [20, 20, 20],
            [20, 20, 20],
        ]

    @pytest.mark.parametrize(("k", "mean"), [(0, 2.0), (1, 0.5), (2, 0.1)])
    def test_classes_lie_around_the_papers_means_with_unit_covariance(self, paper, k, mean):
        rotated, federation = paper
        # Rotated by 45°, the diagonal [m, m] points straight up.
        centre = np.array([0, mean * np.sqrt(2)]) if k in TURNED[rotated] else np.array([mean, mean])
        x, y = all_rows(federation.clients[k])
        for label, sign in ((1, 1), (0, -1)):
            assert np.allclose(x[y == label].mean(axis=0), sign * centre, atol=0.03)
            assert np.allclose(np.cov(x[y == label].T), np.eye(2), atol=0.04)

    def test_classes_are_equally_frequent(self, paper):
        assert [all_rows(client)[1].mean() for client in paper[1].clients] == [0.5, 0.5, 0.5]

    def test_clients_rows_are_drawn_independently(self, paper):
        x = [np.sort(all_rows(client)[0][:, 0]) for client in paper[1].clients]
        noise = [column - column.mean() for column in x]
        assert not np.allclose(noise[1], noise[2], atol=1e-3)

    def test_the_appendix_only_turns_client_1(self):
        text, appendix = (lg.datasets.synthetic(seed=4, rotated=rotated) for rotated in TURNED)
        for k in (0, 2):
            assert np.array_equal(all_rows(text.clients[k])[0], all_rows(appendix.clients[k])[0])
        half = np.sqrt(0.5)
        turn = np.array([[half, -half], [half, half]])
        assert np.allclose(all_rows(text.clients[1])[0] @ turn.T, all_rows(appendix.clients[1])[0])

    def test_same_seed_same_rows(self):
        assert same(lg.datasets.synthetic(seed=5), lg.datasets.synthetic(seed=5))
        assert not same(lg.datasets.synthetic(seed=5), lg.datasets.synthetic(seed=6))

    def test_fractions_are_passed_on(self):
        federation = lg.datasets.synthetic(rows=50, fractions=(0.5, 0.3, 0.2))
        assert [federation.rows(split)[0] for split in ("train", "validation", "test")] == [25, 15, 10]

    def test_an_unknown_rotation_is_refused(self):
        with pytest.raises(lg.SettingError, match=r"'all'.*client 2.*clients 1 and 2"):
            lg.datasets.synthetic(rotated="all")


class TestTwoClients:
    def test_one_is_easy_and_the_other_is_noisy(self):
        federation = lg.datasets.two_clients(rows=MANY)
        assert federation.names == ("client 0", "client 1")
        accuracy = []
        for client, degrees in zip(federation.clients, (45, 105), strict=True):
            x, y = all_rows(client)
            direction = [np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))]
            accuracy.append(((x @ direction > 0) == y).mean())
        assert accuracy[0] > 0.99
        assert accuracy[1] == pytest.approx(0.8 * 0.921 + 0.2 * 0.079, abs=0.02)  # Φ(√2) = 0.921, a fifth is flipped

    def test_same_seed_same_rows(self):
        assert same(lg.datasets.two_clients(seed=5), lg.datasets.two_clients(seed=5))
        assert not same(lg.datasets.two_clients(seed=5), lg.datasets.two_clients(seed=6))


class TestDigits:
    @pytest.mark.parametrize(("clients", "alpha"), [(2, 100.0), (10, 0.1), (20, 1.0)])
    @pytest.mark.filterwarnings("ignore::lossgap.DataWarning")
    def test_every_image_belongs_to_exactly_one_client(self, clients, alpha):
        federation = lg.datasets.digits(clients=clients, alpha=alpha, seed=1)
        assert len(federation.clients) == clients
        images, labels = (np.concatenate(part) for part in zip(*map(all_rows, federation.clients), strict=True))
        original = load_digits()
        assert sorted_rows(images * 16, labels) == sorted_rows(original.images, original.target)
        assert len(labels) == 1797

    def test_images_are_eight_by_eight_pixels_between_zero_and_one(self):
        federation = lg.datasets.digits(clients=3, alpha=10.0)
        assert federation.features == (8, 8)
        assert federation.classes == 10
        images = np.concatenate([all_rows(client)[0] for client in federation.clients])
        assert images.dtype == np.float32
        assert images.min() == 0
        assert images.max() == 1

    @pytest.mark.filterwarnings("ignore::lossgap.DataWarning")
    def test_every_client_has_rows_for_every_split(self):
        for seed in range(5):
            federation = lg.datasets.digits(clients=10, alpha=0.1, seed=seed)
            assert all(len(all_rows(client)[1]) >= 10 for client in federation.clients)
            assert federation.rows("validation").min() >= 2

    def test_small_alpha_gives_clients_few_digits(self):
        def digits_held(alpha):
            federation = lg.datasets.digits(clients=5, alpha=alpha, seed=2)
            return np.mean([len(set(all_rows(client)[1])) for client in federation.clients])

        assert digits_held(0.1) < 7 < 9.9 < digits_held(100.0)

    def test_same_seed_same_clients(self):
        one, two, other = (lg.datasets.digits(clients=4, alpha=1.0, seed=seed) for seed in (3, 3, 4))
        assert same(one, two)
        assert one.rows().tolist() != other.rows().tolist()

    def test_too_many_clients_are_refused(self):
        with pytest.raises(lg.SettingError, match="1000 clients"):
            lg.datasets.digits(clients=1000)


def sorted_rows(images: np.ndarray, labels: np.ndarray) -> list[tuple]:
    return sorted((*image.ravel().tolist(), label) for image, label in zip(images, labels.tolist(), strict=True))
