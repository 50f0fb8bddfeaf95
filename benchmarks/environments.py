"""A virtual environment per contestant, made on demand and kept while its requirements stay the same."""

import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
REQUIREMENTS = Path(__file__).parent / "contestants" / "requirements"


class InstallFailed(Exception):
    """pip refused; the message is its last line."""


@functools.cache  # one answer per race: this checkout may change while it runs
def python(contestant: str, folder: Path) -> Path:
    """The interpreter of a contestant's environment below `folder`, which is installed if it is not there yet."""
    environment = folder / contestant
    stamp = environment / "requirements.sha256"
    interpreter = environment / "bin" / "python"
    wanted = fingerprint(contestant)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"  installing {contestant} …", flush=True)
        install(contestant, environment, interpreter)
        stamp.write_text(wanted)
    return interpreter


def install(contestant: str, environment: Path, interpreter: Path) -> None:
    shutil.rmtree(environment, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(environment)])
    requirements = REQUIREMENTS / f"{contestant}.txt"
    # PyTorch first and alone: then nothing that needs it resolves another, far larger build of it.
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    for wanted in (torch, ["-r", str(requirements)]):
        if wanted:
            run([str(interpreter), "-m", "pip", "install", "--quiet", *wanted])


def run(command: list[str]) -> None:
    finished = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if finished.returncode:
        raise InstallFailed(last_line(finished.stderr) or last_line(finished.stdout))


def fingerprint(contestant: str) -> str:
    """Of the pinned versions; and of the package's source where the requirement is this checkout (a line ".")."""
    text = (REQUIREMENTS / f"{contestant}.txt").read_text()
    digest = hashlib.sha256(text.encode())
    if "." in text.splitlines():
        for path in [REPOSITORY / "pyproject.toml", *sorted((REPOSITORY / "src").rglob("*.py"))]:
            digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
