"""A federation holds every row that its clients gave, once, and says what it holds."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossgap as lg

SPLITS = ("train", "validation", "test")
FRACTIONS = st.sampled_from([(0.6, 0.2, 0.2), (0.8, 0.1, 0.1), (0.2, 0.3, 0.5), (0.1, 0.1, 0.8)])

pytestmark = pytest.mark.filterwarnings("ignore::lossgap.DataWarning")


def numbered(rows: int, classes: int = 2, start: int = 0):
    """Rows that carry their own number, with labels that follow from it."""
    number = np.arange(start, start + rows)
    return np.stack([number, -number], axis=1).astype(np.float32), number % classes


def labelled(y: np.ndarray, **settings) -> lg.Client:
    """A client with these labels, out of a federation of two."""
    return lg.Federation.from_arrays({"a": (np.zeros((len(y), 2)), y), "b": numbered(50)}, **settings).clients[0]


def numbers(split: lg.Split) -> list[int]:
    return split.x[:, 0].astype(int).tolist()


def pair(rows: int = 30, **settings) -> lg.Federation:
    return lg.Federation.from_arrays({"lyon": numbered(rows), "lille": numbered(rows + 7, start=1000)}, **settings)


def drawn(federation: lg.Federation, name: str) -> dict[str, list[int]]:
    client = federation.clients[federation.names.index(name)]
    return {split: numbers(rows) for split, rows in client.splits}


class TestSplittingRows:
    @settings(deadline=None)
    @given(rows=st.integers(3, 300), classes=st.integers(1, 12), seed=st.integers(0, 99), fractions=FRACTIONS)
    def test_every_row_is_used_exactly_once(self, rows, classes, seed, fractions):
        arrays = {"a": numbered(rows, classes), "b": numbered(50, classes)}
        client = lg.Federation.from_arrays(arrays, seed=seed, fractions=fractions).clients[0]
        assert sorted(row for _, split in client.splits for row in numbers(split)) == list(range(rows))

    def test_every_row_keeps_its_own_target(self):
        federation = lg.Federation.from_arrays({"a": numbered(100, 7), "b": numbered(50, 7)})
        for client in federation.clients:
            for _, split in client.splits:
                assert (split.y == split.x[:, 0] % 7).all()
                assert (split.x[:, 1] == -split.x[:, 0]).all()

    @settings(deadline=None)
    @given(rows=st.integers(3, 400), fractions=FRACTIONS)
    def test_sizes_round_to_the_fractions(self, rows, fractions):
        client = lg.Federation.from_arrays({"a": numbered(rows), "b": numbered(50)}, fractions=fractions).clients[0]
        for (_, split), fraction in zip(client.splits, fractions, strict=True):
            assert len(split) >= 1
            assert abs(len(split) - fraction * rows) <= 1 or rows < 10

    @settings(deadline=None)
    @given(
        counts=st.lists(st.integers(0, 120), min_size=2, max_size=6).filter(lambda counts: sum(counts) >= 3),
        seed=st.integers(0, 999),
    )
    def test_each_class_is_dealt_out_in_the_proportions_of_the_splits(self, counts, seed):
        y = np.repeat(np.arange(len(counts)), counts)
        client = labelled(y, seed=seed)
        for _, split in client.splits:
            expected = np.array(counts) * len(split) / len(y)
            found = np.bincount(split.y, minlength=len(counts))
            assert np.abs(found - expected).max() < 3  # the guarantee for the worst class of the worst draw

    def test_classes_are_off_by_half_a_row_on_average(self):
        y = np.arange(200) % 5
        misses = []
        for seed in range(50):
            client = labelled(y, seed=seed)
            misses += [abs(np.bincount(split.y, minlength=5) - len(split) / 5) for _, split in client.splits]
        assert np.mean(misses) < 0.6  # drawn without regard to classes it is 2.6

    @pytest.mark.parametrize("rare", [8, 9, 13, 30])
    def test_a_class_of_eight_rows_is_in_every_split(self, rare):
        y = np.array([1] * rare + [0] * 150)
        for seed in range(40):
            client = labelled(y, seed=seed)
            assert all(set(split.y) == {0, 1} for _, split in client.splits)

    def test_three_rows_are_one_for_each_split(self):
        federation = lg.Federation.from_arrays({"a": numbered(3), "b": numbered(3)}, fractions=(0.1, 0.1, 0.8))
        assert [federation.rows(split).tolist() for split in SPLITS] == [[1, 1]] * 3

    def test_targets_that_are_numbers_are_split_at_random(self):
        x, _ = numbered(200)
        y = np.linspace(0, 1, 200)
        federation = lg.Federation.from_arrays({"a": (x, y), "b": (x, y)})
        train = federation.clients[0].train
        assert 0.4 < train.y.mean() < 0.6
        assert federation.clients[0].train.y.tolist() != federation.clients[1].train.y.tolist()

    def test_images_keep_their_shape(self):
        images = np.zeros((20, 8, 6, 3), np.float32)
        federation = lg.Federation.from_arrays({"a": (images, np.arange(20) % 2), "b": (images, np.arange(20) % 2)})
        assert federation.features == (8, 6, 3)
        assert federation.clients[0].train.x.shape == (12, 8, 6, 3)


class TestRepeatingASplit:
    def test_same_seed_same_split(self):
        assert drawn(pair(seed=3), "lyon") == drawn(pair(seed=3), "lyon")

    def test_another_seed_is_another_split(self):
        assert drawn(pair(seed=3), "lyon") != drawn(pair(seed=4), "lyon")

    def test_a_new_client_changes_nobody_elses_split(self):
        arrays = {"lyon": numbered(30), "lille": numbered(40)}
        before = lg.Federation.from_arrays(arrays, seed=1)
        after = lg.Federation.from_arrays({"brest": numbered(25)} | arrays, seed=1)
        assert drawn(before, "lyon") == drawn(after, "lyon")
        assert drawn(before, "lille") == drawn(after, "lille")

    def test_the_order_of_clients_changes_nobodys_split(self):
        arrays = {"lyon": numbered(30), "lille": numbered(40)}
        forwards = lg.Federation.from_arrays(arrays, seed=1)
        backwards = lg.Federation.from_arrays(dict(reversed(arrays.items())), seed=1)
        assert backwards.names == ("lille", "lyon")
        assert all(drawn(forwards, name) == drawn(backwards, name) for name in arrays)

    def test_clients_with_the_same_rows_are_split_differently(self):
        federation = lg.Federation.from_arrays({"lyon": numbered(30), "lille": numbered(30)})
        assert drawn(federation, "lyon") != drawn(federation, "lille")

    def test_the_global_random_state_is_neither_read_nor_moved(self):
        np.random.seed(0)
        first, state = drawn(pair(), "lyon"), np.random.get_state()[1].tolist()
        np.random.seed(0)
        assert np.random.get_state()[1].tolist() == state
        np.random.seed(99)
        assert drawn(pair(), "lyon") == first


class TestSplitsGivenByHand:
    def test_every_split_holds_the_rows_it_was_given(self):
        parts = {"train": numbered(5), "validation": numbered(4, start=10), "test": numbered(3, start=20)}
        federation = lg.Federation.from_splits({"lyon": parts, "lille": parts})
        assert drawn(federation, "lyon") == {
            "train": [0, 1, 2, 3, 4],
            "validation": [10, 11, 12, 13],
            "test": [20, 21, 22],
        }

    def test_the_order_of_the_splits_does_not_matter(self):
        parts = {"test": numbered(3, start=20), "train": numbered(5), "validation": numbered(4, start=10)}
        federation = lg.Federation.from_splits({"lyon": parts, "lille": parts})
        assert [federation.rows(split).tolist() for split in SPLITS] == [[5, 5], [4, 4], [3, 3]]

    def test_one_row_is_enough_for_a_split(self):
        parts = {split: numbered(1) for split in SPLITS}
        federation = lg.Federation.from_splits({"lyon": parts, "lille": parts}, classes=2)
        assert federation.rows().tolist() == [1, 1]

    def test_lists_will_do(self):
        parts = {split: ([[1.0, 2.0], [3.0, 4.0]], [0, 1]) for split in SPLITS}
        federation = lg.Federation.from_splits({"lyon": parts, "lille": parts})
        assert federation.features == (2,)
        assert federation.classes == 2


class TestTargets:
    @pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
    def test_whole_numbers_of_any_kind_become_int32_labels(self, kind):
        x, y = numbered(20)
        federation = lg.Federation.from_arrays({"a": (x, y.astype(kind)), "b": (x, y.astype(kind))})
        assert federation.classes == 2
        assert {split.y.dtype for client in federation.clients for _, split in client.splits} == {np.dtype(np.int32)}
        assert (federation.clients[0].train.y == federation.clients[0].train.x[:, 0] % 2).all()

    @pytest.mark.parametrize("kind", [np.float32, np.float64])
    def test_floats_are_numbers_to_predict(self, kind):
        x, y = numbered(20)
        federation = lg.Federation.from_arrays({"a": (x, (y / 3).astype(kind)), "b": (x, (y / 3).astype(kind))})
        assert federation.classes is None
        assert federation.outputs == 1
        assert federation.clients[0].train.y.dtype == kind

    @pytest.mark.parametrize("divisor", [1, 3.0])
    def test_a_column_of_targets_is_as_good_as_a_row(self, divisor):
        x, y = numbered(20)
        y = y / divisor if divisor > 1 else y
        flat = lg.Federation.from_arrays({"a": (x, y), "b": (x, y)})
        column = lg.Federation.from_arrays({"a": (x, y[:, None]), "b": (x, y[:, None])})
        assert column.classes == flat.classes
        assert (column.clients[0].train.y == flat.clients[0].train.y).all()

    def test_classes_are_counted_over_all_clients_and_splits(self):
        x = np.zeros((1, 2))
        lyon = {"train": (x, [0]), "validation": (x, [1]), "test": (x, [0])}
        lille = {"train": (x, [0]), "validation": (x, [0]), "test": (x, [4])}
        assert lg.Federation.from_splits({"lyon": lyon, "lille": lille}).classes == 5

    def test_more_classes_than_were_seen_may_be_asked_for(self):
        federation = pair(classes=10)
        assert federation.classes == 10
        assert federation.outputs == 10

    def test_whole_floats_are_what_the_task_says(self):
        x, y = numbered(20)
        arrays = {"a": (x, y.astype(float)), "b": (x, y.astype(float))}
        labels = lg.Federation.from_arrays(arrays, task="classification")
        assert labels.classes == 2
        assert labels.clients[0].train.y.dtype == np.int32
        amounts = lg.Federation.from_arrays(arrays, task="regression")
        assert amounts.classes is None
        assert amounts.clients[0].train.y.dtype == float

    def test_counts_are_numbers_where_the_task_says_so(self):
        x, y = numbered(20, classes=7)
        parts = dict.fromkeys(SPLITS, (x, y))
        counts = lg.Federation.from_splits({"lyon": parts, "lille": parts}, task="regression")
        assert counts.classes is None
        assert counts.clients[0].train.y.tolist() == y.tolist()
        assert counts.clients[0].train.y.dtype.kind == "f"

    def test_outputs_are_the_classes(self):
        assert pair().outputs == 2

    def test_a_client_with_one_class_is_allowed_and_named(self):
        x, y = numbered(20)
        with pytest.warns(lg.DataWarning, match=r"'mono'.*one class"):
            lg.Federation.from_arrays({"lyon": (x, y), "mono": (x, np.ones_like(y)), "lille": (x, y)})

    def test_the_warning_names_nobody_else(self):
        x, y = numbered(20)
        with pytest.warns(lg.DataWarning) as caught:
            lg.Federation.from_arrays({"lyon": (x, y), "mono": (x, np.ones_like(y)), "lille": (x, y)})
        assert len(caught) == 1
        assert "lyon" not in str(caught[0].message)
        assert "lille" not in str(caught[0].message)

    @pytest.mark.parametrize("divisor", [1, 3.0])
    def test_ordinary_rows_give_no_warning(self, divisor):
        x, y = numbered(20)
        y = y / divisor if divisor > 1 else y
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lg.Federation.from_arrays({"lyon": (x, y), "lille": (x, y)})

    def test_constant_numbers_are_not_a_single_class(self):
        x = np.zeros((20, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lg.Federation.from_arrays({"lyon": (x, np.full(20, 0.5)), "lille": (x, np.linspace(0, 1, 20))})


class TestWhatAFederationSays:
    def test_names_are_in_the_order_they_were_given(self):
        assert pair().names == ("lyon", "lille")

    def test_rows_of_each_split(self):
        federation = pair(30)
        assert federation.rows().tolist() == [18, 23]
        assert federation.rows("validation").tolist() == [6, 7]
        assert federation.rows("test").tolist() == [6, 7]

    def test_splits_of_every_client(self):
        federation = pair()
        assert [len(split) for split in federation.splits("test")] == federation.rows("test").tolist()
        assert federation.splits("test")[1] is federation.clients[1].test

    def test_features_are_the_shape_of_a_row(self):
        assert pair().features == (2,)

    def test_clients_carry_their_splits_by_name(self):
        client = pair().clients[0]
        assert [name for name, _ in client.splits] == list(SPLITS)
        assert all(client.split(name) is getattr(client, name) for name in SPLITS)

    def test_its_text_names_clients_rows_and_classes(self):
        text = str(pair(30))
        for said in ("2 clients", "(2,)", "2 classes", "lyon 18/6/6", "lille 23/7/7"):
            assert said in text

    def test_its_text_says_when_targets_are_numbers(self):
        x, y = numbered(20)
        assert "numbers to predict" in str(lg.Federation.from_arrays({"a": (x, y / 3), "b": (x, y / 3)}))

    def test_its_text_stays_short_for_many_clients(self):
        text = str(lg.Federation.from_arrays({f"site {k}": numbered(20) for k in range(50)}))
        assert "50 clients" in text
        assert "site 9 " in text
        assert "site 10 " not in text
        assert text.endswith("…")

    def test_it_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            pair().clients = ()
