"""A run on the terminal while it is trained, and what Ctrl-C leaves."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import lossgap as lg
from lossgap import live
from lossgap.cli import main
from lossgap.engine.run import History
from lossgap.live import LiveView

PROGRAM = str(Path(sys.executable).with_name("lossgap"))
LONG = """
[federation]
dataset = "synthetic"
[training]
rounds = 100_000_000
step_size = 0.1
record_every = 1000
[run]
solo = "exact"
out = "OUT"
[[methods]]
name = "Eagle"
gap_penalty = 1.0
"""


def lines(rounds: range, gaps: np.ndarray) -> History:
    """History at some rounds, with gaps that fall to those given."""
    course = np.array([gaps + 1 / (1 + t) for t in rounds])
    return History(np.array(rounds), course, course, course, 1 + course)


def drawn(names: list[str], gaps: np.ndarray, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    view = LiveView("Eagle(gap_penalty=1)", names, 1000, console)
    for first in range(0, 300, 50):
        view(lines(range(first, first + 50), gaps))
    console.print(view)
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 12), (200, 60)])
@pytest.mark.parametrize("clients", [2, 3, 10, 100])
def test_it_fits_the_terminal(clients, width, height):
    gaps = np.random.default_rng(clients).normal(size=clients)
    text = drawn([f"client {k}" for k in range(clients)], gaps, width, height)
    assert len(text) < height
    assert max(map(len, text)) <= width


def test_every_client_has_its_gap_its_multiplier_and_a_bar_on_its_side():
    gaps = np.array([0.5, -0.25, 0.125])
    text = drawn(["lyon", "lille", "a hospital with a very long name"], gaps)
    assert "round 299 of 1,000, 30%" in text[0]
    assert "worst +0.503 (lyon), best -0.247 (lille)" in text[1]
    rows = text[3:]
    assert [row.split()[0] for row in rows] == ["lyon", "lille", "a"]
    for row, gap in zip(rows, gaps + 1 / 300, strict=True):
        gains, loses = row.split("│")
        assert ("█" in gains) == (gap < 0)
        assert loses.startswith("█") == (gap > 0)
        assert f"{gap:+.3f}" in row
        assert f" {1 + gap:.3f}" in row
        assert row[-1] == "▁", "the course of a falling gap ends at its lowest"
    bars = [len(re.search(r"█*│█*", row)[0]) for row in rows]
    assert bars[0] > bars[1] > bars[2] > 1


def test_of_many_clients_it_shows_the_worst_and_the_best():
    gaps = np.linspace(1, -1, 100)
    text = drawn([f"site{k}" for k in range(100)], gaps)
    shown = [row.split()[0] for row in text[3:]]
    hole = shown.index("⋮")
    assert shown[:hole] == [f"site{k}" for k in range(hole)]
    assert shown[hole + 1 :] == [f"site{k}" for k in range(100 - len(shown[hole + 1 :]), 100)]
    assert f"{100 - len(shown) + 1} others" in text[3 + hole]


def test_it_remembers_the_whole_course_in_little_room():
    view = LiveView("run", ["a", "b"], 10**6, Console(file=io.StringIO()))
    view(lines(range(10 * live.TRAIL), np.zeros(2)))
    assert len(view._trail) <= live.TRAIL
    assert view._trail[0][0] == 1.0
    assert view._trail[-1][0] == pytest.approx(0, abs=0.01)


def test_drawing_takes_little_of_the_time(monkeypatch):
    clock, drawings = [0.0], []
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    with LiveView("run", ["a", "b"], 1000, Console(file=io.StringIO(), force_terminal=True)) as view:
        monkeypatch.setattr(view._live, "refresh", lambda: drawings.append(clock[0]))
        for t in range(1000):
            clock[0] += 0.01
            view(lines(range(t, t + 1), np.zeros(2)))
    assert len(drawings) <= 10 / live.PAUSE_SECONDS + 1


def test_an_onlooker_sees_every_line_once():
    seen = []
    federation, training = lg.datasets.two_clients(rows=20), lg.Training(rounds=200, record_every=3)
    result = lg.train(federation, lg.models.linear(), lg.FedAvg(), training, solo=[0.1, 0.2], onlooker=seen.append)
    np.testing.assert_array_equal(np.concatenate([each.gap for each in seen]), result.history.gap[:-1])


def test_without_a_terminal_the_view_is_refused_before_any_work(tmp_path):
    (tmp_path / "run.toml").write_text(LONG.replace("OUT", str(tmp_path / "out")))
    outcome = CliRunner().invoke(main, ["train", str(tmp_path / "run.toml"), "--live"])
    assert outcome.exit_code == 1
    assert "--live" in outcome.stderr
    assert not (tmp_path / "out").exists()


def started(folder: Path, *options: str) -> tuple[subprocess.Popen, int]:
    """The program at work on a terminal of its own, and the terminal's other end."""
    (folder / "run.toml").write_text(LONG.replace("OUT", str(folder / "out")))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    command = [PROGRAM, "train", str(folder / "run.toml"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True)
    os.close(theirs)
    return process, ours


def read_until(terminal: int, word: str, seconds: float = 120) -> str:
    """What is written to a terminal, until a word appears."""
    text, deadline = "", time.monotonic() + seconds
    while word not in text:
        assert time.monotonic() < deadline, text
        try:
            text += os.read(terminal, 10_000).decode(errors="replace")
        except OSError:  # the program has ended
            break
    return text


@pytest.mark.parametrize(("number", "options"), [(signal.SIGINT, ("--live",)), (signal.SIGTERM, ())])
def test_a_signal_stops_it_and_the_result_so_far_is_there(tmp_path, number, options):
    process, terminal = started(tmp_path, *options, "--checkpoint-seconds", "3600")
    if options:
        read_until(terminal, " left")  # which is said once some rounds are done
    else:
        read_until(terminal, "Eagle")  # the progress bar
    process.send_signal(number)
    end = read_until(terminal, "Aborted!")
    out = process.communicate(timeout=60)[0]
    os.close(terminal)
    assert process.returncode == 1
    assert "the same command goes on from there" in " ".join(end.split())
    assert "Traceback" not in end
    (folder,) = (path for path in (tmp_path / "out").iterdir() if not path.name.startswith("."))
    result = lg.load(folder)
    assert result.stopped == result.history.rounds[-1] > 0
    assert f"stopped after {result.stopped} of 100000000 rounds" in out
    assert re.search(r"client 2 +\d+ ", out)
    (saved,) = (tmp_path / "out" / ".unfinished").glob("unfinished/*/checkpoint.safetensors")
    assert saved.stat().st_size > 0
