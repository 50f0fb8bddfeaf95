"""The command line trains, compares and shows; results on disk are what was printed."""

import re
import subprocess
import sys
import time
import warnings
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner, Result

import lossgap as lg
from lossgap import algorithms
from lossgap.cli import main
from lossgap.comparison import NOTIONS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAM = str(Path(sys.executable).with_name("lossgap"))
METHODS = ("FedAvg", "QFFL(q=5)", "AFL", "Eagle(gap_penalty=2)")
QUICK = """
[federation]
dataset = "two_clients"
[training]
rounds = 5
[run]
out = "OUT"
[[methods]]
name = "FedAvg"
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The installed program, as a person would call it."""
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def loaded(out: Path) -> dict[str, lg.Result]:
    return {str(result.algorithm): result for result in map(lg.load, sorted(out.iterdir()))}


@pytest.fixture
def quick(tmp_path):
    """A file that takes no time, and where its results go."""
    out = tmp_path / "results"
    file = tmp_path / "quick.toml"
    file.write_text(QUICK.replace("OUT", out.as_posix()))
    return file, out


def never(*_, **__):
    pytest.fail("training began")


@pytest.fixture
def idle(monkeypatch):
    """Fails the test as soon as anybody trains."""
    monkeypatch.setattr("lossgap.solo.train_alone", never)
    monkeypatch.setattr("lossgap.passes.drive", never)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "results"
    return run("demo", "--out", out), out


class TestDemo:
    def test_it_succeeds_and_says_nothing_on_standard_error(self, demo):
        assert demo[0].exit_code == 0
        assert demo[0].stderr == ""

    def test_every_client_has_a_bar_for_every_method(self, demo):
        lines = demo[0].stdout.splitlines()
        for client in ("client 0", "client 1", "client 2"):
            start = next(k for k, line in enumerate(lines) if line.startswith(f"{client}, 60 rows, alone "))
            assert tuple(line.split()[0] for line in lines[start + 1 : start + 5]) == METHODS
            assert all("│" in line for line in lines[start + 1 : start + 5])

    def test_bars_are_the_gaps_of_the_saved_results(self, demo):
        printed = re.findall(r"^  (\S+) .*│.* ([+-]\d+\.\d+)$", demo[0].stdout, flags=re.M)
        results = loaded(demo[1])
        clients = range(3)
        expected = [(name, f"{results[name].clients[k].gap:+.3f}") for k in clients for name in METHODS]
        assert printed == expected

    def test_bars_point_to_the_side_of_their_sign_and_grow_with_the_gap(self, demo):
        bars = re.findall(r"^  \S+ (.*)│(.*) ([+-]\d+\.\d+)$", demo[0].stdout, flags=re.M)
        assert len(bars) == 12
        for gains, loses, gap in bars:
            assert not gains.strip() or float(gap) < 0
            assert not loses.strip() or float(gap) > 0
        longest = max(bars, key=lambda bar: len(bar[0].strip()) + len(bar[1].strip()))
        assert abs(float(longest[2])) == max(abs(float(gap)) for _, _, gap in bars)

    def test_the_table_holds_the_summaries_of_the_saved_results(self, demo):
        measures = {
            "worst gap": "max_gap",
            "best gap": "min_gap",
            "gap variance": "gap_variance",
            "accuracy": "mean_accuracy",
            "worst accuracy": "worst_accuracy",
        }
        lines = demo[0].stdout.splitlines()
        header = next(line for line in lines if line.startswith("method "))
        columns = re.split(r"  +", header)
        for name, result in loaded(demo[1]).items():
            row, notions = (line for line in lines if re.match(rf"{re.escape(name)}  +-?\d", line))
            assert notions.count(".") == len(NOTIONS)
            printed = dict(zip(columns, re.split(r"  +", row), strict=True))
            for column, measure in measures.items():
                assert float(printed[column]) == pytest.approx(getattr(result.summary(), measure), abs=6e-4)

    def test_each_method_has_its_verdict_in_a_sentence(self, demo):
        for name, result in loaded(demo[1]).items():
            assert result.verdict() in demo[0].stdout.splitlines()
            assert result.verdict().startswith(f"{name} ")
            for client in result.clients:
                verb = {"gains": "helps", "loses": "harms", "same": "makes no difference"}[client.standing]
                assert re.search(rf"{verb}[^,]*(, client \d[^,]*)*{client.name}", result.verdict())

    def test_eagle_has_the_smallest_variance_of_gaps(self, demo):
        variance = {name: result.summary().gap_variance for name, result in loaded(demo[1]).items()}
        assert min(variance, key=variance.get) == "Eagle(gap_penalty=2)"

    def test_it_says_where_the_results_are(self, demo):
        assert str(demo[1]) in demo[0].stdout
        assert len(list(demo[1].iterdir())) == 4

    def test_a_saved_result_can_be_shown(self, demo):
        for name, result in loaded(demo[1]).items():
            folder = next(path for path in demo[1].iterdir() if str(lg.load(path).algorithm) == name)
            shown = run("show", folder)
            assert shown.exit_code == 0
            assert shown.stdout == f"{result}\n"

    def test_a_second_run_replaces_the_first(self, quick):
        file, out = quick
        first, second = run("compare", file), run("compare", file)
        assert (first.exit_code, second.exit_code) == (0, 0)
        assert first.stdout == second.stdout
        assert len(list(out.iterdir())) == 1


class TestExamples:
    def test_compare_runs_the_example_over_its_seeds(self, tmp_path):
        outcome = run("compare", EXAMPLES / "compare.toml", "--out", tmp_path / "out")
        assert outcome.exit_code == 0, outcome.output
        results = list(map(lg.load, (tmp_path / "out").iterdir()))
        assert {(type(r.algorithm).__name__, r.seed) for r in results} == {
            (name, seed) for name in ("Eagle", "FedAvg", "QFFL", "AFL") for seed in (0, 42)
        }
        assert "2 seeds: 0, 42" in outcome.stdout
        assert "ddof = 1" in outcome.stdout
        for name in {str(result.algorithm) for result in results}:
            worst = [result.summary().max_gap for result in results if str(result.algorithm) == name]
            row = next(line for line in outcome.stdout.splitlines() if re.match(rf"{re.escape(name)} .*±", line))
            mean, deviation = map(float, re.findall(r"-?\d+\.\d+", row.removeprefix(name))[:2])
            assert (mean, deviation) == pytest.approx((np.mean(worst), np.std(worst, ddof=1)), abs=6e-4)

    def test_train_runs_the_example(self, tmp_path):
        outcome = run("train", EXAMPLES / "train.toml", "--out", tmp_path)
        assert outcome.exit_code == 0, outcome.output
        (result,) = loaded(tmp_path).values()
        assert outcome.stdout.startswith(str(result))
        assert str(next(tmp_path.iterdir())) in outcome.stdout


class TestFolders:
    def test_results_go_where_the_file_says(self, quick):
        file, out = quick
        assert run("compare", file).exit_code == 0
        assert list(loaded(out)) == ["FedAvg"]

    def test_results_go_where_the_option_says(self, quick, tmp_path):
        file, out = quick
        assert run("train", file, "--out", tmp_path / "other").exit_code == 0
        assert list(loaded(tmp_path / "other")) == ["FedAvg"]
        assert not out.exists()

    def test_each_method_and_seed_has_a_folder_of_its_own(self, quick):
        file, out = quick
        more = '[[methods]]\nname = "Eagle"\ngap_penalty = 1.0\n[[methods]]\nname = "Eagle"\ngap_penalty = 10.0\n'
        file.write_text(file.read_text().replace("[run]", "[run]\nseeds = [1, 2]") + more)
        assert run("compare", file).exit_code == 0
        kinds = {(str(result.algorithm), result.seed) for result in map(lg.load, out.iterdir())}
        methods = ("FedAvg", "Eagle(gap_penalty=1)", "Eagle(gap_penalty=10)")
        assert kinds == {(method, seed) for method in methods for seed in (1, 2)}


class TestMistakes:
    """One line on standard error, no traceback, 1 for what lossgap refuses and 2 for a wrong call."""

    def assert_refused(self, outcome: Result | subprocess.CompletedProcess[str], *words: str) -> None:
        code = outcome.exit_code if isinstance(outcome, Result) else outcome.returncode
        assert code == 1
        assert outcome.stdout == ""
        assert "Traceback" not in outcome.stderr
        assert outcome.stderr.startswith("error: ")
        assert len(outcome.stderr.splitlines()) == 1
        assert [word for word in words if word not in outcome.stderr] == []

    def test_a_missing_file_leaves_no_traceback(self):
        self.assert_refused(program("compare", "nowhere.toml"), "nowhere.toml", "does not exist")

    def test_a_mistyped_key_leaves_no_traceback(self, quick):
        file, _ = quick
        file.write_text(file.read_text().replace("rounds", "round"))
        self.assert_refused(program("train", file), str(file), "'round'", "'rounds'")

    @pytest.mark.parametrize("command", ["train", "compare"])
    @pytest.mark.parametrize(
        ("before", "after", "words"),
        [
            ("rounds = 5", 'step_size = "fast"', ("training.step_size", "'fast'")),
            ('"FedAvg"', '"FedAvgg"', ("'FedAvgg'", "'FedAvg'")),
            ("[run]", "[run]\nseeds = []", ("seeds",)),
            ("[run]", "[run]\nseeds = [-1]", ("seeds", "-1")),
            ('dataset = "two_clients"', 'dataset = "digits"\nalpha = "x"', ("alpha", "'x'")),
            ('"two_clients"', '"synthetic"\nrows = 2', ("'client 0' has 2 rows",)),
            ("[training]", '[model]\nname = "cnn"\n[training]', ("cnn", "(2,)")),
            ("[training]", '[model]\nname = "mlp"\n[training]', ("mlp(128)", "convex")),
        ],
    )
    def test_nothing_is_trained_after_a_mistake(self, idle, quick, command, before, after, words):
        file, out = quick
        text = file.read_text().replace(before, after, 1)
        file.write_text(text.replace("[run]", '[run]\nsolo = "exact"') if "mlp" in after else text)
        self.assert_refused(run(command, file), *words)
        assert not list(out.glob("*"))

    def test_train_wants_one_method(self, idle, quick):
        file, _ = quick
        file.write_text(file.read_text() + '[[methods]]\nname = "AFL"\n')
        self.assert_refused(run("train", file), str(file), "2 methods", "lossgap compare")

    def test_a_method_twice_is_refused(self, idle, quick):
        file, _ = quick
        file.write_text(file.read_text() + '[[methods]]\nname = "FedAvg"\n')
        self.assert_refused(run("compare", file), "FedAvg", "twice")

    @pytest.mark.parametrize("command", ["train", "compare"])
    def test_a_folder_that_cannot_be_written_is_refused_before_training(self, idle, quick, tmp_path, command):
        (tmp_path / "taken").write_text("not a folder")
        outcome = run(command, quick[0], "--out", tmp_path / "taken")
        assert outcome.exit_code in (1, 2)
        assert "taken" in outcome.stderr
        assert isinstance(outcome.exception, SystemExit)

    @pytest.mark.parametrize("command", ["train", "compare"])
    def test_foreign_files_in_the_way_are_found_before_training(self, idle, quick, tmp_path, command):
        (tmp_path / "out" / "FedAvg-seed-0").mkdir(parents=True)
        (tmp_path / "out" / "FedAvg-seed-0" / "thesis.txt").write_text("years of work")
        self.assert_refused(run(command, quick[0], "--out", tmp_path / "out"), "FedAvg-seed-0", "holds no result")

    def test_divergence_names_the_client_and_a_step(self, quick):
        file, out = quick
        file.write_text(file.read_text().replace("rounds = 5", "rounds = 100\nstep_size = 1e6"))
        self.assert_refused(run("compare", file), "diverged", "'client ", "try step_size=")
        assert not list(out.glob("*"))

    def test_a_folder_without_result_cannot_be_shown(self, tmp_path):
        self.assert_refused(run("show", tmp_path), str(tmp_path), "no result")

    def test_a_seed_below_zero_is_refused(self, idle):
        outcome = run("demo", "--seed", "-1")
        assert outcome.exit_code in (1, 2)
        assert "-1" in outcome.stderr
        assert isinstance(outcome.exception, SystemExit)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["compare"], ("Missing argument", "CONFIG")),
            (["train", "x.toml", "--rounds", "3"], ("No such option", "--rounds")),
            (["demo", "--seed", "many"], ("--seed", "'many'")),
            (["demmo"], ("No such command", "demmo")),
        ],
    )
    def test_a_wrong_call_exits_with_2(self, arguments, words):
        outcome = run(*arguments)
        assert outcome.exit_code == 2
        assert "Usage:" in outcome.stderr
        assert [word for word in words if word not in outcome.stderr] == []

    def test_a_wrong_call_of_the_program_exits_with_2(self):
        outcome = program("compare")
        assert outcome.returncode == 2
        assert "Traceback" not in outcome.stderr

    def test_a_warning_is_one_line_without_code(self, quick):
        file, _ = quick
        lines = [f"{'mono' if k % 2 else 'lyon'},{'well' if k % 2 or k % 4 else 'sick'},{k}.5" for k in range(40)]
        (file.parent / "patients.csv").write_text("\n".join(["hospital,disease,age", *lines]))
        table = 'table = "patients.csv"\nclient = "hospital"\ntarget = "disease"'
        file.write_text(file.read_text().replace('dataset = "two_clients"', table))
        outcome = run("compare", file)
        assert outcome.exit_code == 0
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("warning: Training rows of 'mono' hold one class only")

    def test_warnings_outside_are_shown_as_before(self, quick):
        before = warnings.showwarning
        run("show", "nowhere")
        assert warnings.showwarning is before

    def test_an_interruption_is_not_swallowed(self, quick, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("lossgap.solo.train_alone", interrupted)
        outcome = run("compare", quick[0])
        assert outcome.exit_code == 1
        assert "Aborted" in outcome.stderr
        assert not list(quick[1].glob("*"))


class TestHelp:
    def test_it_answers_in_under_half_a_second(self):
        def seconds() -> float:
            start = time.perf_counter()
            assert program("--help").returncode == 0
            return time.perf_counter() - start

        assert min(seconds() for _ in range(3)) < 0.5

    @pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["--version"]])
    def test_it_does_not_load_jax(self, arguments):
        code = (
            f"import sys; from lossgap.cli import main; main({arguments}, standalone_mode=False);"
            "print('heavy:', *[name for name in ('jax', 'numpy', 'sklearn', 'pydantic') if name in sys.modules])"
        )
        outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert outcome.stdout.splitlines()[-1].strip() == "heavy:"

    def test_it_lists_every_command(self):
        outcome = run("--help")
        for command in ("demo", "train", "compare", "show"):
            assert re.search(rf"^  {command} ", outcome.stdout, flags=re.M)
            assert run(command, "--help").exit_code == 0


@pytest.fixture(scope="module")
def trained() -> lg.Result:
    federation, training = lg.datasets.two_clients(rows=20), lg.Training(rounds=3)
    return lg.train(federation, lg.models.linear(), lg.FedAvg(), training, solo=[0.1, 0.2], progress=False)


def bits(tree) -> list[tuple]:
    """Leaves with their paths, kinds, shapes and bytes: equal only if nothing changed at all."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), a.dtype, a.shape, a.tobytes()) for path, a in leaves]


def assert_same_result(one: lg.Result, two: lg.Result) -> None:
    assert one.algorithm == two.algorithm
    assert one.training == two.training
    assert (one.seed, one.features, one.outputs) == (two.seed, two.features, two.outputs)
    assert jax.tree.structure(one.params) == jax.tree.structure(two.params)
    assert bits(one.params) == bits(two.params)
    for field in fields(one.history):
        assert bits(getattr(one.history, field.name)) == bits(getattr(two.history, field.name))
    # As text, so that NaN equals NaN; repr gives back every bit of a float.
    assert [repr(asdict(row)) for row in one.clients] == [repr(asdict(row)) for row in two.clients]
    assert str(one) == str(two)


def of_numbers() -> lg.Federation:
    rng = np.random.default_rng(0)
    arrays = {}
    for name in ("lyon", "lille"):
        x = rng.normal(size=(20, 2))
        arrays[name] = x, x.sum(axis=1) + 0.1 * rng.normal(size=20)
    return lg.Federation.from_arrays(arrays)


def plain(kind: type[lg.Algorithm]) -> lg.Algorithm:
    """A method with its defaults, and some number where it has none."""
    missing = {field.name for field in fields(kind) if field.default is MISSING}
    return kind(**dict.fromkeys(missing | ({"gap_penalty"} if kind is lg.Eagle else set()), 1.5))


KINDS = [getattr(lg, name) for name in algorithms.__all__ if name != "Algorithm"]
NESTED = [lg.Ditto(base=lg.Eagle(gap_penalty=2.0, multiplier_range=(0.0, 9.0)), pull=0.5), lg.Udj(desert=(0.5, 0.7))]


class TestRoundTrip:
    @pytest.mark.parametrize("method", [*map(plain, KINDS), *NESTED], ids=str)
    def test_every_method_is_read_back(self, trained, tmp_path, method):
        # Personal methods keep a model for each client.
        params = jax.eval_shape(lambda params: method.evaluated(params, method.init(params, 2)), trained.params)
        params = jax.tree.map(lambda p: np.zeros(p.shape, p.dtype), params)
        result = replace(trained, algorithm=method, params=params)
        assert_same_result(result, lg.load(result.save(tmp_path / "run")))

    @pytest.mark.parametrize(
        ("method", "training"),
        [
            (lg.Eagle(gap_penalty=1 / 3, normalize=None, lag=0, multiplier_range=(0.0, 9.7)), {"precision": "float64"}),
            (lg.QFFL(q=0.1), {"record_every": 2, "gap_split": "train"}),
        ],
        ids=str,
    )
    def test_a_classifier_is_the_same_bit_for_bit(self, tmp_path, method, training):
        federation = lg.datasets.two_clients(rows=20)
        training = lg.Training(rounds=3, **training)
        result = lg.train(federation, lg.models.linear(), method, training, solo=[0.1, 0.2], seed=7, progress=False)
        again = lg.load(result.save(tmp_path / "run"))
        assert_same_result(result, again)
        assert again.model is result.model
        x = federation.clients[0].test.x
        assert (again.predict(x) == result.predict(x)).all()

    def test_a_regression_keeps_its_accuracies_nan(self, tmp_path):
        training = lg.Training(rounds=3)
        result = lg.train(of_numbers(), lg.models.linear(), lg.FedAvg(), training, solo=[0.0, 0.0], progress=False)
        assert all(np.isnan(row.test_accuracy) for row in result.clients)
        again = lg.load(result.save(tmp_path / "run"))
        assert_same_result(result, again)
        assert np.isnan(again.summary().mean_accuracy)

    def test_a_model_of_ones_own_is_given_again(self, tmp_path):
        def init(key, x, outputs):
            layers = [jax.random.normal(key, (x.shape[1], 3)), jnp.ones((3, outputs))]
            return {"layers": layers, "scale": jnp.ones(()), "shift": (jnp.zeros(outputs),)}

        def apply(params, x):
            first, second = params["layers"]
            return params["scale"] * jnp.tanh(x @ first) @ second + params["shift"][0]

        model = lg.Model(init, apply)
        result = lg.train(of_numbers(), model, lg.FedAvg(), lg.Training(rounds=3), solo=[0.0, 0.0], progress=False)
        again = lg.load(result.save(tmp_path / "run"), model=model)
        assert_same_result(result, again)

    def test_numbers_of_numpy_are_saved_as_numbers(self, tmp_path):
        training = lg.Training(rounds=int(np.int64(3)), step_size=np.float32(0.1))
        method = lg.QFFL(q=np.float32(1.0))
        federation = lg.datasets.two_clients(rows=20)
        result = lg.train(
            federation, lg.models.linear(), method, training, solo=[0.1, 0.2], seed=np.int64(3), progress=False
        )
        again = lg.load(result.save(tmp_path / "run"))
        assert again.seed == 3
        assert again.algorithm == method
        assert again.training == training

    def test_no_file_holds_a_pickle(self, tmp_path):
        training = lg.Training(rounds=3)
        result = lg.train(of_numbers(), lg.models.linear(), lg.FedAvg(), training, solo=[0.0, 0.0], progress=False)
        files = sorted(path.name for path in result.save(tmp_path / "run").iterdir())
        assert files == ["history.safetensors", "params.safetensors", "result.json"]
