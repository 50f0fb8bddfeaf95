"""The whole federation on this machine: a SuperLink, a SuperNode for each site, certificates and keys, then one run.

    python rehearse.py                     # everything on 127.0.0.1, ended afterwards; the exit code is the run's
    python rehearse.py --config rounds=3

It uses the scripts in operator/ and site/ as the real parties do, each with folders of its own under rehearsal/.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "LOSSGAP_REHEARSAL"
"""Stands in the environment of every process of a rehearsal, so that each can be found and ended."""

DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""So that nothing is left behind if the rehearsal itself is killed."""


@dataclass(frozen=True)
class Site:
    """One party: its name, its table of rows, and what trains there."""

    name: str
    rows: Path
    framework: str = "jax"


@dataclass
class Rehearsal:
    """A SuperLink and SuperNodes on this machine. Use it in a `with` block, which ends all it has started."""

    project: Path
    folder: Path
    sites: Sequence[Site]
    settings: dict[str, str] = field(default_factory=dict)  # more of everybody's environment
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    port: int = field(default_factory=lambda: free_port())
    doorway: int | None = None  # where sites connect to, if not to the SuperLink itself
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> "Rehearsal":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Everybody, ready for a run."""
        self.make_certificates()
        for site in self.sites:
            self.make_key(site.name)
        self.start_superlink()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda site: self.register(site.name), self.sites))
        for site in self.sites:
            self.start_site(site)
        self.wait_for_sites()

    # The operator

    def make_certificates(self) -> None:
        self.call("operator/make-certificates.sh", "localhost", env=self.operator)

    def start_superlink(self) -> None:
        self.spawn("superlink", "operator/superlink.sh", env=self.operator)
        context = ssl.create_default_context(cafile=str(self.folder / "operator/secrets/ca.crt"))
        self.wait_until(lambda: self._answers(context), 180, "the SuperLink did not answer", needs=["superlink"])

    def register(self, name: str) -> None:
        self.call("operator/register-site.sh", name, str(self.secrets(name) / "site.key.pub"), env=self.operator)

    def connected(self) -> list[str]:
        """Names of the sites that are online."""
        lines = self.call("operator/sites.sh", env=self.operator).splitlines()
        return sorted(name for _, name, status in map(str.split, lines) if status == "online")

    def wait_for_sites(self) -> None:
        names = sorted(site.name for site in self.sites)
        why = f"not all of {names} connected"
        self.wait_until(lambda: all(self.activated(name) for name in names), 180, why, needs=names)
        self.wait_until(lambda: self.connected() == names, 180, why, needs=names, every=3)

    def submit(self, *config: str) -> str:
        """Start a run; its number."""
        options = [part for setting in config for part in ("--run-config", setting)]
        said = self.flwr("run", str(self.project), *options, "--format", "json")
        return str(json.loads(said)["run-id"])

    def status(self, run: str) -> str:
        """Such as "running" or "finished:completed". The exit codes of `flwr run` do not tell."""
        return str(json.loads(self.flwr("list", "--run-id", run, "--format", "json"))["runs"][0]["status"])

    def wait_for(self, run: str, seconds: float = 600) -> str:
        """How a run ended."""
        status, apps_ended, asked = "", 0, time.monotonic()

        def finished() -> bool:
            """Each question starts a program, so we ask when an app has ended, and now and then."""
            nonlocal status, apps_ended, asked
            ended = self.output("superlink").count("push-task-output")
            if ended > apps_ended or time.monotonic() > asked + 20:
                status, apps_ended, asked = self.status(run), ended, time.monotonic()
            return status.startswith("finished")

        self.wait_until(finished, seconds, f"run {run} did not end")
        return status

    def log(self, run: str) -> str:
        """What the server app has said."""
        return self.flwr("log", run, "--show")

    def flwr(self, *arguments: str) -> str:
        return self.call("operator/flwr.sh", *arguments, env=self.operator)

    # The sites

    def make_key(self, name: str) -> None:
        self.call("site/make-key.sh", env=self.environment(name))

    def start_site(self, site: Site, *arguments: str) -> None:
        ca = self.secrets(site.name) / "ca.crt"
        if not ca.exists():
            shutil.copy(self.folder / "operator/secrets/ca.crt", ca)
        environment = self.environment(site.name) | {
            "DATA": str(site.rows),
            "FRAMEWORK": site.framework,
            "SUPERLINK": f"127.0.0.1:{self.doorway or self.port}",
            "RUNTIME_PORT": str(free_port()),
        }
        self.spawn(site.name, "site/supernode.sh", *arguments, env=environment)

    def restart_site(self, site: Site, seconds: float = 300) -> None:
        """Start a killed site until the SuperLink lets it in, as systemd does.

        For about a minute the SuperLink takes the killed one for still online, and refuses a second one with its key.
        """
        said, end = self.activated(site.name), time.monotonic() + seconds
        self.start_site(site)
        while self.activated(site.name) == said:
            if self.processes[site.name].poll() is not None:
                if time.monotonic() > end:
                    raise TimeoutError(f"{site.name} was not let in again\n{self.output(site.name)[-3000:]}")
                time.sleep(5)
                self.start_site(site)
            time.sleep(0.5)

    def activated(self, name: str) -> int:
        """How often a site has been let in."""
        return self.output(name).count("SuperNode ID")

    def kill(self, name: str) -> None:
        """End the superlink or a site as a power cut would."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    # Processes

    @property
    def operator(self) -> dict[str, str]:
        return self.environment("operator") | {"SUPERLINK_HOST": "127.0.0.1", "SUPERLINK_PORT": str(self.port)}

    def environment(self, name: str) -> dict[str, str]:
        """That of one party, whose files all stand under its own folder."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("FLWR_", "LOSSGAP_CACHE"))}
        programs = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
        own = {"SITE": name, "SECRETS": str(self.secrets(name)), "STATE": str(self.folder / name / "state")}
        return kept | {MARK: self.mark, "PATH": programs, "PYTHONUNBUFFERED": "1"} | own | self.settings

    def secrets(self, name: str) -> Path:
        return self.folder / name / "secrets"

    def output(self, name: str) -> str:
        """All that the superlink or a site has printed."""
        return (self.folder / name / "output.log").read_text(errors="replace")

    def call(self, program: str, *arguments: str, env: dict[str, str]) -> str:
        script = self.project / program
        command = [str(script) if script.exists() else program, *arguments]
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def spawn(self, name: str, script: str, *arguments: str, env: dict[str, str]) -> None:
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        with (self.folder / name / "output.log").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [*DIE_WITH_US, str(self.project / script), *arguments],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until(
        self, done: Callable[[], bool], seconds: float, else_: str, needs: Sequence[str] = (), every: float = 0.5
    ) -> None:
        """Wait, but not for something that cannot come any more."""
        end = time.monotonic() + seconds
        while not done():
            dead = [name for name in needs if self.processes[name].poll() is not None]
            if dead or time.monotonic() > end:
                said = "\n".join(f"--- {name}\n{self.output(name)[-3000:]}" for name in dead or self.processes)
                raise TimeoutError(f"{else_}{f'; ended: {dead}' if dead else ''}\n{said}")
            time.sleep(every)

    def _answers(self, context: ssl.SSLContext) -> bool:
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/health", timeout=5, context=context):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """End every process of this rehearsal, and no other."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        for pid in marked(self.mark):  # apps whose parents were killed
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> Iterator[int]:
    """Processes with this mark in their environment. Where there is no /proc, Flower's watch over parents must do."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
        except OSError:  # it has ended, or belongs to somebody else
            continue


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Rehearse, and say how it went."""
    if importlib.util.find_spec("flwr") is None:
        print("Flower is missing. Install it with: pip install 'lossgap[flower]'", file=sys.stderr)
        return 2
    from rehearsal_rows import make

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes are ended first
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--config", default="", help="settings of this run, such as 'rounds=3'")
    parser.add_argument("--folder", type=Path, default=HERE / "rehearsal", help="where all files of it go")
    arguments = parser.parse_args()
    if arguments.folder.exists():
        print(f"{arguments.folder} exists. Remove it, or choose another --folder.", file=sys.stderr)
        return 2
    with Rehearsal(HERE, arguments.folder.resolve(), make(arguments.folder.resolve())) as rehearsal:
        print(f"Starting a SuperLink and {len(rehearsal.sites)} sites …")
        rehearsal.start()
        run = rehearsal.submit(*filter(None, [arguments.config]))
        print(f"Run {run} …")
        status = rehearsal.wait_for(run, seconds=3600)
        tables = sorted((arguments.folder / "operator/state/runs").glob("*/table.txt"))
        print("\n".join(table.read_text() for table in tables) or rehearsal.log(run))
        print(f"Run {run}: {status}")
    return 0 if status == "finished:completed" else 1


if __name__ == "__main__":
    sys.exit(main())
