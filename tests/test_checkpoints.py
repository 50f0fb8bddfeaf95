"""A run that is cut off goes on where it was saved, and ends as if nothing had happened."""

from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from lossgap import algorithms
from lossgap.engine import alone, checkpoint, run
from lossgap.engine.checkpoint import FILE, Checkpoint, Checkpoints, Standing, saving
from lossgap.engine.sequential import SequentialStepper
from lossgap.errors import Stopped

SOLO = [0.5, 0.6, 0.7, 0.8]
TRAINING = lg.Training(rounds=12, step_size=0.2, record_every=2)
BATCHES = lg.Training(rounds=9, step_size=0.2, local_epochs=1, batch_size=4)


class Killed(Exception):
    """Ends a run without any chance to save what it has come to."""


@pytest.fixture(autouse=True)
def slowly(monkeypatch):
    """One recorded round per segment, and a checkpoint after each."""
    monkeypatch.setattr(run, "GROWTH", 1)
    monkeypatch.setattr(checkpoint, "WORTH", 0)


def at_line(number: int, problem: type[BaseException]):
    """Raises as soon as so many lines of a run's history have been seen."""
    seen = []

    def onlooker(lines: run.History) -> None:
        seen.extend(lines.rounds)
        if len(seen) >= number:
            raise problem

    return onlooker


def bits(tree) -> list[tuple]:
    leaves = [(path, np.asarray(a)) for path, a in jax.tree_util.tree_leaves_with_path(tree)]
    return [(jax.tree_util.keystr(path), a.dtype, a.shape, a.tobytes()) for path, a in leaves]


def assert_identical(one: lg.Result, other: lg.Result) -> None:
    assert bits(one.params) == bits(other.params)
    assert bits(vars(one.history)) == bits(vars(other.history))
    assert repr(one.clients) == repr(other.clients)


def plain(kind: type[lg.Algorithm]) -> lg.Algorithm:
    """A method with its defaults, and some number where it has none."""
    missing = {field.name for field in fields(kind) if field.default is MISSING}
    return kind(**dict.fromkeys(missing | ({"gap_penalty"} if kind is lg.Eagle else set()), 0.5))


ALL = [plain(getattr(lg, name)) for name in algorithms.__all__ if name != "Algorithm"]
SOME = [
    (lg.Eagle(gap_penalty=1.0), TRAINING),
    (lg.Ditto(base=lg.Eagle(gap_penalty=0.5)), BATCHES),
    (lg.Eagle(gap_penalty=1.0, target_variance=0.01), lg.Training(rounds=12, step_size=0.2, participation=0.5)),
]


def cut_off_and_resumed(federation, algorithm, training, folder: Path) -> lg.Result:
    saves = Checkpoints(folder, seconds=0)

    def train(**more) -> lg.Result:
        return lg.train(federation, lg.models.linear(), algorithm, training, solo=SOLO, checkpoint=saves, **more)

    for lines in (2, 4):  # the second process sees the lines of the first again
        with pytest.raises(Killed):
            train(onlooker=at_line(lines, Killed))
    first = []
    result = train(onlooker=lambda lines: first.append(lines.rounds[0]))
    assert first[:2] == [0, 3 * training.record_every], "the run did not go on where it was saved"
    return result


@pytest.mark.parametrize(("algorithm", "training"), SOME, ids=str)
def test_a_run_cut_off_twice_ends_as_if_it_had_not_been(ragged, tmp_path, algorithm, training):
    whole = lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO)
    assert_identical(whole, cut_off_and_resumed(ragged, algorithm, training, tmp_path))
    assert not list(tmp_path.iterdir()), "checkpoints of finished runs stay"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", ALL, ids=str)
def test_every_method_goes_on(ragged, tmp_path, algorithm, precision):
    training = lg.Training(rounds=9, step_size=0.1, local_epochs=1, batch_size=4, precision=precision)
    whole = lg.train(ragged, lg.models.linear(), algorithm, training, solo=SOLO)
    assert_identical(whole, cut_off_and_resumed(ragged, algorithm, training, tmp_path))


@pytest.mark.parametrize("algorithm", [*ALL, lg.Ditto(base=lg.AFL()), lg.AFL(average=True)], ids=str)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_state_of_every_method_is_read_back(tmp_path, algorithm, precision):
    with jax.enable_x64(precision == "float64"):
        params = {"kernel": np.full((2, 3), 1 / 3, precision), "bias": np.zeros(3, precision)}
        carry = params, algorithm.init(params, 4)
        assert bits(carry) == bits(jax.tree.map(jnp.asarray, carry)) or precision == "float32"
        found = written_and_read(tmp_path, jax.tree.map(jnp.asarray, carry))
        assert bits(found.tree) == bits(jax.tree.map(jnp.asarray, carry))
        assert jax.tree.structure(found.tree) == jax.tree.structure(carry)


def written_and_read(folder: Path, tree) -> Standing:
    place = Checkpoint(folder / FILE, "key")
    place.write(Standing(7, tree, lambda: {"loss": np.arange(3.0)}))
    found = place.read(tree)
    assert found is not None
    assert found.done == 7
    np.testing.assert_array_equal(found.notes()["loss"], np.arange(3.0))
    return found


def test_random_keys_and_unusual_numbers_are_read_back(tmp_path):
    tree = {
        "keys": jax.random.split(jax.random.key(3, impl="rbg"), 2),
        "half": jnp.linspace(0, 1, 5, dtype=jnp.bfloat16),
        "none": None,
        "empty": jnp.zeros((0, 3)),
        "flag": (jnp.array(True), jnp.uint8(255)),
    }
    found = written_and_read(tmp_path, tree).tree
    assert found["keys"].dtype == tree["keys"].dtype
    assert (jax.random.key_data(found.pop("keys")) == jax.random.key_data(tree.pop("keys"))).all()
    assert bits(found) == bits(tree)


def test_the_plain_engine_goes_on_and_keeps_checkpoints_of_its_own(ragged, tmp_path):
    plain = partial(lg.train, ragged, lg.models.linear(), lg.AFL(), TRAINING, solo=SOLO, engine=SequentialStepper.of)
    saves = Checkpoints(tmp_path, seconds=0)
    with pytest.raises(Killed):
        plain(checkpoint=saves, onlooker=at_line(3, Killed))
    lg.train(ragged, lg.models.linear(), lg.AFL(), TRAINING, solo=SOLO, checkpoint=saves)
    assert len(list(tmp_path.iterdir())) == 1, "the compiled engine took the other's checkpoint"
    assert_identical(plain(), plain(checkpoint=saves))


def test_runs_side_by_side_go_on(ragged, tmp_path):
    methods = [lg.Eagle(gap_penalty=0.3), lg.Eagle(gap_penalty=3.0)]

    def swept(folder: str, **more) -> list[lg.Result]:
        store = lg.Store(tmp_path / folder, checkpoint_seconds=0)
        return store.sweep(ragged, lg.models.linear(), methods, TRAINING, solo=SOLO, seeds=(0, 1), **more)

    with pytest.raises(Killed):
        swept("cut", onlooker=at_line(3, Killed))
    (unfinished,) = (tmp_path / "cut" / "unfinished").iterdir()
    assert sorted(path.name for path in unfinished.iterdir()) == [FILE, "plan.json"]
    first = []
    again = swept("cut", onlooker=lambda lines: first.append(lines.rounds[0]))
    assert first[1] == 4
    for one, other in zip(swept("whole"), again, strict=True):
        assert_identical(one, other)
    assert not list((tmp_path / "cut" / "unfinished").iterdir())


@pytest.mark.parametrize("stop", ["converged", "best"])
def test_solo_training_goes_on(ragged, tmp_path, monkeypatch, stop):
    training = lg.Training(rounds=30, step_size=0.3, batch_size=4)

    def solo() -> lg.Solo:
        saves = Checkpoints(tmp_path, seconds=0)
        return lg.train_solo(ragged, lg.models.linear(), training, stop=stop, checkpoint=saves)

    whole = lg.train_solo(ragged, lg.models.linear(), training, stop=stop)
    real, calls, looks = alone._epochs, [], []

    def killed_at(number: int):
        def epochs(*arguments):
            calls.append(1)
            if len(calls) == number:
                raise Killed
            looks.append(arguments[-1])
            return real(*arguments)

        return epochs

    for number in (3, 6):  # on the way, and again after it went on
        monkeypatch.setattr(alone, "_epochs", killed_at(number))
        with pytest.raises(Killed):
            solo()
    monkeypatch.setattr(alone, "_epochs", killed_at(0))
    assert repr(solo()) == repr(whole)
    assert sum(looks) == 31, "work was done twice, or not at all"
    assert not list(tmp_path.iterdir())


def test_an_interruption_saves_and_knows_the_run_so_far(ragged, tmp_path):
    saves = Checkpoints(tmp_path, seconds=3600)
    arguments = ragged, lg.models.linear(), lg.Eagle(gap_penalty=1.0)
    with pytest.raises(Stopped) as stopped:
        lg.train(*arguments, TRAINING, solo=SOLO, checkpoint=saves, onlooker=at_line(4, KeyboardInterrupt))
    assert isinstance(stopped.value, KeyboardInterrupt)
    (so_far,) = stopped.value.so_far()
    shorter = lg.train(*arguments, lg.Training(rounds=6, step_size=0.2, record_every=2), solo=SOLO)
    assert_identical(so_far, shorter)
    assert so_far.training == TRAINING
    whole = lg.train(*arguments, TRAINING, solo=SOLO)
    assert_identical(whole, lg.train(*arguments, TRAINING, solo=SOLO, checkpoint=saves))


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def of_other_version(path: Path) -> None:
    content = path.read_bytes()
    assert b'"version":"1"' in content
    path.write_bytes(content.replace(b'"version":"1"', b'"version":"2"'))


SPOILERS = {
    "is damaged": damaged,
    "may be cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "format version 2": of_other_version,
    "cannot be read": lambda path: path.write_text("thesis"),
}


@pytest.mark.parametrize("why", SPOILERS)
def test_what_cannot_be_gone_on_from_is_set_aside(ragged, tmp_path, why):
    saves = Checkpoints(tmp_path, seconds=0)
    arguments = ragged, lg.models.linear(), lg.FedAvg(), TRAINING
    with pytest.raises(Killed):
        lg.train(*arguments, solo=SOLO, checkpoint=saves, onlooker=at_line(3, Killed))
    (path,) = tmp_path.glob(f"*/{FILE}")
    SPOILERS[why](path)
    spoiled = path.read_bytes()
    with pytest.warns(lg.DataWarning, match=f"{why}.*set aside"):
        result = lg.train(*arguments, solo=SOLO, checkpoint=saves)
    assert_identical(result, lg.train(*arguments, solo=SOLO))
    (aside,) = tmp_path.glob("*/*")
    assert aside.read_bytes() == spoiled


@pytest.mark.parametrize(("key", "tree"), [("other", {"a": jnp.ones(3)}), ("key", {"a": jnp.ones(4)})])
def test_a_checkpoint_of_other_work_is_never_read(tmp_path, key, tree):
    Checkpoint(tmp_path / FILE, "key").write(Standing(3, {"a": jnp.ones(3)}, dict))
    with pytest.warns(lg.DataWarning, match="set aside"):
        assert Checkpoint(tmp_path / FILE, key).read(tree) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{FILE}.aside-1"]


def test_runs_that_differ_in_anything_do_not_share_a_checkpoint(ragged, tmp_path):
    saves = Checkpoints(tmp_path, seconds=0)
    for penalty, seed, solo in ((1.0, 0, SOLO), (2.0, 0, SOLO), (1.0, 1, SOLO), (1.0, 0, [0.1] * 4)):
        with pytest.raises(Killed):
            lg.train(
                ragged,
                lg.models.linear(),
                lg.Eagle(gap_penalty=penalty),
                TRAINING,
                seed=seed,
                solo=solo,
                checkpoint=saves,
                onlooker=at_line(2, Killed),
            )
    assert len(list(tmp_path.iterdir())) == 4


def test_saving_keeps_to_its_interval_and_to_its_share_of_the_time(tmp_path, monkeypatch):
    clock, written = [0.0], []
    monkeypatch.setattr(checkpoint, "WORTH", 50)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])

    def write(self, standing, seconds):
        written.append((standing.done, seconds))
        clock[0] += cost

    monkeypatch.setattr(Checkpoint, "write", write)
    for cost, expected in ((0.0, [10, 20, 30]), (1.0, [10, 61])):
        clock[0] = 0.0
        written.clear()
        with saving(Checkpoint(tmp_path / FILE, "key", seconds=10)) as saved:
            while clock[0] < 69:
                clock[0] += 1
                saved(Standing(int(clock[0]), (), dict))
                if cost == 0 and clock[0] == 35:
                    break
        assert [done for done, _ in written] == expected
