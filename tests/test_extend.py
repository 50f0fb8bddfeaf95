"""The page on methods of your own: its code runs, and does what the page says."""

import importlib
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import lossgap as lg
from test_algorithms import replies_of

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
LONGEST_METHOD = 35
"""Lines of a method's file; the page promises about thirty."""


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.fixture
def written(blocks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[lg.Algorithm]:
    """The page's method, saved as it says."""
    (tmp_path / "superquantile.py").write_text(blocks[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.sys.modules, "superquantile", raising=False)
    return importlib.import_module("superquantile").Superquantile


def test_the_method_is_one_short_file(blocks: list[str]) -> None:
    assert len(blocks[0].splitlines()) <= LONGEST_METHOD


def test_every_block_of_the_page_runs(
    blocks: list[str], written: type[lg.Algorithm], capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict = {}
    for block in blocks[1:]:
        exec(compile(block, str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert "\nSuperquantile(tail=0.4) " in shown
    assert "Ditto(base=Superquantile(tail=0.4))" in shown
    worst = [float(number) for number in shown.splitlines()[-1].strip("[]").split(", ")]
    assert worst == sorted(worst)  # the smaller the tail, the smaller the worst loss


def test_its_weights_by_hand(written: type[lg.Algorithm]) -> None:
    # αK = 2.5 of five clients: the two largest losses count in full, the third by half.
    weights, _ = written(tail=0.5).weights((), replies_of([0.1, 0.9, 0.3, 0.7, 0.2]))
    np.testing.assert_allclose(weights, jnp.array([0, 1, 0.5, 1, 0]) / 2.5, rtol=1e-6)


def test_a_store_tells_it_from_an_earlier_version(
    blocks: list[str], written: type[lg.Algorithm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lossgap.identity import run_identity

    def key(method: lg.Algorithm) -> str:
        return run_identity("rows", {}, method, lg.Training(), seed=0, solo=None).key

    before = key(written())
    folder = tmp_path / "later"
    folder.mkdir()
    (folder / "superquantile.py").write_text(blocks[0].replace("counted - rank", "counted - rank - 0.0"))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(importlib.sys.modules, "superquantile")
    assert key(importlib.import_module("superquantile").Superquantile()) != before


def test_the_page_names_files_that_exist() -> None:
    folder = Path(lg.__file__).parent / "algorithms"
    named = re.findall(r"`(\w+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert set(named) - {"superquantile.py"}
    assert all((folder / name).exists() for name in named if name != "superquantile.py")
