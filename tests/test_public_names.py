"""The names that users import, and what importing them costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lossgap

NAMES = [
    "AFL",
    "QFFL",
    "Algorithm",
    "Audit",
    "Candidate",
    "Checkpoints",
    "Client",
    "Comparison",
    "DataError",
    "DataWarning",
    "Ditto",
    "DivergedError",
    "Eagle",
    "FedAvg",
    "FedDGGA",
    "FedFV",
    "FedMGDA",
    "FedNova",
    "FedProx",
    "Federation",
    "FileError",
    "Focus",
    "Frontier",
    "Gifair",
    "LossgapError",
    "MaxFL",
    "Model",
    "PropFair",
    "Report",
    "Result",
    "Selection",
    "SettingError",
    "Skew",
    "Solo",
    "Split",
    "Store",
    "Term",
    "Training",
    "Udj",
    "audit",
    "compare",
    "datasets",
    "frontier",
    "load",
    "models",
    "partition",
    "report",
    "skew",
    "theory",
    "train",
    "train_learners",
    "train_many",
    "train_solo",
    "train_streaming",
    "tune_methods",
]
HEAVY = ("jax", "pyarrow", "torch", "flwr", "sklearn", "scipy", "numpy", "pandas", "polars", "pydantic", "rich")


def loaded_after(code: str) -> list[str]:
    """The heavy packages that a fresh interpreter holds after running the code."""
    report = f"import sys; {code}; print(*[name for name in {HEAVY} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True).stdout.split()


def test_public_names_are_these():
    assert lossgap.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name):
    assert getattr(lossgap, name) is not None


def test_a_name_is_the_same_object_wherever_it_comes_from():
    from lossgap.algorithms import Eagle
    from lossgap.federation import Federation

    assert lossgap.Eagle is Eagle
    assert lossgap.Federation is Federation


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(lossgap.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = [alias.name for node in checked.body for alias in node.names]
    assert sorted(seen) == sorted(NAMES)


def test_dir_lists_every_public_name():
    assert set(NAMES) <= set(dir(lossgap))
    assert "__version__" in dir(lossgap)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'lossgap'.*'Eagel'"):
        lossgap.Eagel  # noqa: B018


def test_star_import_brings_exactly_the_public_names():
    namespace = {}
    exec("from lossgap import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(NAMES)


def test_importing_lossgap_loads_nothing_heavy():
    assert loaded_after("import lossgap") == []


def test_importing_the_command_line_loads_nothing_heavy():
    assert loaded_after("import lossgap.cli") == []


def test_rows_can_be_prepared_without_jax():
    assert loaded_after("import lossgap as lg; lg.datasets.synthetic()") == ["numpy"]


def test_errors_are_also_what_python_calls_them():
    assert issubclass(lossgap.DataError, ValueError)
    assert issubclass(lossgap.SettingError, ValueError)
    assert issubclass(lossgap.DivergedError, ArithmeticError)
    assert issubclass(lossgap.FileError, OSError)
    for kind in (lossgap.DataError, lossgap.SettingError, lossgap.DivergedError, lossgap.FileError):
        assert issubclass(kind, lossgap.LossgapError)
    assert issubclass(lossgap.DataWarning, UserWarning)
