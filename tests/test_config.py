"""TOML files become values, and a mistake in one is named by file, key and cause."""

from pathlib import Path

import pytest

import lossgap as lg
from lossgap import config

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DATA = '[federation]\ndataset = "synthetic"\n'
METHOD = '[[methods]]\nname = "FedAvg"\n'


@pytest.fixture
def read(tmp_path):
    def read(text: str | bytes) -> config.Config:
        file = tmp_path / "run.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.read(file)

    return read


@pytest.fixture
def refusal(read):
    """What reading says about a file that it refuses."""

    def refusal(text: str | bytes) -> str:
        with pytest.raises(lg.LossgapError) as problem:
            read(text)
        assert "run.toml" in str(problem.value)
        return str(problem.value)

    return refusal


class TestReading:
    def test_two_sections_are_enough(self, read):
        found = read(DATA + METHOD)
        assert found.methods == (lg.FedAvg(),)
        assert found.model == lg.models.linear()
        assert found.training == lg.Training()
        assert found.run == config.RunSettings(seeds=(0,), solo="converged", out="runs")
        assert found.make_federation(seed=0).names == lg.datasets.synthetic().names

    def test_every_section_is_read(self, read):
        found = read("""
            [federation]
            dataset = "digits"
            clients = 3
            alpha = 5.0
            fractions = [0.5, 0.25, 0.25]
            [model]
            name = "mlp"
            hidden = [8, 4]
            [training]
            rounds = 7
            step_size = 1
            batch_size = 32
            precision = "float64"
            [run]
            seeds = [3, 4]
            solo = "best"
            out = "elsewhere"
            [[methods]]
            name = "Eagle"
            gap_penalty = 2
            multiplier_range = [0, 10]
            [[methods]]
            name = "AFL"
        """)
        assert found.model is lg.models.mlp((8, 4))
        assert found.training == lg.Training(rounds=7, step_size=1.0, batch_size=32, precision="float64")
        assert found.methods == (lg.Eagle(gap_penalty=2.0, multiplier_range=(0.0, 10.0)), lg.AFL())
        assert found.run == config.RunSettings(seeds=(3, 4), solo="best", out="elsewhere")
        assert len(found.make_federation(seed=0).clients) == 3

    def test_one_method_needs_no_list(self, read):
        assert read(DATA + '[methods]\nname = "QFFL"\nq = 2.0\n').methods == (lg.QFFL(q=2.0),)

    def test_a_method_may_be_built_on_another(self, read):
        base = '[methods]\nname = "Ditto"\npull = 0.5\n[methods.base]\nname = "Eagle"\ngap_penalty = 2.0\n'
        assert read(DATA + base).methods == (lg.Ditto(base=lg.Eagle(gap_penalty=2.0), pull=0.5),)

    def test_each_seed_makes_its_own_federation(self, read):
        make = read(DATA + METHOD).make_federation
        assert make(seed=1).clients[0].train.x.tolist() == lg.datasets.synthetic(seed=1).clients[0].train.x.tolist()
        assert make(seed=1).clients[0].train.x.tolist() != make(seed=2).clients[0].train.x.tolist()

    def test_a_table_is_found_beside_the_file(self, read, tmp_path):
        lines = [f"{'lyon' if k % 2 else 'lille'},{k % 3},{k}.5" for k in range(60)]
        (tmp_path / "patients.csv").write_text("\n".join(["hospital,disease,age", *lines]))
        table = '[federation]\ntable = "patients.csv"\nclient = "hospital"\ntarget = "disease"\n'
        federation = read(table + METHOD).make_federation(seed=0)
        assert set(federation.names) == {"lyon", "lille"}
        assert federation.classes == 3

    def test_a_seed_of_the_federation_keeps_the_split_for_every_run(self, read, tmp_path):
        lines = [f"{'lyon' if k % 2 else 'lille'},{k % 3},{k}.5" for k in range(60)]
        (tmp_path / "patients.csv").write_text("\n".join(["hospital,disease,age", *lines]))
        table = '[federation]\ntable = "patients.csv"\nclient = "hospital"\ntarget = "disease"\nseed = 7\n'
        for section in (DATA + "seed = 7\n", table):
            make = read(section + METHOD).make_federation
            assert make(seed=1).clients[0].train.x.tolist() == make(seed=2).clients[0].train.x.tolist()

    def test_a_mark_of_byte_order_is_no_mistake(self, read):
        assert read(b"\xef\xbb\xbf" + (DATA + METHOD).encode()).methods == (lg.FedAvg(),)

    @pytest.mark.parametrize("name", ["compare.toml", "train.toml"])
    def test_the_examples_are_valid(self, name):
        found = config.read(EXAMPLES / name)
        assert found.methods
        assert len(found.make_federation(seed=0).clients) > 2

    def test_the_example_compares_the_papers_methods(self):
        methods = config.read(EXAMPLES / "compare.toml").methods
        assert {type(method) for method in methods} == {lg.Eagle, lg.FedAvg, lg.QFFL, lg.AFL}


class TestFiles:
    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(lg.FileError) as problem:
            config.read(tmp_path / "nowhere.toml")
        assert str(tmp_path / "nowhere.toml") in str(problem.value)
        assert "does not exist" in str(problem.value)

    def test_a_folder_is_no_file(self, tmp_path):
        with pytest.raises(lg.FileError) as problem:
            config.read(tmp_path)
        assert str(tmp_path) in str(problem.value)

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00\x81", b"\x89PNG\r\n\x1a\n\x00", b"PAR1\x15\x04\x15\x80"])
    def test_a_binary_file_is_refused(self, refusal, content):
        assert "cannot be read" in refusal(content) or "not valid TOML" in refusal(content)

    @pytest.mark.parametrize(
        ("text", "line"),
        [("[federation\n", "line 1"), ("[training]\nrounds =\n", "line 2"), ("a = 1\na = 2\n", "line")],
    )
    def test_invalid_toml_is_located(self, refusal, text, line):
        said = refusal(text)
        assert "not valid TOML" in said
        assert line in said

    def test_an_empty_file_lacks_a_federation(self, refusal):
        assert "no [federation] section" in refusal("")

    def test_a_table_that_is_not_there_is_named_before_training(self, read):
        make = read('[federation]\ntable = "no.csv"\nclient = "h"\ntarget = "d"\n' + METHOD).make_federation
        with pytest.raises(lg.FileError, match=r"no\.csv"):
            make(seed=0)


MISTAKES = {
    "unknown section": ("[trainig]\nrounds = 1\n" + DATA + METHOD, "'trainig'", "'training'"),
    "key without a section": ("rounds = 1\n" + DATA + METHOD, "'rounds'", "section"),
    "unknown training key": ("[training]\nstepsize = 1\n" + DATA + METHOD, "training", "'stepsize'", "'step_size'"),
    "unknown run key": ("[run]\nseed = 3\n" + DATA + METHOD, "run", "'seed'", "'seeds'"),
    "unknown data key": ('[federation]\ndataset = "digits"\nalhpa = 1\n' + METHOD, "federation", "'alhpa'", "'alpha'"),
    "unknown model key": ('[model]\nname = "mlp"\nhiden = [3]\n' + DATA + METHOD, "model", "'hiden'", "'hidden'"),
    "unknown method": (DATA + '[[methods]]\nname = "Eagel"\n', "methods", "'Eagel'", "'Eagle'", "QFFL"),
    "method in lower case": (DATA + '[[methods]]\nname = "fedavg"\n', "methods", "'fedavg'", "'FedAvg'"),
    "unknown base of a method": (
        DATA + '[methods]\nname = "Ditto"\n[methods.base]\nname = "Eagel"\n',
        "methods",
        "'Eagel'",
        "'Eagle'",
    ),
    "unknown data set": ('[federation]\ndataset = "digit"\n' + METHOD, "federation.dataset", "'digit'", "'digits'"),
    "unknown model": ('[model]\nname = "lineal"\n' + DATA + METHOD, "model.name", "'lineal'", "'linear'"),
    "no federation": (METHOD, "no [federation] section", "compare.toml"),
    "no method": (DATA, "no [methods] section", "compare.toml"),
    "no methods in the list": ("methods = []\n" + DATA, "no [methods] section"),
    "no data set": ("[federation]\nalpha = 1.0\n" + METHOD, "federation", "no dataset", "digits"),
    "no name of a method": (DATA + "[[methods]]\ngap_penalty = 1.0\n", "methods", "no name", "Eagle"),
    "no penalty": (DATA + '[[methods]]\nname = "Eagle"\n', "Eagle", "neither gap_penalty nor target_variance"),
    "no penalty of the second": (DATA + METHOD + '[[methods]]\nname = "QFFL"\n', "QFFL", "q is missing"),
    "a key of another method": (DATA + METHOD + '[[methods]]\nname = "QFFL"\nlag = 1\n', "QFFL", "'lag'"),
    "a word as a step": ('[training]\nstep_size = "fast"\n' + DATA + METHOD, "training.step_size", "'fast'", "number"),
    "half a round": ("[training]\nrounds = 1.5\n" + DATA + METHOD, "training.rounds", "1.5", "integer"),
    "no rounds": ("[training]\nrounds = 0\n" + DATA + METHOD, "rounds is 0", "at least 1"),
    "unknown precision": (
        '[training]\nprecision = "half"\n' + DATA + METHOD,
        "training.precision",
        "'half'",
        "float64",
    ),
    "negative penalty": (DATA + '[[methods]]\nname = "Eagle"\ngap_penalty = -1\n', "Eagle: gap_penalty is -1", "≥ 0"),
    "a word as a penalty": (
        DATA + '[[methods]]\nname = "Eagle"\ngap_penalty = "big"\n',
        "gap_penalty",
        "'big'",
        "number",
    ),
    "half a range": (
        DATA + '[[methods]]\nname = "Eagle"\ngap_penalty = 1\nmultiplier_range = [1]\n',
        "multiplier_range",
        "[1]",
        "2",
    ),
    "width of a layer": ('[model]\nname = "mlp"\nhidden = 3\n' + DATA + METHOD, "model.hidden", "3", "list"),
    "negative width": ('[model]\nname = "mlp"\nhidden = [-3]\n' + DATA + METHOD, "hidden", "-3", "at least 1"),
    "a loss in text": ('[model]\nname = "mlp"\nloss = "hinge"\n' + DATA + METHOD, "model", "'loss'", "unknown"),
    "seeds without a list": ("[run]\nseeds = 3\n" + DATA + METHOD, "run.seeds", "3", "list"),
    "words as seeds": ('[run]\nseeds = ["a"]\n' + DATA + METHOD, "run.seeds", "'a'", "integer"),
    "no seeds": ("[run]\nseeds = []\n" + DATA + METHOD, "seeds", "at least one"),
    "a seed twice": ("[run]\nseeds = [1, 1]\n" + DATA + METHOD, "seeds", "1", "twice"),
    "negative seed": ("[run]\nseeds = [-1]\n" + DATA + METHOD, "seeds", "-1"),
    "unknown way to stop": ('[run]\nsolo = "now"\n' + DATA + METHOD, "run.solo", "'now'", "converged"),
    "table and data set": (
        '[federation]\ntable = "x.csv"\ndataset = "digits"\nclient = "h"\ntarget = "d"\n' + METHOD,
        "federation",
        "table",
        "dataset",
        "one of",
    ),
    "table without clients": (
        '[federation]\ntable = "x.csv"\ntarget = "d"\n' + METHOD,
        "federation",
        "client is missing",
    ),
    "federation as text": ('federation = "synthetic"\n' + METHOD, "federation", "[federation]"),
    "federation as a list": ('[[federation]]\ndataset = "synthetic"\n' + METHOD, "federation", "[federation]"),
    "model as text": ('model = "linear"\n' + DATA + METHOD, "model", "[model]"),
    "training as text": ('training = "fast"\n' + DATA + METHOD, "training", "[training]"),
    "training as a list": ("[[training]]\nrounds = 1\n" + DATA + METHOD, "training", "[training]"),
    "run as a number": ("run = 3\n" + DATA + METHOD, "run", "[run]"),
    "methods as text": ('methods = "FedAvg"\n' + DATA, "methods", "[[methods]]"),
    "methods as names": ('methods = ["FedAvg"]\n' + DATA, "methods", "[[methods]]"),
    "methods as numbers": ("methods = [1]\n" + DATA, "methods", "[[methods]]"),
    "a list as a name": ('[model]\nname = ["linear"]\n' + DATA + METHOD, "model.name", "linear"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_by_file_key_and_cause(refusal, case):
    text, *words = MISTAKES[case]
    said = refusal(text)
    missing = [word for word in words if word not in said]
    assert not missing, f"{missing} not said in: {said}"


def test_nothing_is_suggested_where_nothing_was_said(refusal):
    assert "Did you mean" not in refusal("[model]\nhidden = [3]\n" + DATA + METHOD)


def test_nothing_is_suggested_for_what_resembles_nothing(refusal):
    assert "Did you mean" not in refusal(DATA + '[[methods]]\nname = "xyzzy"\n')


FEDERATION_MISTAKES = {
    "a word as alpha": ('dataset = "digits"\nalpha = "a"\n', "alpha", "'a'", "number"),
    "two fractions": ('dataset = "digits"\nfractions = [0.5, 0.5]\n', "fractions", "0.5"),
    "fractions above one": ('dataset = "digits"\nfractions = [0.5, 0.5, 0.5]\n', "fractions", "sum to 1"),
    "negative alpha": ('dataset = "digits"\nalpha = -1.0\n', "alpha is -1"),
    "unknown rotation": ('dataset = "synthetic"\nrotated = "all"\n', "rotated", "'all'", "client 2"),
    "a number as a client": ('table = "x.csv"\nclient = 3\ntarget = "d"\n', "client", "3", "string"),
    "unknown task": ('table = "x.csv"\nclient = "h"\ntarget = "d"\ntask = "rank"\n', "task", "'rank'", "regression"),
    "no such column": ('table = "x.csv"\nclient = "hospital"\ntarget = "d"\n', "'hospital'", "'h', 'd', 'a'"),
}


@pytest.mark.parametrize("case", FEDERATION_MISTAKES)
def test_a_mistake_in_the_data_is_named_with_the_file(read, tmp_path, case):
    """Some of these show when the file is read, others when the federation is made: both come before training."""
    (tmp_path / "x.csv").write_text("h,d,a\n" + "".join(f"{'pq'[k % 2]},{k // 2 % 2},{k}.5\n" for k in range(40)))
    section, *words = FEDERATION_MISTAKES[case]
    with pytest.raises(lg.LossgapError) as problem:
        read(f"[federation]\n{section}{METHOD}").make_federation(seed=0)
    missing = [word for word in ("run.toml", *words) if word not in str(problem.value)]
    assert not missing, f"{missing} not said in: {problem.value}"
