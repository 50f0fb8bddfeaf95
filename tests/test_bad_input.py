"""What cannot work is refused before any work is done, by a message with the culprit, the cause and the fix."""

import _thread
import json
import re
import threading
import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from lossgap.engine.compiled import CompiledStepper

SPLITS = ("train", "validation", "test")
SHORT = lg.Training(rounds=3)


def rows(count: int = 20, features: int = 2, classes: int = 2):
    x = np.random.default_rng(count).normal(size=(count, features))
    return x, np.arange(count) % classes


def of_numbers(scale: float = 1.0, count: int = 40, seed: int = 0):
    """A noisy plane; its curvature grows with the square of the scale."""
    rng = np.random.default_rng([seed, count])
    x = rng.normal(size=(count, 3)) * scale
    return x, x @ np.array([1.0, 2.0, 3.0]) + 0.1 * rng.normal(size=count)


def with_value(value: float, row: int, column: int = 0):
    x, y = rows()
    x[row, column] = value
    return x, y


def pair(lille) -> lg.Federation:
    return lg.Federation.from_arrays({"lyon": rows(), "lille": lille})


def parts(**changed) -> dict:
    return {split: rows() for split in SPLITS} | changed


def by_hand(**changed) -> lg.Federation:
    return lg.Federation.from_splits({"lyon": parts(), "lille": parts(**changed)})


def client(name: str) -> lg.Client:
    return lg.Client(name, *(lg.Split(*rows()) for _ in SPLITS))


def assert_says(problem: BaseException, *words: str) -> None:
    missing = [word for word in words if word not in str(problem)]
    assert not missing, f"{missing} not said in: {problem}"


X, Y = rows()
NOTHING = np.zeros((0, 2)), np.zeros(0, int)
UNFIT_ROWS = {
    "no clients": (lambda: lg.Federation.from_arrays({}), "no clients", "at least two"),
    "no clients, split": (lambda: lg.Federation.from_splits({}), "no clients", "at least two"),
    "one client": (lambda: lg.Federation.from_arrays({"lyon": (X, Y)}), "one client, 'lyon'", "at least two"),
    "one name twice": (
        lambda: lg.Federation((client("lyon"), client("lille"), client("lyon")), classes=2),
        "'lyon' stands twice",
        "its own name",
    ),
    "empty client": (lambda: pair(NOTHING), "'lille' has 0 rows", "Leave the client out"),
    "two rows": (lambda: pair(rows(2)), "'lille' has 2 rows", "too few", "from_splits"),
    "empty split": (lambda: by_hand(test=NOTHING), "'lille', test split is empty", "at least one row"),
    "missing split": (
        lambda: lg.Federation.from_splits({"lyon": parts(), "lille": {"train": rows()}}),
        "'lille' has no validation and no test split",
        "from_arrays",
    ),
    "NaN": (
        lambda: by_hand(validation=with_value(np.nan, 7)),
        "'lille', validation split",
        "NaN",
        "row 7",
        "Fill or drop",
    ),
    "infinity": (lambda: by_hand(train=with_value(-np.inf, 3, 1)), "'lille', train split", "infinite", "row 3"),
    "NaN before splitting": (lambda: pair(with_value(np.nan, 7)), "'lille'", "NaN", "Fill or drop"),
    "NaN targets": (
        lambda: lg.Federation.from_splits(
            {
                "lyon": {split: of_numbers() for split in SPLITS},
                "lille": {split: (of_numbers()[0], np.full(40, np.nan)) for split in SPLITS},
            }
        ),
        "'lille', train split",
        "targets are NaN",
        "row 0",
    ),
    "negative label": (lambda: pair((X, Y - 1)), "'lille'", "label -1", "outside 0 to 1", "from 0"),
    "label too large": (
        lambda: lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y + 5)}, classes=3),
        "'lille'",
        "label 6",
        "outside 0 to 2",
        "`classes`",
    ),
    "label beyond 32 bits": (lambda: pair((X, Y + 2**32)), "'lille'", "429496729"),
    "floats that look like labels": (
        lambda: lg.Federation.from_arrays({"lyon": (X, Y * 1.0), "lille": (X, Y * 1.0)}),
        "whole numbers 0 to 1",
        "float64",
        "task=",
    ),
    "floats as labels": (
        lambda: lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y * 0.5)}, classes=2),
        "'lille'",
        "float64",
        "2 classes",
        "whole numbers",
    ),
    "fractions as classes": (
        lambda: lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y * 0.5)}, task="classification"),
        "'lille'",
        "whole numbers",
    ),
    "labels here and numbers there": (lambda: pair((X, Y * 0.37)), "'lille'", "float64", "task="),
    "text as labels": (
        lambda: pair((X, np.array(["sick", "well"] * 10))),
        "'lille'",
        "targets are of type <U4",
        "from_table",
    ),
    "text as features": (lambda: pair((np.full((20, 2), "red"), Y)), "'lille'", "features are of type <U3", "Encode"),
    "objects as features": (lambda: pair((X.astype(object), Y)), "'lille'", "features are of type object"),
    "other features": (lambda: pair(rows(features=3)), "'lille'", "(3,)", "(2,)", "the same features"),
    "no features": (
        lambda: lg.Federation.from_arrays({"lyon": (X[:, :0], Y), "lille": (X[:, :0], Y)}),
        "'lyon'",
        "features",
    ),
    "fewer labels than rows": (lambda: pair((X, Y[:-1])), "'lille'", "(20, 2)", "(19,)", "as many targets"),
    "one column as a vector": (lambda: pair((X[:, 0], Y)), "'lille'", "(20,)", "[rows, ...]"),
    "one-hot labels": (lambda: pair((X, np.eye(2)[Y])), "'lille'", "(20, 2)", "targets [rows]"),
    "rows of unequal length": (lambda: pair(([[1, 2], [3]], [0, 1])), "'lille'", "[rows, ...]"),
}


@pytest.mark.parametrize("case", UNFIT_ROWS)
def test_unfit_rows_are_refused(case):
    build, *words = UNFIT_ROWS[case]
    with pytest.raises(lg.DataError) as refusal:
        build()
    assert_says(refusal.value, *words)


@pytest.mark.parametrize(
    "fractions", [(0.5, 0.5), (0.6, 0.2, 0.3), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)]
)
def test_fractions_that_are_no_division_are_refused(fractions):
    with pytest.raises(lg.SettingError) as refusal:
        lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y)}, fractions=fractions)
    assert_says(refusal.value, str(fractions), "sum to 1", "(0.6, 0.2, 0.2)")


def test_an_unknown_task_is_refused():
    with pytest.raises(lg.SettingError) as refusal:
        lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y)}, task="ranking")
    assert_says(refusal.value, "'ranking'", "classification", "regression")


@pytest.mark.parametrize("classes", [0, -3, 1])
def test_fewer_than_two_classes_are_refused(classes):
    with pytest.raises(lg.LossgapError) as refusal:
        lg.Federation.from_arrays({"lyon": (X, Y), "lille": (X, Y)}, classes=classes)
    assert_says(refusal.value, "classes", str(classes))


def test_large_finite_values_are_allowed():
    x = np.full((20, 2), 3e38, np.float32)  # their sum overflows single precision, they do not
    assert pair((x, Y)).features == (2,)


class TestTrainingSettings:
    @pytest.mark.parametrize("name", ["rounds", "local_steps", "local_epochs", "batch_size", "record_every"])
    @pytest.mark.parametrize("number", [0, -1, 1.5, "many"])
    def test_counts_are_whole_and_at_least_one(self, name, number):
        with pytest.raises(lg.SettingError) as refusal:
            lg.Training(**{name: number})
        assert_says(refusal.value, f"{name} is", str(number), "whole number of at least 1")

    @pytest.mark.parametrize("name", ["rounds", "local_steps", "record_every"])
    def test_counts_are_needed(self, name):
        with pytest.raises(lg.SettingError, match=f"{name} is None"):
            lg.Training(**{name: None})

    @pytest.mark.parametrize("number", [np.int64(3), np.int32(3)])
    def test_counts_of_numpy_are_counts(self, number):
        assert lg.Training(rounds=number).rounds == 3

    @pytest.mark.parametrize("step_size", [0, -0.1, float("nan"), float("inf"), "fast"])
    def test_step_size_is_a_positive_number(self, step_size):
        with pytest.raises(lg.SettingError) as refusal:
            lg.Training(step_size=step_size)
        assert_says(refusal.value, "step_size is", str(step_size), "positive number")

    def test_steps_and_epochs_exclude_each_other(self):
        with pytest.raises(lg.SettingError) as refusal:
            lg.Training(local_steps=3, local_epochs=2)
        assert_says(refusal.value, "local_steps=3", "local_epochs=2", "one of them")

    @pytest.mark.parametrize(
        ("name", "choice", "known"),
        [("precision", "half", "float32"), ("precision", "half", "float64"), ("gap_split", "test", "validation")],
    )
    def test_choices_are_listed(self, name, choice, known):
        with pytest.raises(lg.SettingError) as refusal:
            lg.Training(**{name: choice})
        assert_says(refusal.value, f"{name} is '{choice}'", known)


def never(*_, **__):
    pytest.fail("work began before the settings were checked")


@pytest.fixture
def idle(monkeypatch):
    """Fails the test as soon as anybody trains."""
    monkeypatch.setattr("lossgap.solo.train_alone", never)
    return {"engine": never, "progress": False}


class TestBeforeAnyTraining:
    federation = pair(rows(30))

    def train(self, **settings) -> lg.Result:
        return lg.train(self.federation, lg.models.linear(), lg.FedAvg(), SHORT, **settings)

    @pytest.mark.parametrize("solo", [[0.5], [0.5, 0.5, 0.5], 0.5, [[0.5, 0.5]]])
    def test_solo_losses_are_one_for_each_client(self, idle, solo):
        with pytest.raises(lg.SettingError) as refusal:
            self.train(solo=solo, **idle)
        assert_says(refusal.value, "solo", "2 clients", "federation.names")

    @pytest.mark.parametrize(("solo", "name"), [([0.5, np.nan], "'lille'"), ([np.inf, 0.5], "'lyon'")])
    def test_solo_losses_are_numbers(self, idle, solo, name):
        with pytest.raises(lg.SettingError) as refusal:
            self.train(solo=solo, **idle)
        assert_says(refusal.value, "solo", name, "not a finite number", "Give a number")

    def test_solo_models_belong_to_these_clients_in_this_order(self):
        alone = lg.train_solo(self.federation, lg.models.linear(), SHORT, progress=False)
        turned = lg.Federation(self.federation.clients[::-1], classes=2)
        with pytest.raises(lg.SettingError) as refusal:
            lg.train(turned, lg.models.linear(), lg.FedAvg(), SHORT, solo=alone, engine=never, progress=False)
        assert_says(refusal.value, "solo", "lyon", "lille")

    @pytest.mark.parametrize(
        "params",
        [
            {"kernel": np.zeros((3, 2)), "bias": np.zeros(2)},
            {"kernel": np.zeros((2, 2))},
            [np.zeros((2, 2)), np.zeros(2)],
        ],
    )
    @pytest.mark.parametrize("solo", [None, [0.5, 0.5]])
    def test_initial_params_fit_the_model(self, idle, params, solo):
        with pytest.raises(lg.SettingError) as refusal:
            self.train(initial_params=params, solo=solo, **idle)
        assert_says(refusal.value, "initial_params", "'kernel': (2, 2)", "same layers")

    def test_a_rule_to_stop_by_is_known(self):
        with pytest.raises(lg.SettingError) as refusal:
            lg.train_solo(self.federation, lg.models.linear(), SHORT, stop="now", progress=False)
        assert_says(refusal.value, "'now'", "converged", "best", "exact")

    def test_only_convex_losses_have_an_exact_minimum(self):
        with pytest.raises(lg.SettingError) as refusal:
            lg.train_solo(self.federation, lg.models.mlp((2,)), SHORT, stop="exact", progress=False)
        assert_says(refusal.value, "mlp(2)", "convex", "converged")

    def test_images_are_needed_for_convolutions(self, idle):
        with pytest.raises(lg.SettingError) as refusal:
            lg.train(self.federation, lg.models.cnn(), lg.FedAvg(), SHORT, solo=[0.5, 0.5], **idle)
        assert_says(refusal.value, "cnn", "(2,)", "[height, width]", "linear()")

    @pytest.mark.parametrize(
        ("methods", "seeds", "words"),
        [
            ([], (0,), ("no methods", "FedAvg")),
            ([lg.FedAvg()], (), ("seeds", "Give at least one")),
            ([lg.FedAvg(), lg.FedAvg()], (0,), ("FedAvg stands twice", "Leave one out")),
            ([lg.FedAvg()], (3, 3), ("3", "twice")),
        ],
    )
    def test_a_comparison_has_methods_and_seeds(self, idle, methods, seeds, words):
        with pytest.raises(lg.SettingError) as refusal:
            lg.compare(never, lg.models.linear(), methods, SHORT, seeds=seeds, progress=False)
        assert_says(refusal.value, *words)


def advised_step(problem: lg.DivergedError) -> float:
    return float(re.search(r"step_size=(\d[\d.e-]*\d|\d)", str(problem))[1])


def numbers_federation(*scales: float) -> lg.Federation:
    return lg.Federation.from_arrays({f"site {k}": of_numbers(s, seed=k) for k, s in enumerate(scales)})


class TestDivergence:
    """Steps that are too large stop a run, and the step size that the message advises works."""

    @pytest.mark.parametrize("scales", [(1.0, 1.0), (4.0, 1.0), (1.0, 10.0)])
    @pytest.mark.parametrize("method", [lg.FedAvg(), lg.Eagle(gap_penalty=0.5)], ids=str)
    def test_the_advised_step_converges(self, scales, method):
        federation, model = numbers_federation(*scales), lg.models.linear()

        def run(step_size: float) -> lg.Result:
            training = lg.Training(rounds=400, step_size=step_size)
            return lg.train(federation, model, method, training, solo=[0.0, 0.0], progress=False)

        with pytest.raises(lg.DivergedError) as stop:
            run(100.0)
        assert_says(stop.value, "diverged", "round ", "'site ", "size 100", "try step_size=")
        loss = run(advised_step(stop.value)).history.train_loss
        assert (loss[-1] < 0.2 * loss[0]).all()

    def test_training_alone_names_client_and_epoch(self):
        federation, model = numbers_federation(4.0, 1.0), lg.models.linear()
        with pytest.raises(lg.DivergedError) as stop:
            lg.train_solo(federation, model, lg.Training(rounds=400, step_size=100.0), progress=False)
        assert_says(stop.value, "alone", "epoch ", "'site ", "size 100")
        advised = lg.Training(rounds=400, step_size=advised_step(stop.value))
        assert all(
            alone.train_loss < 0.1 for alone in lg.train_solo(federation, model, advised, progress=False).clients
        )

    def test_the_round_is_the_first_whose_loss_is_out_of_bounds(self):
        federation = numbers_federation(1.0, 1.0)

        def run(rounds: int) -> lg.Result:
            training = lg.Training(rounds=rounds, step_size=20.0)
            return lg.train(federation, lg.models.linear(), lg.FedAvg(), training, solo=[0.0, 0.0], progress=False)

        with pytest.raises(lg.DivergedError) as stop:
            run(50)
        rounds = int(re.search(r"round (\d+)", str(stop.value))[1])
        loss = run(rounds - 1).history.train_loss  # does not raise
        assert len(loss) == rounds
        assert loss[-1].max() > 10 * loss[0].max()

    def test_negative_multipliers_are_pointed_out(self):
        # Without normalisation a large penalty makes the client that is best off climb.
        training = lg.Training(rounds=300, step_size=5.0)
        method = lg.Eagle(gap_penalty=2.0, normalize=None)
        with pytest.raises(lg.DivergedError) as stop:
            lg.train(
                lg.datasets.synthetic(), lg.models.linear(), method, training, solo=[0.0, 0.5, 0.6], progress=False
            )
        assert_says(stop.value, "Eagle(gap_penalty=2", "'client ", "negative", "multiplier_range=(0, 10)")

    def test_a_start_that_is_not_a_number_is_no_matter_of_steps(self):
        start = {"kernel": np.full((2, 2), np.nan), "bias": np.zeros(2)}
        with pytest.raises(lg.DivergedError) as stop:
            lg.train(
                pair(rows()), lg.models.linear(), lg.FedAvg(), SHORT, solo=[0, 0], initial_params=start, progress=False
            )
        assert_says(stop.value, "Before the first step", "'lyon'", "nan", "initial parameters")
        assert "step_size" not in str(stop.value)

    @pytest.mark.filterwarnings("ignore:overflow encountered in cast")
    def test_values_beyond_single_precision_are_traced_to_their_client(self):
        federation = by_hand(train=with_value(1e300, 0))
        with pytest.raises(lg.DivergedError) as stop:
            lg.train(federation, lg.models.linear(), lg.FedAvg(), SHORT, solo=[0.0, 0.0], progress=False)
        assert_says(stop.value, "Before the first step", "'lille'", "extreme values")


class TestInterruption:
    def test_an_interrupted_run_stops_at_once(self):
        endless = lg.Training(rounds=10**9, record_every=10**4)
        alarm = threading.Timer(1.0, _thread.interrupt_main)
        alarm.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                lg.train(
                    lg.datasets.synthetic(), lg.models.linear(), lg.FedAvg(), endless, solo=[0, 0, 0], progress=False
                )
        finally:
            alarm.cancel()

    def test_an_interrupted_engine_is_not_silenced(self):
        class Interrupted(CompiledStepper):
            def advance(self, *_):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lg.train(
                pair(rows()),
                lg.models.linear(),
                lg.FedAvg(),
                SHORT,
                solo=[0, 0],
                engine=Interrupted.of,
                progress=False,
            )


@pytest.fixture(scope="module")
def result() -> lg.Result:
    method = lg.Eagle(gap_penalty=1.0, multiplier_range=(0.0, 10.0))
    return lg.train(pair(rows(30)), lg.models.linear(), method, SHORT, solo=[0.5, 0.6], progress=False)


@pytest.fixture
def folder(result, tmp_path):
    return result.save(tmp_path / "run")


def described(folder) -> dict:
    return json.loads((folder / "result.json").read_text())


def refused(folder, **settings) -> lg.FileError:
    with pytest.raises(lg.FileError) as refusal:
        lg.load(folder, **settings)
    assert_says(refusal.value, str(folder))
    return refusal.value


class TestBrokenResults:
    @pytest.mark.parametrize("name", ["result.json", "params.safetensors", "history.safetensors"])
    def test_a_file_cut_off_anywhere_is_refused_by_name(self, folder, name):
        whole = (folder / name).read_bytes()
        for length in {0, 1, 7, 8, 9, *range(0, len(whole) - 1, 29), len(whole) - 2}:
            (folder / name).write_bytes(whole[:length])
            assert_says(refused(folder), name)
        (folder / name).write_bytes(whole)
        lg.load(folder)

    @pytest.mark.parametrize("name", ["result.json", "params.safetensors", "history.safetensors"])
    def test_a_missing_file_is_named(self, folder, name):
        (folder / name).unlink()
        assert_says(refused(folder), name)

    @pytest.mark.parametrize("name", ["result.json", "params.safetensors", "history.safetensors"])
    def test_other_bytes_are_refused(self, folder, name):
        (folder / name).write_bytes(b"\xff\x00 no such format" * 20)
        assert_says(refused(folder), name)

    def test_another_version_says_which_lossgap_wrote_it(self, folder):
        (folder / "result.json").write_text(json.dumps(described(folder) | {"version": 99, "lossgap": "7.0"}))
        assert_says(refused(folder), "version 99", "lossgap 7.0")

    def test_json_of_somebody_else_is_refused(self, folder):
        (folder / "result.json").write_text('{"name": "a package.json"}')
        assert_says(refused(folder), "not written by lossgap")

    @pytest.mark.parametrize("value", [None, 3, "x", [3], {"x": 3}])
    @pytest.mark.parametrize("key", ["algorithm", "model", "training", "features", "outputs", "clients"])
    def test_an_entry_that_makes_no_sense_is_refused(self, folder, key, value):
        (folder / "result.json").write_text(json.dumps(described(folder) | {key: value}))
        refused(folder)

    @pytest.mark.parametrize("key", ["algorithm", "model", "training", "seed", "features", "outputs", "clients"])
    def test_an_entry_that_is_missing_is_named(self, folder, key):
        (folder / "result.json").write_text(json.dumps({k: v for k, v in described(folder).items() if k != key}))
        assert_says(refused(folder), key)

    def test_a_setting_of_another_version_is_named(self, folder):
        algorithm = {"name": "Eagle", "settings": {"gap_penalty": 1.0, "temperature": 3}}
        (folder / "result.json").write_text(json.dumps(described(folder) | {"algorithm": algorithm}))
        assert_says(refused(folder), "temperature")

    @pytest.mark.parametrize("name", ["mlp(4)", "cnn(2,2,2)"])
    def test_params_of_another_model_are_refused(self, folder, name):
        (folder / "result.json").write_text(json.dumps(described(folder) | {"model": name}))
        refused(folder)

    def test_a_given_model_must_fit(self, folder):
        assert_says(refused(folder, model=lg.models.mlp((4,))), "mlp(4)", "does not fit", "model=")

    def test_a_method_of_ones_own_must_be_given(self, folder):
        (folder / "result.json").write_text(
            json.dumps(described(folder) | {"algorithm": {"name": "Mine", "settings": {}}})
        )
        assert_says(refused(folder), "'Mine'", "algorithm=")
        assert lg.load(folder, algorithm=lg.FedAvg()).algorithm == lg.FedAvg()

    def test_a_model_of_ones_own_must_be_given(self, result, tmp_path):
        model = lg.Model(
            lambda _, x, outputs: jnp.zeros((x.shape[1], outputs)), lambda params, x: x @ params, name="mine"
        )
        own = replace(result, model=model, params=np.zeros((2, 2), np.float32))
        folder = own.save(tmp_path / "own")
        assert_says(refused(folder), "'mine'", "model=")
        assert lg.load(folder, model=model).model is model

    def test_a_folder_without_a_result_is_refused(self, tmp_path):
        assert_says(refused(tmp_path), "no result")

    def test_a_folder_that_does_not_exist_is_refused(self, tmp_path):
        assert_says(refused(tmp_path / "nowhere"), "no result", "Check the path")

    def test_a_file_in_place_of_a_folder_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("x")
        refused(tmp_path / "file")


class TestSaving:
    def test_foreign_files_are_not_overwritten(self, result, tmp_path):
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(lg.FileError) as refusal:
            result.save(tmp_path)
        assert_says(refusal.value, str(tmp_path), "holds no result", "another folder")
        assert (tmp_path / "thesis.txt").read_text() == "years of work"

    def test_a_path_below_a_file_is_refused(self, result, tmp_path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(lg.FileError) as refusal:
            result.save(tmp_path / "file" / "run")
        assert_says(refusal.value, str(tmp_path / "file"))

    def test_an_earlier_result_is_replaced(self, result, folder):
        replace(result, seed=9).save(folder)
        assert lg.load(folder).seed == 9

    def test_a_failed_save_keeps_the_earlier_result(self, result, folder, monkeypatch):
        monkeypatch.setattr("lossgap.disk.json.dumps", never_written)
        with pytest.raises(OSError, match="disk full"):
            replace(result, seed=9).save(folder)
        monkeypatch.undo()
        assert lg.load(folder).seed == result.seed
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def never_written(*_, **__):
    raise OSError("disk full")


def test_one_class_is_trained_on_and_warned_of():
    with pytest.warns(lg.DataWarning, match="'mono'"):
        federation = lg.Federation.from_arrays({"lyon": (X, Y), "mono": (X, np.zeros(20, int))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = lg.train(federation, lg.models.linear(), lg.FedAvg(), SHORT, solo=[0.5, 0.0], progress=False)
    assert np.isfinite([row.gap for row in outcome.clients]).all()
