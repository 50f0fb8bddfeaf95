"""EMNIST and its relatives in every layout in which they are found, from files made here."""

import gzip
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

import lossgap as lg
from lossgap.datasets import home, images

pytestmark = pytest.mark.filterwarnings("ignore::lossgap.DataWarning")

SOURCES = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10}
ROWS = {"train": 260, "test": 140}


def idx_file(rows: np.ndarray) -> bytes:
    return bytes([0, 0, 8, rows.ndim]) + struct.pack(f">{rows.ndim}I", *rows.shape) + rows.astype(np.uint8).tobytes()


def put(path: Path, content: bytes, packed: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.with_name(f"{path.name}.gz") if packed else path
    path.write_bytes(gzip.compress(content) if packed else content)


def made(part: str, classes: int, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Upright images whose first row of pixels says which row of which part they are, and the labels as published."""
    rng, count = np.random.default_rng(len(part)), ROWS[part]
    x = rng.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    x[:, 0, 0], x[:, 0, 1], x[:, 0, 2] = np.arange(count) // 256, np.arange(count) % 256, part == "test"
    return x, np.arange(count) % classes + first


def publish(folder: Path, source: str, *, parts=("train", "test"), packed=False, inside: str = "") -> None:
    first = 1 if source == "letters" else 0
    for part in parts:
        x, y = made(part, SOURCES[source], first)
        stem = folder / "emnist" / inside / f"emnist-{source}-{part}"
        put(Path(f"{stem}-images-idx3-ubyte"), idx_file(x.transpose(0, 2, 1)), packed)
        put(Path(f"{stem}-labels-idx1-ubyte"), idx_file(y), packed)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LOSSGAP_DATA", str(tmp_path))
    return tmp_path


def check(federation: lg.Federation, source: str, parts: tuple[str, ...]) -> None:
    """Every published row stands in exactly one split of one client, upright and with its own label."""
    seen = []
    for client in federation.clients:
        for _, split in client.splits:
            assert split.kept.dtype == np.uint8
            assert split.x.dtype == np.float32
            assert split.x.max() <= 1
            for image, label in zip(split.kept, split.y, strict=True):
                part = "test" if image[0, 2] else "train"
                row = int(image[0, 0]) * 256 + int(image[0, 1])
                x, y = made(part, SOURCES[source], 0)
                assert np.array_equal(image, x[row])
                assert label == y[row]
                seen.append((part, row))
    assert sorted(seen) == sorted((part, row) for part in parts for row in range(ROWS[part]))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("packed", [False, True], ids=["raw", "gz"])
def test_every_selection_is_read_upright(folder, source, packed):
    publish(folder, source, packed=packed)
    federation = lg.datasets.emnist(source=source, clients=3, alpha=10.0, rows=None)
    assert federation.classes == SOURCES[source]
    assert federation.features == (28, 28)
    check(federation, source, ("train", "test"))


@pytest.mark.parametrize("inside", ["gzip", "raw"])
def test_the_folder_that_the_archive_unpacks_to_is_found(folder, inside):
    publish(folder, "digits", packed=inside == "gzip", inside=inside)
    check(lg.datasets.emnist(source="digits", clients=2, alpha=10.0, rows=None), "digits", ("train", "test"))


@pytest.mark.parametrize("part", ["train", "test"])
def test_one_part_alone_is_enough(folder, part):
    publish(folder, "balanced", parts=(part,), packed=part == "test")
    check(lg.datasets.emnist(source="balanced", clients=2, alpha=10.0, rows=None), "balanced", (part,))


def test_one_part_can_be_asked_for(folder):
    publish(folder, "digits")
    federation = lg.datasets.emnist(source="digits", clients=2, alpha=10.0, rows=None, parts=("test",))
    check(federation, "digits", ("test",))
    (folder / "emnist" / "emnist-digits-train-images-idx3-ubyte").unlink()
    with pytest.raises(lg.FileError, match=r"digits-train-images-idx3-ubyte.*lossgap data fetch emnist"):
        lg.datasets.emnist(source="digits", rows=None, parts=("train",))


def test_images_without_their_labels_are_named(folder):
    publish(folder, "digits")
    (folder / "emnist" / "emnist-digits-test-labels-idx1-ubyte").unlink()
    with pytest.raises(lg.FileError, match=r"digits-test-labels-idx1-ubyte.*fetch emnist"):
        lg.datasets.emnist(source="digits")


def test_nothing_there_says_how_to_get_it(folder):
    with pytest.raises(lg.FileError, match=r"emnist-byclass-train.*lossgap data fetch emnist.*LOSSGAP_DATA"):
        lg.datasets.emnist()


def test_labels_of_another_selection_are_refused(folder):
    publish(folder, "byclass")
    for path in (folder / "emnist").iterdir():
        path.rename(path.with_name(path.name.replace("byclass", "digits")))
    with pytest.raises(lg.FileError, match=r"digits-train-labels.*row 10 is 10.*labels 0 to 9"):
        lg.datasets.emnist(source="digits")


def test_a_subset_is_drawn_with_the_seed(folder):
    publish(folder, "digits")
    pools = [images.read(images.EMNIST["digits"], rows=150, seed=seed) for seed in (1, 1, 2)]
    marks = [[tuple(image[0, :3]) for image in pool.kept] for pool in pools]
    assert len(set(marks[0])) == 150
    assert marks[0] == marks[1] != marks[2]
    assert 60 < sum(mark[2] == 0 for mark in marks[0]) < 130  # of both parts
    with pytest.raises(lg.SettingError, match=r"rows is 401.*hold 400"):
        lg.datasets.emnist(source="digits", rows=401)


@pytest.mark.parametrize("dot", [False, True])
@pytest.mark.parametrize("data", ["mnist", "fashion_mnist"])
def test_mnist_and_fashion_mnist_are_stored_upright(folder, data, dot):
    for part, name in (("train", "train"), ("test", "t10k")):
        x, y = made(part, 10, 0)
        for kind, content in (("images-idx3", x), ("labels-idx1", y)):
            path = folder / data / f"{name}-{kind}-ubyte"
            # Some tools unpack "train-images-idx3-ubyte.gz" to "train-images.idx3-ubyte".
            path = path.with_name(path.name.replace("-idx", ".idx")) if dot else path
            put(path, idx_file(content), packed=part == "train" and not dot)
    check(getattr(lg.datasets, data)(clients=2, alpha=10.0, rows=None), "digits", ("train", "test"))


def test_a_file_is_found_in_this_order(folder):
    for name in ("gzip/x.gz", "x.gz", "x"):
        put(folder / "set" / name, b"", packed=False)
    assert home.find("set", "x") == folder / "set" / "x"
    (folder / "set" / "x").unlink()
    assert home.find("set", "x") == folder / "set" / "x.gz"
    (folder / "set" / "x.gz").unlink()
    assert home.find("set", "x") == folder / "set" / "gzip" / "x.gz"


class TestRealImages:
    def test_a_one_is_taller_than_wide_and_a_minus_like_stroke_is_not_stood_up(self, real_data):
        """Transposed images would make ones wide."""
        pool = images.read(images.EMNIST["byclass"], rows=4_000, seed=0, parts=("test",))
        ones = pool.kept[pool.y == 1] > 127
        tall = [np.ptp(np.flatnonzero(one.any(axis=1))) for one in ones]
        wide = [np.ptp(np.flatnonzero(one.any(axis=0))) for one in ones]
        assert np.mean(np.array(tall) > np.array(wide)) > 0.9

    def test_sevens_have_their_bar_above_and_ls_their_foot_below(self, real_data):
        """Mirrored or turned images would not."""
        pool = images.read(images.EMNIST["byclass"], rows=20_000, seed=0, parts=("test",))
        capital_l = pool.kept[pool.y == 21].mean(axis=0)
        assert capital_l[16:].sum() > 1.2 * capital_l[:12].sum()  # the foot
        assert capital_l[:12, :13].sum() > 1.5 * capital_l[:12, 15:].sum()  # the stem stands at the left
        seven = pool.kept[pool.y == 7].mean(axis=0)
        assert seven[6:11, :14].sum() > seven[18:23, :14].sum()

    def test_the_published_rows(self, real_data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            federation = lg.datasets.emnist(rows=None, parts=("test",), alpha=0.1)
        assert sum(federation.rows(split).sum() for split in ("train", "validation", "test")) == 116_323
        assert federation.classes == 62
