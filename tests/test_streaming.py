"""Rows that lie in files train as rows in memory do, and take no memory of their own."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limited_memory
import lossgap as lg
from lossgap.engine import streaming
from lossgap.engine.learner import JaxLearner
from lossgap.engine.sequential import SequentialStepper
from lossgap.engine.streaming import StreamingLearner, StreamingStepper
from lossgap.identity import fingerprint
from lossgap.mapped import Mapped, in_blocks

pytestmark = pytest.mark.filterwarnings("ignore::lossgap.DataWarning")

ROWS = {"few": 30, "many": 110}
ALONE = [0.5, 0.4]


def arrays(dtype=np.float32, shape: tuple[int, ...] = (6,)) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    made = {name: (rng.normal(size=(rows, *shape)), rng.integers(0, 3, rows)) for name, rows in ROWS.items()}
    return {name: ((x * 40 + 128).clip(0, 255).astype(dtype), y) for name, (x, y) in made.items()}


def pair(folder: Path, dtype=np.float32, **settings) -> tuple[lg.Federation, lg.Federation]:
    """The same rows in files and in memory."""
    unit = 255.0
    inside = {name: lg.Split(x, y, unit) for name, (x, y) in arrays(dtype).items()}
    outside = {}
    for name, split in inside.items():
        np.save(folder / f"{name}.npy", split.kept)
        outside[name] = lg.Split(np.load(folder / f"{name}.npy", mmap_mode="r"), split.y, unit)
    federations = (lg.Federation.from_arrays(each, classes=3, **settings) for each in (outside, inside))
    return next(federations), next(federations)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of seven rows, so that these small clients are read in many parts."""
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 7 * 6 * 4)


def assert_alike(one: lg.Result, other: lg.Result, **tolerance) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), one.params, other.params)
    for name in ("train_loss", "validation_loss", "gap", "multiplier"):
        a, b = getattr(one.history, name), getattr(other.history, name)
        np.testing.assert_allclose(a, b, **tolerance, err_msg=name)
    for a, b in zip(one.clients, other.clients, strict=True):
        for name in ("train_loss", "validation_loss", "test_loss", "train_accuracy", "test_accuracy", "gap"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), abs=1e-5), name


class TestRowsInFiles:
    @pytest.mark.parametrize("dtype", [np.float32, np.uint8])
    def test_a_federation_copies_none_of_them(self, tmp_path, dtype):
        outside, inside = pair(tmp_path, dtype)
        for one, other in zip(outside.clients, inside.clients, strict=True):
            for (_, a), (_, b) in zip(one.splits, other.splits, strict=True):
                assert isinstance(a.kept, Mapped)
                assert isinstance(a.kept.source, np.memmap)
                assert np.array_equal(a.x, b.x)
                assert np.array_equal(a.y, b.y)
                assert a.x.dtype == b.x.dtype

    def test_splits_given_by_hand_stay_as_they_are(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((9, 2)))
        rows = np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(9) % 2
        splits = dict.fromkeys(("train", "validation", "test"), rows)
        federation = lg.Federation.from_splits({"a": splits, "b": splits})
        assert federation.clients[0].train.kept is rows[0]

    def test_rows_can_be_chosen_again_and_again(self, tmp_path):
        x = np.arange(40).reshape(20, 2)
        np.save(tmp_path / "x.npy", x)
        split = lg.Split(np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(20))
        odd = split.take(np.arange(1, 20, 2)).take(np.array([7, 0, 3]))
        assert isinstance(odd.kept, Mapped)
        assert odd.kept.shape == (3, 2)
        assert np.array_equal(odd.x, x[[15, 1, 7]])
        assert np.array_equal(odd.kept[np.array([2, 0, 0])], x[[7, 15, 15]])
        assert np.array_equal(odd.kept[1], x[1])
        assert np.array_equal(odd.kept[:2], x[[15, 1]])
        assert np.array_equal(odd.y, [15, 1, 7])

    def test_the_first_bad_number_is_found_wherever_it_lies(self, tmp_path, monkeypatch):
        monkeypatch.setattr("lossgap.mapped.BLOCK_BYTES", 100)
        x = np.zeros((60, 3))
        x[41, 2] = np.nan
        x[55, 0] = np.inf
        np.save(tmp_path / "x.npy", x)
        rows = np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(60) % 2
        good = np.zeros((60, 3)), np.arange(60) % 2
        splits = {"train": rows, "validation": good, "test": good}
        with pytest.raises(lg.DataError, match=r"'a', train split: 2 of the features are NaN.*first in row 41"):
            lg.Federation.from_splits({"a": splits, "b": dict.fromkeys(splits, good)})

    def test_the_engines_in_memory_take_them_too(self, tmp_path):
        outside, inside = pair(tmp_path)
        runs = [
            lg.train(each, lg.models.linear(), lg.FedAvg(), lg.Training(rounds=5), solo=ALONE)
            for each in (outside, inside)
        ]
        assert_alike(*runs, rtol=0)

    def test_a_store_knows_them_by_their_contents(self, tmp_path):
        (tmp_path / "other").mkdir()
        one, other = pair(tmp_path)[0], pair(tmp_path / "other")[0]
        assert fingerprint(one) == fingerprint(other)
        x = np.load(tmp_path / "other" / "few.npy", mmap_mode="r+")
        x[3, 2] += 1
        x.flush()
        assert fingerprint(one) != fingerprint(other)

    def test_a_description_reads_them(self, tmp_path):
        outside, inside = pair(tmp_path)
        assert str(outside.describe()) == str(inside.describe())


WORK = [
    {"local_steps": 3, "batch_size": 4},
    {"local_epochs": 2, "batch_size": 16},
    {"local_epochs": 1, "batch_size": 500},
]


class TestLearner:
    @pytest.mark.parametrize("work", WORK)
    def test_a_round_in_one_part_is_that_of_the_learner_in_memory_to_the_last_bit(self, tmp_path, work):
        outside, inside = pair(tmp_path)
        training = lg.Training(step_size=0.3, **work)
        start = lg.models.linear().init(jax.random.key(0), jnp.zeros((1, 6)), 3)
        for one, other in zip(outside.clients, inside.clients, strict=True):
            learners = (
                kind.of(client, lg.models.linear(), training, seed=2)
                for kind, client in ((StreamingLearner, one), (JaxLearner, other))
            )
            a, b = (each.fit(start, jnp.asarray(-0.7), round=5, rule=lg.FedAvg()) for each in learners)
            jax.tree.map(np.testing.assert_array_equal, a, b)

    def test_the_full_batch_is_refused(self, tmp_path):
        outside, _ = pair(tmp_path)
        with pytest.raises(lg.SettingError, match=r"'few'.*batch_size is None.*Set batch_size"):
            lg.train_streaming(outside, lg.models.linear(), lg.FedAvg(), lg.Training(rounds=2), solo=ALONE)


class TestTraining:
    @pytest.mark.parametrize(
        ("algorithm", "work"),
        [
            (lg.Eagle(gap_penalty=0.5), WORK[0]),
            (lg.FedNova(momentum=0.5), WORK[1]),
            pytest.param(lg.FedAvg(), WORK[1], marks=pytest.mark.slow),
            pytest.param(lg.QFFL(q=1.0), WORK[2], marks=pytest.mark.slow),
        ],
        ids=["Eagle", "FedNova", "FedAvg", "QFFL"],
    )
    def test_a_run_equals_that_in_memory(self, tmp_path, small_blocks, algorithm, work):
        outside, inside = pair(tmp_path)
        training = lg.Training(rounds=6, step_size=0.2, record_every=2, **work)
        streamed = lg.train_streaming(outside, lg.models.linear(), algorithm, training, solo=ALONE, seed=3)
        compiled = lg.train(inside, lg.models.linear(), algorithm, training, solo=ALONE, seed=3)
        assert_alike(streamed, compiled, rtol=2e-4, atol=2e-6)
        assert np.allclose(streamed.predict(inside.clients[1].test.x), compiled.predict(inside.clients[1].test.x))

    @pytest.mark.parametrize(
        "algorithm",
        [
            lg.Eagle(gap_penalty=0.5, lag=0),
            lg.FedDGGA(),
            pytest.param(lg.Ditto(base=lg.FedAvg()), marks=pytest.mark.slow),
            pytest.param(lg.AFL(), marks=pytest.mark.slow),
            pytest.param(lg.FedFV(), marks=pytest.mark.slow),
        ],
        ids=str,
    )
    def test_every_method_gets_the_measurements_it_needs(self, tmp_path, small_blocks, algorithm):
        outside, inside = pair(tmp_path)
        training = lg.Training(rounds=4, step_size=0.2, local_steps=2, batch_size=8)
        streamed = lg.train_streaming(outside, lg.models.linear(), algorithm, training, solo=ALONE)
        plain = lg.train(inside, lg.models.linear(), algorithm, training, solo=ALONE, engine=SequentialStepper.of)
        assert_alike(streamed, plain, rtol=2e-4, atol=2e-6)

    def test_some_clients_at_a_time(self, tmp_path):
        outside, inside = pair(tmp_path)
        training = lg.Training(rounds=6, step_size=0.2, local_steps=2, batch_size=8, participation=0.67)
        streamed = lg.train_streaming(outside, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training, solo=ALONE)
        compiled = lg.train(inside, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training, solo=ALONE)
        assert_alike(streamed, compiled, rtol=2e-4, atol=2e-6)

    @pytest.mark.slow
    def test_it_is_an_engine_as_well(self, tmp_path):
        outside, inside = pair(tmp_path)
        training = lg.Training(rounds=4, batch_size=8, precision="float64", gap_split="train")
        streamed = lg.train(
            outside, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training, solo=ALONE, engine=StreamingStepper.of
        )
        compiled = lg.train(inside, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training, solo=ALONE)
        assert_alike(streamed, compiled, rtol=1e-10)

    def test_solo_losses_are_those_of_train_solo(self, tmp_path):
        outside, inside = pair(tmp_path)
        training = lg.Training(rounds=30, step_size=0.2, local_epochs=1, batch_size=500)
        streamed = lg.train_streaming(outside, lg.models.linear(), lg.FedAvg(), training, seed=1)
        solo = lg.train_solo(inside, lg.models.linear(), training, seed=1)
        assert [client.solo_loss for client in streamed.clients] == pytest.approx(solo.losses().tolist(), abs=1e-5)

    def test_numbers_to_predict(self, tmp_path):
        rng = np.random.default_rng(0)
        inside = {}
        outside = {}
        for name in ("a", "b"):
            x = rng.normal(size=(50, 4))
            inside[name] = x, x.sum(axis=1) + rng.normal(size=50)
            np.save(tmp_path / f"{name}.npy", x)
            outside[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r"), inside[name][1]
        training = lg.Training(rounds=5, batch_size=8, step_size=0.05)
        results = [
            train(
                lg.Federation.from_arrays(rows),
                lg.models.linear(),
                lg.Eagle(gap_penalty=0.5),
                training,
                solo=[0.5, 0.5],
            )
            for train, rows in ((lg.train_streaming, outside), (lg.train, inside))
        ]
        np.testing.assert_allclose(results[0].params["kernel"], results[1].params["kernel"], rtol=1e-4, atol=1e-6)
        assert np.isnan(results[0].clients[0].test_accuracy)
        assert results[0].clients[0].test_loss == pytest.approx(results[1].clients[0].test_loss, rel=1e-5)

    def test_what_is_not_needed_is_not_read(self, tmp_path, monkeypatch):
        outside, _ = pair(tmp_path)
        seen: list[str] = []
        plain = StreamingLearner.loss

        def loss(self, params, split):
            seen.append(split)
            return plain(self, params, split)

        monkeypatch.setattr(StreamingLearner, "loss", loss)
        training = lg.Training(rounds=10, batch_size=8, record_every=10)
        lg.train_streaming(outside, lg.models.linear(), lg.FedAvg(), training, solo=ALONE)
        # Two lines of the history, then every client's row of results.
        assert {split: seen.count(split) for split in set(seen)} == {"train": 6, "validation": 6, "test": 2}
        seen.clear()
        lg.train_streaming(outside, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training, solo=ALONE)
        assert seen.count("train") == 6
        assert seen.count("validation") == 6 + 2 * 9  # nine more rounds look at gaps


@pytest.fixture(scope="module")
def large_file(tmp_path_factory) -> Path:
    """2 GB of features, nearly four times as much as the test below allows in memory."""
    folder = tmp_path_factory.mktemp("large")
    rows, features = 250_000, 2_000
    block = np.random.default_rng(0).normal(size=(5_000, features)).astype(np.float32)
    with (folder / "x.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, features)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(rows // len(block)):
            file.write(block.data)
    np.save(folder / "y.npy", np.tile((block[:, :5].sum(axis=1) > 0).astype(np.int32), rows // len(block)))
    yield folder
    (folder / "x.npy").unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process may write to")
def test_a_file_several_times_larger_than_memory(large_file):
    limit = 512
    script = Path(__file__).with_name("limited_memory.py")
    ran = subprocess.run(
        [sys.executable, script, large_file, str(limit)], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    report = json.loads(ran.stdout)
    assert (large_file / "x.npy").stat().st_size > 3.5 * limit * limited_memory.MEGABYTE
    assert not report["fits"]  # the same process could not have loaded it
    kernel = np.array(report["kernel"])
    assert abs(kernel[:5]).mean() > 3 * abs(kernel[5:]).mean()  # it has found the five features that matter

    # The loss that was measured block by block, against plain NumPy.
    train = limited_memory.federation(large_file).clients[0].train
    total = 0.0
    for first, x in in_blocks(train.kept):
        logits = (x @ kernel.astype(np.float32) + np.array(report["bias"], np.float32)).astype(np.float64)
        y = train.y[first : first + len(x)]
        total += (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]).sum()
    assert report["loss"][0] == pytest.approx(total / len(train), rel=1e-5)


def test_the_beginning_of_that_file_trains_alike_in_memory(large_file, tmp_path):
    x, y = np.load(large_file / "x.npy", mmap_mode="r")[:1_000], np.load(large_file / "y.npy")[:1_000]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    outside = limited_memory.federation(tmp_path)
    inside = lg.Federation.from_arrays(
        {"first": (np.array(x[:500]), y[:500]), "second": (np.array(x[500:]), y[500:])}, classes=2
    )
    method, settings = lg.Eagle(gap_penalty=0.5), limited_memory.TRAINING
    streamed = lg.train_streaming(outside, lg.models.linear(), method, settings, solo=[0.5, 0.5])
    compiled = lg.train(inside, lg.models.linear(), method, settings, solo=[0.5, 0.5])
    assert_alike(streamed, compiled, rtol=1e-4, atol=1e-6)
