"""Clients differ in the way and by the amount that was asked for, and in nothing else."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import lossgap as lg
from lossgap.cli import main
from lossgap.config import from_settings

pytestmark = pytest.mark.filterwarnings("ignore::lossgap.DataWarning")


def pictures(shape: tuple[int, ...] = (6, 6), rows: int = 20, clients: int = 3, dtype=np.float32) -> lg.Federation:
    rng = np.random.default_rng(0)
    arrays = {}
    for k in range(clients):
        x = rng.integers(0, 256, (rows, *shape)).astype(dtype)
        arrays[f"client {k}"] = lg.Split(x, np.arange(rows) % 4, 255 if dtype == np.uint8 else None)
    return lg.Federation.from_arrays(arrays)


def labels(federation: lg.Federation, split: str = "train") -> list[np.ndarray]:
    return [rows.y for rows in federation.splits(split)]


class TestRotation:
    @pytest.mark.parametrize("shape", [(6, 6), (5, 5), (6, 6, 3)])
    @pytest.mark.parametrize("dtype", [np.float32, np.uint8])
    def test_a_quarter_turn_moves_pixels_and_changes_none(self, shape, dtype):
        before = pictures(shape, dtype=dtype)
        after = lg.skew.rotated(before, (0, 90, -180))
        for old, new, quarters in zip(before.splits("test"), after.splits("test"), (0, 1, 2), strict=True):
            assert new.kept.dtype == dtype
            for one, other in zip(old.kept, new.kept, strict=True):
                assert np.array_equal(np.rot90(one, quarters), other)
            assert np.array_equal(old.y, new.y)

    def test_four_quarter_turns_are_none(self):
        before = pictures()
        after = before
        for _ in range(4):
            after = lg.skew.rotated(after, (90, 90, 90))
        for old, new in zip(before.splits("train"), after.splits("train"), strict=True):
            assert np.array_equal(old.x, new.x)

    def test_any_angle_turns_the_same_way_as_a_quarter(self):
        x = np.zeros((3, 21, 21), np.float32)
        x[:, 3, 10] = 1  # straight above the centre
        federation = lg.Federation.from_arrays({"a": (x, np.arange(3) % 2), "b": (x, np.arange(3) % 2)})
        turned = lg.skew.rotated(federation, (45, 30)).splits("train")
        for split, angle in zip(turned, (45, 30), strict=True):
            weight = split.x[0] / split.x[0].sum()
            row, column = (weight.sum(axis=axis) @ np.arange(21) for axis in (1, 0))
            radians = np.deg2rad(angle)
            assert row == pytest.approx(10 - 7 * np.cos(radians), abs=0.15)
            assert column == pytest.approx(10 - 7 * np.sin(radians), abs=0.15)  # counterclockwise: to the left

    def test_points_turn_around_the_origin(self):
        x = np.tile([1.0, 0.0], (5, 1))
        federation = lg.Federation.from_arrays({"a": (x, np.arange(5) % 2), "b": (x, np.arange(5) % 2)})
        turned = lg.skew.rotated(federation, (30, 90)).splits("train")
        assert np.allclose(turned[0].x, [np.sqrt(0.75), 0.5])
        assert np.allclose(turned[1].x, [0, 1])

    def test_only_the_last_client_is_turned_by_all_of_it(self):
        plain, turned = (
            lg.datasets.digits(clients=3, alpha=10.0, skew=lg.Skew(rotation=angle)) for angle in (0.0, 180.0)
        )
        for k, quarters in enumerate((0, 1, 2)):
            expected = np.rot90(plain.clients[k].train.x, quarters, axes=(1, 2))
            assert np.array_equal(turned.clients[k].train.x, expected)

    def test_rows_without_a_plane_are_refused(self):
        x = np.zeros((9, 5))
        federation = lg.Federation.from_arrays({"a": (x, np.arange(9) % 2), "b": (x, np.arange(9) % 2)})
        with pytest.raises(lg.DataError, match=r"rows of shape \(5,\) cannot be turned"):
            lg.skew.rotated(federation, (0, 90))
        with pytest.raises(lg.SettingError, match=r"degrees is \(90,\) for 2 clients"):
            lg.skew.rotated(federation, (90,))


class TestLabelNoise:
    @settings(deadline=None, max_examples=30)
    @given(share=st.floats(0, 1), seed=st.integers(0, 999))
    def test_exactly_this_share_of_every_split_is_wrong(self, share, seed):
        before = pictures()
        after = lg.skew.mislabelled(before, (0.0, share, 1.0), seed=seed)
        for name in ("train", "validation", "test"):
            wrong = [(old != new).sum() for old, new in zip(labels(before, name), labels(after, name), strict=True)]
            count = len(labels(before, name)[0])
            assert wrong == [0, round(share * count), count]
            assert all(set(y) <= set(range(4)) for y in labels(after, name))

    def test_wrong_labels_are_spread_over_the_other_classes(self):
        x, y = np.zeros((9000, 1)), np.zeros(9000, int)
        federation = lg.Federation.from_arrays({"a": (x, y), "b": (x, y)}, classes=4)
        noisy = labels(lg.skew.mislabelled(federation, (1.0, 0.0), seed=0))[0]
        assert np.allclose(np.bincount(noisy, minlength=4) / len(noisy), [0, 1 / 3, 1 / 3, 1 / 3], atol=0.03)

    def test_named_splits_only(self):
        before = pictures()
        after = lg.skew.mislabelled(before, (1, 1, 1), seed=0, splits=("train",))
        assert all((old != new).all() for old, new in zip(labels(before), labels(after), strict=True))
        assert all(
            np.array_equal(old, new) for old, new in zip(labels(before, "test"), labels(after, "test"), strict=True)
        )

    def test_another_clients_share_changes_nobody_elses_labels(self):
        one, other = (lg.skew.mislabelled(pictures(), (share, 0.5, 0.5), seed=3) for share in (0.0, 0.9))
        for a, b in zip(labels(one)[1:], labels(other)[1:], strict=True):
            assert np.array_equal(a, b)

    def test_the_given_rows_are_left_alone(self):
        before = pictures()
        copies = [y.copy() for y in labels(before)]
        lg.skew.mislabelled(before, (1, 1, 1), seed=0)
        assert all(np.array_equal(a, b) for a, b in zip(labels(before), copies, strict=True))

    def test_bad_requests_are_refused(self):
        with pytest.raises(lg.SettingError, match=r"label noise is 1\.5"):
            lg.skew.mislabelled(pictures(), (0, 0, 1.5), seed=0)
        x = np.linspace(0, 1, 20)[:, None]
        numbers = lg.Federation.from_arrays({"a": (x, x[:, 0]), "b": (x, x[:, 0])})
        with pytest.raises(lg.DataError, match="targets are numbers"):
            lg.skew.mislabelled(numbers, (0, 0.5), seed=0)


class TestSkew:
    def test_classes_each(self):
        federation = lg.datasets.digits(clients=5, skew=lg.Skew(classes_each=2))
        held = [np.unique(np.concatenate([rows.y for _, rows in c.splits])) for c in federation.clients]
        assert [len(own) for own in held] == [2] * 5

    def test_size_alpha(self):
        federation = lg.datasets.digits(clients=5, skew=lg.Skew(size_alpha=0.3), seed=1)
        sizes = np.sum([federation.rows(split) for split in ("train", "validation", "test")], axis=0)
        assert sizes.sum() == 1797
        assert sizes.min() >= 10
        assert sizes.max() > 3 * sizes.min()

    def test_no_skew_changes_nothing(self):
        one, other = lg.datasets.digits(seed=2), lg.datasets.digits(seed=2, skew=lg.Skew())
        for a, b in zip(one.clients, other.clients, strict=True):
            assert np.array_equal(a.train.x, b.train.x)
            assert np.array_equal(a.test.y, b.test.y)

    def test_bad_settings_are_refused(self):
        with pytest.raises(lg.SettingError, match="both classes_each and size_alpha"):
            lg.Skew(classes_each=2, size_alpha=1.0)
        with pytest.raises(lg.SettingError, match="size_alpha is 0"):
            lg.Skew(size_alpha=0)

    def test_a_file_says_it_in_a_section(self):
        federation = {"dataset": "digits", "clients": 5, "skew": {"classes_each": 2, "label_noise": 0.5}}
        made = from_settings({"federation": federation, "methods": [{"name": "FedAvg"}]}).make_federation(seed=0)
        assert len(made.clients) == 5
        assert len(np.unique(made.clients[0].train.y)) == 2
        assert len(np.unique(made.clients[4].train.y)) > 2

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("clases_each = 2", r"federation\.skew: the key 'clases_each' is unknown.*'classes_each'"),
            ("classes_each = 'two'", r"federation\.skew\.classes_each.*integer"),
            (
                "classes_each = 2\nsize_alpha = 1.0",
                r"run\.toml: Skew: both classes_each and size_alpha are given\.",
            ),
        ],
    )
    def test_a_mistake_in_a_file_is_named(self, tmp_path, line, words):
        path = tmp_path / "run.toml"
        path.write_text(f"[federation]\ndataset = 'digits'\n[federation.skew]\n{line}\n[[methods]]\nname = 'FedAvg'\n")
        result = CliRunner().invoke(main, ["compare", str(path)])
        assert result.exit_code == 1
        assert re.search(words, result.output, re.DOTALL)
