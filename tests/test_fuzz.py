"""Damaged files end in a clear refusal: none crashes, hangs, or is taken for what it is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("images-idx3", "labels-idx1", "images-idx3.gz", "table.csv", "table.csv.gz", "table.parquet")
EACH = 200


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    """What became of 1,200 damaged files, read in a process of their own (tests/fuzz_files.py)."""
    script = Path(__file__).with_name("fuzz_files.py")
    command = [sys.executable, script, tmp_path_factory.mktemp("fuzz"), str(EACH)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, f"the reader went down: {ran.returncode}\n{ran.stderr[-3000:]}"
    return json.loads(ran.stdout)


def test_every_damaged_file_was_read(report):
    assert {name: sum(counts.values()) for name, counts in report["found"].items()} == dict.fromkeys(FILES, EACH)


def test_none_is_taken_for_what_it_is_not(report):
    assert not report["complaints"], "\n".join(report["complaints"][:5])


def test_most_damage_is_noticed(report):
    for name in FILES:
        assert report["found"][name].get("refused", 0) > EACH / 2, name


@pytest.mark.parametrize("name", ["images-idx3.gz", "table.csv.gz"])
def test_whatever_gz_holds_is_checked(report, name):
    assert report["found"][name].get("loaded", 0) < EACH / 20  # only a date or a name in its head
