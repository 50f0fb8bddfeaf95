"""What processes that tests start, and kill, do with a store."""

import os
from collections.abc import Sequence
from pathlib import Path

import lossgap as lg
from lossgap.store import solos, sweep

FEW = (lg.Eagle(gap_penalty=0.5), lg.Eagle(gap_penalty=2.0), lg.FedAvg())
MANY = (*FEW, lg.AFL(average=True), lg.Ditto(base=lg.QFFL(q=1.0)))


def swept(
    folder: Path, methods: Sequence[lg.Algorithm], training: lg.Training, *, logged: Path | None = None
) -> list[lg.Result]:
    """Every method from two seeds on one federation."""
    store = lg.Store(folder, checkpoint_seconds=0.1)
    if logged:
        _log(logged)
    federation = lg.datasets.synthetic(seed=0)
    return store.sweep(federation, lg.models.linear(), methods, training, seeds=(0, 1), progress=False)


def _log(path: Path) -> None:
    """Note down each piece of training that this process begins, and each that it has ended."""

    def noted(kind: str, real, name):
        def train(*arguments, **more):
            _append(path, f"{os.getpid()} begins {kind} {name(arguments, more)}")
            result = real(*arguments, **more)
            _append(path, f"{os.getpid()} ends {kind} {name(arguments, more)}")
            return result

        return train

    sweep.run_pass = noted("run", sweep.run_pass, lambda a, _: " + ".join(f"{s.algorithm}#{s.seed}" for s in a[3]))
    solos.train_solo = noted("solo", solos.train_solo, lambda _, more: more["seed"])


def _append(path: Path, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)
