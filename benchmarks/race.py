"""The benchmark race: every contestant does the same arithmetic on the same arrays, one after the other.

    python benchmarks/race.py [--workloads tiny,linear,cnn] [--contestants a,b] [--repeats 5] [--out FOLDER]

See README.md beside this file.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environments
import machine
import numpy as np
import report
from contestants import protocol
from workloads import EVENTS, MissingData

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("LOSSGAP_RACE_CACHE", HERE.parent / ".benchmarks" / "race")).resolve()
CONTESTANTS = (
    "lossgap",
    "lossgap_eagle",
    "bare_jax",
    "torch_loop",
    "torch_vmap",
    "fedjax",
    "fluke",
    "pfl",
    "flgo",
    "flower",
)
LONGEST_RUN = 1800  # seconds for one contestant on one workload
BUSY = 0.5  # load average above which other processes show in the timings


class RunFailed(Exception):
    """A contestant's process ended without a result; the message is its last line."""


def main() -> None:
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    race: dict[str, Any] = {"machine": machine.describe(), "products": {}, "results": []}
    if race["machine"]["load_at_start"] > BUSY:
        print(f"The machine is busy (load {race['machine']['load_at_start']}): timings will be too long.")
    try:
        run_race(race, options)
    except KeyboardInterrupt:
        print("\nStopped. What had finished is kept.")
    except MissingData as problem:
        sys.exit(str(problem))
    finally:
        report.write(race, options.out)
    print(f"\n{report.text(race)}\n\nWritten to {options.out}: race.json, race.md, race.svg")


def run_race(race: dict[str, Any], options: argparse.Namespace) -> None:
    """Fill in the products and the results, keeping race.json up to date."""
    print("environments")
    for contestant in dict.fromkeys(["bare_jax", "torch_loop", *options.contestants]):
        attempt(lambda c=contestant: environments.python(c, CACHE / "environments"))  # tried again where it races
    print("products of this machine")
    for library, contestant in (("JAX", "bare_jax"), ("PyTorch", "torch_loop")):
        script = f"products_{library.lower().removeprefix('py')}.py"
        race["products"][library] = attempt(lambda c=contestant, s=script: run_script(c, s, []))
    for name in options.workloads:
        print(name)
        arrays = prepare_arrays(name)
        reference = prepare_reference(arrays)
        for contestant in options.contestants:
            race["results"].append(enter(contestant, name, arrays, reference, options.repeats))
            report.write_json(race, options.out)


def enter(contestant: str, name: str, arrays: Path, reference: Path, repeats: int) -> dict[str, Any]:
    """One contestant's result on one workload, checked; a failure is a result too."""
    params = CACHE / "params" / f"{contestant}-{name}.npz"
    params.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(arrays), str(params), "--repeats", str(repeats)]
    result = {"contestant": contestant, "workload": name}
    result |= attempt(lambda: run_script(contestant, f"run_{contestant}.py", arguments))
    if "seconds_per_round" in result:
        rows = protocol.load(arrays).training_rows
        result |= {"shown": EVENTS[name].shown(result["seconds_per_round"], rows), "unit": EVENTS[name].unit}
        result |= check(params, reference, EVENTS[name].tolerance)
    print(f"  {contestant}: {report.outcome(result)}", flush=True)
    return result


def attempt(run: Callable[[], Any]) -> Any:
    """What `run` gives, or why it could not."""
    try:
        return run()
    except (environments.InstallFailed, RunFailed) as reason:
        return {"failed": f"{type(reason).__name__}: {reason}"}


def check(params: Path, reference: Path, tolerance: float) -> dict[str, Any]:
    """The largest distance of any parameter from the float64 reference."""
    with np.load(params) as mine, np.load(reference) as truth:
        if shapes(mine) != shapes(truth):
            return {"deviation": None, "correct": False}
        deviation = max(float(np.abs(mine[name] - truth[name]).max()) for name in truth)
    return {"deviation": deviation, "correct": deviation <= tolerance}


def shapes(arrays: Any) -> dict[str, tuple[int, ...]]:
    return {name: arrays[name].shape for name in arrays}


def prepare_arrays(name: str) -> Path:
    """The file of one workload, made again when the code that makes it or the reference changes."""
    sources = (HERE / "workloads.py", HERE / "contestants" / "protocol.py", HERE / "contestants" / "reference.py")
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    path = CACHE / "arrays" / f"{name}-{version}.npz"
    if not path.exists():
        print("  making the arrays …", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_whole(path, lambda partial: protocol.save(EVENTS[name].make(), partial))
    return path


def prepare_reference(arrays: Path) -> Path:
    path = arrays.with_suffix(".reference.npz")
    if not path.exists():
        print("  computing the reference …", flush=True)
        save_whole(path, lambda partial: run_script("bare_jax", "reference.py", [str(arrays), str(partial)]))
    return path


def save_whole(path: Path, write: Callable[[Path], object]) -> None:
    """An interrupted run leaves no half-written file under the real name."""
    partial = path.with_suffix(".partial.npz")
    write(partial)
    partial.rename(path)


def run_script(contestant: str, script: str, arguments: list[str]) -> dict[str, Any]:
    """Run a script of contestants/ in that contestant's environment; its last line of JSON, or {} if it prints none."""
    interpreter = environments.python(contestant, CACHE / "environments")
    command = [str(interpreter), str(HERE / "contestants" / script), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # A session of its own, so that Ctrl-C reaches this process alone and its children can be ended together.
    process = subprocess.Popen(
        command,
        cwd=CACHE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=LONGEST_RUN)
    except subprocess.TimeoutExpired as late:
        raise RunFailed(f"not finished after {LONGEST_RUN} s") from late
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RunFailed(environments.last_line(errors) or f"exit code {process.returncode}")
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=chosen_from(EVENTS), default=list(EVENTS), help="all: %(default)s")
    parser.add_argument("--contestants", type=chosen_from(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--repeats", type=int, default=5, help="timings of which the best counts")
    parser.add_argument("--out", type=Path, default=CACHE / "latest", help="folder for race.json, race.md, race.svg")
    return parser.parse_args()


def chosen_from(known: Any) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}. Choose from {', '.join(known)}.")
        return names

    return parse


if __name__ == "__main__":
    main()
