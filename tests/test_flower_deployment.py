"""A project from `lossgap flower new`, on a real SuperLink and real SuperNodes with TLS and keys. Loopback only.

The whole file is one federation after another, so that the machine starts no more processes at a time than it must.
"""

import ast
import importlib.util
import io
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from flwr.cli.build import build_fab_from_disk

import lossgap as lg
from deployment import (
    COMPLETED,
    assert_same,
    rehearsal,
    result_of,
    seconds_of_rounds,
    simulated,
    three_sites,
    write_project,
)
from deployment.door import door, open_path
from lossgap.cli import main
from lossgap.engine.learner import JaxLearner
from lossgap.learners.alone import learn_alone

pytestmark = pytest.mark.xdist_group("deployment")  # one at a time
ROUNDS = 5


@pytest.fixture(scope="module")
def sites() -> lg.Federation:
    return three_sites()


class TestNew:
    """What `lossgap flower new` writes."""

    def new(self, *arguments: str) -> Any:
        return CliRunner().invoke(main, ["flower", "new", *arguments])

    @pytest.mark.parametrize("example", [[], ["--example", "hospitals"]])
    def test_a_project_has_its_own_name_and_ready_scripts(self, tmp_path: Path, example: list[str]) -> None:
        outcome = self.new(str(tmp_path / "Care-4-all"), *example)
        assert outcome.exit_code == 0, outcome.output
        files = [path for path in (tmp_path / "Care-4-all").rglob("*") if path.is_file()]
        assert {"rehearse.py", "server_app.py", "nginx.conf", "Care-4-all-site.service"} <= {
            path.name for path in files
        }
        for path in files:
            assert "my-federation" not in path.read_text().lower().replace("_", "-"), path
            if path.suffix == ".sh":
                assert path.stat().st_mode & 0o111, path
                subprocess.run(["bash", "-n", str(path)], check=True)
            if path.suffix == ".py":
                ast.parse(path.read_text())

    def test_what_travels_to_the_sites_is_code_only(self, tmp_path: Path) -> None:
        assert self.new(str(tmp_path / "care")).exit_code == 0
        secret = tmp_path / "care/operator/secrets/ca.key"
        secret.parent.mkdir()
        secret.write_text("secret")
        with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(tmp_path / "care"))) as bundle:
            names = {Path(name) for name in bundle.namelist()}
        code = {
            Path("care") / name for name in ("agreed.py", "client_app.py", "rows.py", "server_app.py", "__init__.py")
        }
        assert code <= names
        assert not {name for name in names - code if name.suffix == ".py" or {"operator", "site"} & set(name.parts)}

    @pytest.mark.parametrize("name", ["json", "4all", "care_home", "a" * 33, "lossgap"])
    def test_names_that_would_not_work_are_refused(self, tmp_path: Path, name: str) -> None:
        outcome = self.new(str(tmp_path / name))
        assert outcome.exit_code == 1
        assert "error: " in outcome.stderr
        assert not (tmp_path / name).exists()

    def test_nothing_is_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "care").mkdir()
        (tmp_path / "care/mine").touch()
        outcome = self.new(str(tmp_path / "care"))
        assert outcome.exit_code == 1
        assert "exists and is not empty" in outcome.stderr
        assert [path.name for path in (tmp_path / "care").iterdir()] == ["mine"]

    def test_a_missing_extra_names_the_command(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        find = importlib.util.find_spec
        monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None if name == "flwr" else find(name))
        assert "pip install 'lossgap[flower]'" in self.new(str(tmp_path / "care")).output


def test_eagle_over_tls_is_eagle_in_the_simulator(sites: lg.Federation, tmp_path: Path) -> None:
    project = write_project(tmp_path / "trial")
    start = time.monotonic()
    with rehearsal(project, sites) as running:
        running.start()
        ready = time.monotonic()
        run = running.submit(f"rounds={ROUNDS}")
        assert running.wait_for(run, seconds=600) == COMPLETED, running.log(run)
        done, log = time.monotonic(), running.log(run)
    result = result_of(running)
    rounds = seconds_of_rounds(log)
    print(f"\nready after {ready - start:.1f} s, all done after {done - ready:.1f} s more; rounds took {rounds} s")
    assert len(rounds) == ROUNDS - 1
    assert_same(result, simulated(sites, result))
    assert result.history.rounds.tolist() == [0, 1, 2, 3, 4, 5]
    for client, row in zip(sites.clients, result.clients, strict=True):
        learner = JaxLearner.of(client, lg.models.linear(), result.training)
        alone = learn_alone(learner, first_params(), rounds=300, stop="best")
        assert row.solo_loss == pytest.approx(float(alone.validation_loss), abs=1e-4)
    assert (running.folder / "operator/state/runs/first/table.txt").read_text() == f"{result}\n"
    assert str(result.table()) in log
    # Keys are for their owners only.
    for secret in ("operator/secrets/ca.key", "operator/secrets/server.key", "north/secrets/site.key"):
        assert (running.folder / secret).stat().st_mode & 0o077 == 0


def first_params() -> dict[str, np.ndarray]:
    return lg.models.initial_params(lg.models.linear(), (2,), 2, seed=0)


@pytest.mark.slow
def test_a_killed_site_is_missed_and_comes_back(sites: lg.Federation, tmp_path: Path) -> None:
    project = write_project(tmp_path / "returning")
    with rehearsal(project, sites) as running:
        running.start()
        run = running.submit("rounds=14")
        wait_for_round(running, 2)
        running.kill("south")
        wait_for_round(running, 4)
        running.restart_site(next(site for site in running.sites if site.name == "south"))
        assert running.wait_for(run, seconds=900) == COMPLETED, running.log(run)
    told = ~np.isnan(result_of(running).history.gap)
    assert told[:, [0, 2]].all(), "the others took part in every round"
    south = told[:, 1].tolist()
    print("\nsouth answered:", south)
    assert south[0]
    assert not all(south)
    assert all(south[-3:]), "south took part again"
    assert all(np.isfinite(row.gap) for row in result_of(running).clients)


@pytest.mark.slow
def test_a_killed_server_goes_on_from_its_last_round(sites: lg.Federation, tmp_path: Path) -> None:
    project = write_project(tmp_path / "resuming")
    with rehearsal(project, sites) as running:
        running.start()
        first = running.submit("rounds=6")
        wait_for_round(running, 3)
        running.kill("superlink")
        time.sleep(2)
        running.start_superlink()
        running.wait_for_sites()
        assert running.wait_for(first, seconds=900) != COMPLETED
        second = running.submit("rounds=6")
        assert running.wait_for(second, seconds=900) == COMPLETED, running.log(second)
        assert "Going on after round" in running.log(second)
    result = result_of(running)
    assert result.history.rounds.tolist() == list(range(7))
    assert_same(result, simulated(sites, result))


@pytest.mark.slow
def test_strangers_and_liars_are_refused(sites: lg.Federation, tmp_path: Path) -> None:
    project = write_project(tmp_path / "guarded")
    lie(project / "guarded/client_app.py")
    with rehearsal(project, sites) as running:
        running.start()
        unregistered_key(running)
        wrong_authority(running)
        plain_http(running)
        run = running.submit("rounds=2")
        assert running.wait_for(run, seconds=900) == COMPLETED, running.log(run)
        log = running.log(run)
    assert "'west': its validation-loss is nan" in log
    gaps = result_of(running).history.gap[:2]
    assert np.isnan(gaps[:, 2]).all(), "west's answers did not count"
    assert np.isfinite(gaps[:, :2]).all()
    assert all(np.isfinite(leaf).all() for leaf in result_of(running).params.values())


def unregistered_key(running: Any) -> None:
    """A stranger with a key of its own and the right certificate."""
    running.make_key("stranger")
    stranger = type(running.sites[0])("stranger", running.sites[0].rows)
    running.start_site(stranger)
    code = running.processes["stranger"].wait(timeout=180)
    assert code != 0
    assert "Failed to activate SuperNode" in running.output("stranger"), running.output("stranger")
    assert "stranger" not in running.connected()
    del running.processes["stranger"]


def wrong_authority(running: Any) -> None:
    """A site that knows another certificate authority does not talk to this server."""
    site = running.sites[0]
    running.kill(site.name)
    other = running.folder / "other"
    running.call("operator/make-certificates.sh", "localhost", env=running.operator | {"SECRETS": str(other)})
    right = running.secrets(site.name) / "ca.crt"
    kept = right.read_bytes()
    shutil.copy(other / "ca.crt", right)
    running.start_site(site, "--max-retries", "1")
    code = running.processes[site.name].wait(timeout=180)
    assert code != 0
    assert "CERTIFICATE_VERIFY_FAILED" in running.output(site.name), running.output(site.name)
    right.write_bytes(kept)
    running.restart_site(site)
    running.wait_for_sites()


def plain_http(running: Any) -> None:
    """Without TLS nobody is answered."""
    with pytest.raises((HTTPException, OSError)):
        urllib.request.urlopen(f"http://127.0.0.1:{running.port}/health", timeout=5)


@pytest.mark.slow
def test_one_path_is_enough_for_the_sites(sites: lg.Federation, tmp_path: Path) -> None:
    project = write_project(tmp_path / "doored")
    with rehearsal(project, sites) as running:
        running.make_certificates()
        running.start_superlink()
        secrets = running.secrets("operator")
        # What the instructions warn of: whoever reaches the port may use the operator's interface, key or no key.
        assert asked(running.port, "/v1/control/list-runs", secrets) == 200
        with door(secrets, running.port, open_path(project / "operator/nginx.conf")) as port:
            for path in ("/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/health"):
                assert asked(port, path, secrets) == 403
            running.doorway = port
            for site in running.sites:
                running.make_key(site.name)
                running.register(site.name)
                running.start_site(site)
            running.wait_for_sites()
            run = running.submit("rounds=1")
            assert running.wait_for(run, seconds=900) == COMPLETED, running.log(run)


def asked(port: int, path: str, secrets: Path) -> int:
    """The status of an empty request by somebody without a key."""
    context = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    headers = {"content-type": "application/protobuf"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", data=b"", headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def lie(client_app: Path) -> None:
    """Whenever west has trained, it says that its loss is no number."""
    honest, app = client_app.read_text(), "app = client_app(learner)\n"
    assert honest.endswith(app)
    lying = """
def lie(message, context, call_next):
    reply = call_next(message, context)
    if context.node_config["site"] == "west":
        reply.content.metric_records["metrics"]["validation-loss"] = float("nan")
    return reply


app = client_app(learner, mods=[lie])
"""
    client_app.write_text(honest.removesuffix(app) + lying)


def wait_for_round(running: Any, rounds: int) -> None:
    """Until so many rounds are on the server's disk."""
    from safetensors import safe_open

    path = running.folder / "operator/state/runs/first/run.safetensors"

    def reached() -> bool:
        if not path.exists():
            return False
        with safe_open(path, framework="numpy") as file:
            return len(file.get_tensor("history.rounds")) >= rounds

    running.wait_until(reached, 900, f"round {rounds} was not reached")
