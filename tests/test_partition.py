"""Partitions give every row to exactly one client, as unevenly as they are asked to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossgap as lg
from lossgap import partition


def all_rows(owners: list[np.ndarray]) -> list[int]:
    return np.sort(np.concatenate(owners)).tolist()


def as_lists(owners: list[np.ndarray]) -> list[list[int]]:
    return [own.tolist() for own in owners]


def shares(labels: np.ndarray, alpha: float, *, clients: int, seeds: int) -> np.ndarray:
    """[seed, client, class] which part of each class each client holds."""
    counts = [
        [np.bincount(labels[own], minlength=labels.max() + 1) for own in owners]
        for owners in (partition.dirichlet(labels, clients, alpha, seed=s, min_rows=0) for s in range(seeds))
    ]
    return np.array(counts) / np.bincount(labels)


class TestDirichlet:
    @settings(deadline=None)
    @given(
        rows=st.integers(40, 400),
        classes=st.integers(1, 12),
        clients=st.integers(2, 6),
        alpha=st.floats(0.5, 1000),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_every_row_has_exactly_one_owner(self, rows, classes, clients, alpha, seed):
        labels = np.arange(rows) % classes
        assert all_rows(partition.dirichlet(labels, clients, alpha, seed=seed)) == list(range(rows))

    @settings(deadline=None)
    @given(labels=st.lists(st.integers(0, 4), min_size=60, max_size=200), seed=st.integers(0, 99))
    def test_classes_of_any_size_are_used_up(self, labels, seed):
        owners = partition.dirichlet(np.array(labels), 3, 1.0, seed=seed)
        assert all_rows(owners) == list(range(len(labels)))

    @settings(deadline=None)
    @given(clients=st.integers(2, 8), min_rows=st.integers(1, 20), seed=st.integers(0, 999))
    def test_every_client_holds_at_least_min_rows(self, clients, min_rows, seed):
        owners = partition.dirichlet(np.arange(600) % 10, clients, 0.5, seed=seed, min_rows=min_rows)
        assert len(owners) == clients
        assert min(map(len, owners)) >= min_rows

    def test_min_rows_changes_draws_that_would_starve_somebody(self):
        labels = np.arange(300) % 3
        starved = [s for s in range(50) if min(map(len, partition.dirichlet(labels, 5, 0.3, seed=s, min_rows=0))) < 20]
        assert starved
        assert all(min(map(len, partition.dirichlet(labels, 5, 0.3, seed=s, min_rows=20))) >= 20 for s in starved)

    def test_smaller_alpha_is_more_uneven(self):
        labels = np.arange(1000) % 10
        spread = [shares(labels, alpha, clients=5, seeds=20).std(axis=1).mean() for alpha in (0.05, 0.5, 5, 500)]
        assert spread == sorted(spread, reverse=True)
        assert spread[0] > 0.3  # nearly all of a class to one client: the most uneven is 0.4
        assert spread[-1] < 0.03  # nearly a fifth each

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 10.0])
    def test_shares_have_the_mean_and_variance_of_the_dirichlet_distribution(self, alpha):
        clients = 4
        found = shares(np.arange(400) % 2, alpha, clients=clients, seeds=600)
        mean = 1 / clients
        assert np.allclose(found.mean(axis=(0, 2)), mean, atol=0.03)
        assert np.allclose(found.var(axis=(0, 2)), mean * (1 - mean) / (clients * alpha + 1), rtol=0.15)

    def test_classes_with_fewer_rows_than_clients_favour_nobody(self):
        labels = np.arange(40) % 10
        sizes = [list(map(len, partition.dirichlet(labels, 6, 1000.0, seed=s, min_rows=0))) for s in range(300)]
        assert np.allclose(np.mean(sizes, axis=0), 40 / 6, rtol=0.1)

    def test_classes_are_drawn_independently(self):
        found = shares(np.arange(400) % 2, 0.5, clients=4, seeds=600)
        first, second = found[:, 0, 0], found[:, 0, 1]
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.1  # one draw for all classes would give 1

    def test_which_rows_of_a_class_a_client_gets_is_random(self):
        owners = partition.dirichlet(np.zeros(1000, int), 2, 100.0, seed=0)
        assert 450 < owners[0].mean() < 550  # the first half of the class would give 250

    def test_same_seed_same_owners(self):
        labels = np.arange(200) % 4
        one, two, other = (as_lists(partition.dirichlet(labels, 3, 0.5, seed=s)) for s in (7, 7, 8))
        assert one == two != other

    def test_the_global_random_state_is_left_alone(self):
        np.random.seed(5)
        before = np.random.get_state()[1].tolist()
        partition.dirichlet(np.arange(200) % 4, 3, 0.5, seed=0)
        assert np.random.get_state()[1].tolist() == before

    @pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf")])
    def test_alpha_must_be_a_positive_number(self, alpha):
        with pytest.raises(lg.SettingError, match=rf"alpha is {alpha}.*positive"):
            partition.dirichlet(np.arange(100) % 10, 5, alpha, seed=0)

    @pytest.mark.parametrize("clients", [0, 1, 101])
    def test_clients_must_be_two_or_more_and_no_more_than_the_rows(self, clients):
        with pytest.raises(lg.SettingError, match=rf"{clients} clients.*at least 2"):
            partition.dirichlet(np.arange(100) % 10, clients, 1.0, seed=0)

    def test_more_min_rows_than_rows_is_refused_by_naming_both(self):
        with pytest.raises(lg.SettingError, match=r"5 clients.*21 rows|21 rows.*5 clients"):
            partition.dirichlet(np.arange(100) % 10, 5, 1.0, seed=0, min_rows=21)

    def test_a_request_that_chance_never_grants_says_what_to_change(self):
        with pytest.raises(lg.SettingError, match=r"alpha=0.01.*fewer than 19 rows.*larger alpha.*fewer clients"):
            partition.dirichlet(np.zeros(100, int), 5, 0.01, seed=0, min_rows=19)


class TestIid:
    @settings(deadline=None)
    @given(rows=st.integers(2, 300), data=st.data(), seed=st.integers(0, 999))
    def test_every_row_has_exactly_one_owner_and_parts_are_equal(self, rows, data, seed):
        clients = data.draw(st.integers(2, rows))
        owners = partition.iid(rows, clients, seed=seed)
        assert all_rows(owners) == list(range(rows))
        assert max(map(len, owners)) - min(map(len, owners)) <= 1

    def test_rows_are_drawn_at_random(self):
        owners = partition.iid(2000, 2, seed=0)
        assert 950 < owners[0].mean() < 1050

    def test_same_seed_same_owners(self):
        one, two, other = (as_lists(partition.iid(50, 3, seed=s)) for s in (7, 7, 8))
        assert one == two != other

    @pytest.mark.parametrize("clients", [1, 11])
    def test_impossible_numbers_of_clients_are_refused(self, clients):
        with pytest.raises(lg.SettingError, match=rf"{clients} clients"):
            partition.iid(10, clients, seed=0)


class TestQuantity:
    @settings(deadline=None)
    @given(
        rows=st.integers(10, 400),
        data=st.data(),
        alpha=st.floats(0.01, 1000),
        min_rows=st.integers(1, 3),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_every_row_has_exactly_one_owner_and_nobody_starves(self, rows, data, alpha, min_rows, seed):
        clients = data.draw(st.integers(2, rows // min_rows))
        owners = partition.quantity(rows, clients, alpha, seed=seed, min_rows=min_rows)
        assert all_rows(owners) == list(range(rows))
        assert len(owners) == clients
        assert min(map(len, owners)) >= min_rows

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 10.0])
    def test_shares_have_the_variance_of_the_dirichlet_distribution(self, alpha):
        sizes = np.array([list(map(len, partition.quantity(10_004, 4, alpha, seed=s))) for s in range(600)])
        shares = (sizes - 1) / 10_000
        assert np.allclose(shares.mean(axis=0), 0.25, atol=0.04)
        assert np.allclose(shares.var(axis=0), 0.25 * 0.75 / (4 * alpha + 1), rtol=0.2)

    def test_clients_hold_the_same_mixture(self):
        labels = np.arange(20_000) % 4
        for own in partition.quantity(len(labels), 3, 1.0, seed=0, min_rows=2000):
            assert np.allclose(np.bincount(labels[own]) / len(own), 0.25, atol=0.05)

    def test_same_seed_same_owners(self):
        one, two, other = (as_lists(partition.quantity(200, 3, 0.5, seed=s)) for s in (7, 7, 8))
        assert one == two != other

    def test_impossible_requests_are_refused(self):
        with pytest.raises(lg.SettingError, match=r"quantity: alpha is 0.*positive"):
            partition.quantity(100, 5, 0, seed=0)
        with pytest.raises(lg.SettingError, match=r"5 clients.*21 rows"):
            partition.quantity(100, 5, 1.0, seed=0, min_rows=21)


class TestShards:
    @settings(deadline=None)
    @given(classes=st.integers(1, 12), data=st.data(), seed=st.integers(0, 2**32 - 1))
    def test_every_row_is_used_once_and_every_client_holds_so_many_classes(self, classes, data, seed):
        classes_each = data.draw(st.integers(1, classes))
        clients = data.draw(st.integers(max(2, -(-classes // classes_each)), 15))
        sizes = data.draw(st.lists(st.integers(15, 30), min_size=classes, max_size=classes))
        labels = np.repeat(np.arange(classes), sizes)
        owners = partition.shards(labels, clients, classes_each, seed=seed)
        assert all_rows(owners) == list(range(len(labels)))
        assert [len(np.unique(labels[own])) for own in owners] == [classes_each] * clients

    @settings(deadline=None)
    @given(seed=st.integers(0, 999))
    def test_classes_have_nearly_the_same_number_of_holders_who_share_evenly(self, seed):
        labels = np.arange(1000) % 10
        owners = partition.shards(labels, 7, 3, seed=seed)
        counts = np.array([np.bincount(labels[own], minlength=10) for own in owners])
        holders = (counts > 0).sum(axis=0)
        assert sorted(holders) == [2] * 9 + [3]
        for column in counts.T:
            assert np.ptp(column[column > 0]) <= 1

    def test_which_classes_go_together_is_drawn(self):
        labels = np.arange(600) % 6
        pairs = {
            tuple(np.unique(labels[own])) for seed in range(60) for own in partition.shards(labels, 3, 2, seed=seed)
        }
        assert len(pairs) == 15  # all there are

    def test_same_seed_same_owners(self):
        labels = np.arange(200) % 4
        one, two, other = (as_lists(partition.shards(labels, 4, 2, seed=s)) for s in (7, 7, 8))
        assert one == two != other

    @pytest.mark.parametrize(
        ("clients", "classes_each", "words"),
        [
            (4, 0, r"classes_each is 0, and the rows hold 10 classes.*1 to 10"),
            (4, 11, r"classes_each is 11"),
            (4, 2, r"4 clients with 2 classes each leave 2 of 10 classes to nobody"),
            (30, 10, r"class 0 has 20 rows for 30 clients"),
            (1, 10, r"1 clients"),
        ],
    )
    def test_impossible_requests_are_refused(self, clients, classes_each, words):
        with pytest.raises(lg.SettingError, match=words):
            partition.shards(np.arange(200) % 10, clients, classes_each, seed=0)

    def test_too_few_rows_for_somebody_are_refused(self):
        with pytest.raises(lg.SettingError, match=r"one holds 20 rows, fewer than 25"):
            partition.shards(np.repeat(np.arange(3), (20, 60, 60)), 3, 1, seed=0, min_rows=25)


class TestByValue:
    def test_each_value_is_a_client_in_order_of_appearance(self):
        names, owners = partition.by_value(["lyon", "brest", "lyon", "arles", "brest", "lyon"])
        assert names == ["lyon", "brest", "arles"]
        assert as_lists(owners) == [[0, 2, 5], [1, 4], [3]]

    def test_numbers_become_names(self):
        names, owners = partition.by_value(np.array([3, 1, 3]))
        assert names == ["3", "1"]
        assert as_lists(owners) == [[0, 2], [1]]

    @settings(deadline=None)
    @given(values=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=100))
    def test_every_row_has_exactly_one_owner_who_has_its_value(self, values):
        names, owners = partition.by_value(values)
        assert all_rows(owners) == list(range(len(values)))
        assert all({values[row] for row in own} == {name} for name, own in zip(names, owners, strict=True))

    def test_it_makes_a_federation(self):
        column = np.array(["lyon", "lille"] * 10)
        names, owners = partition.by_value(column)
        x, y = np.zeros((20, 2)), np.arange(20) // 2 % 2
        arrays = {name: (x[own], y[own]) for name, own in zip(names, owners, strict=True)}
        assert lg.Federation.from_arrays(arrays).names == ("lyon", "lille")
