"""What runs at the server: it sees parameters, losses and numbers of rows, never a row."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import lossgap as lg
from lossgap.algorithms.base import Params
from lossgap.flower import FairStrategy
from my_federation.agreed import CLASSES, FEATURES, METHOD, MODEL, SEED, SITES, SOLO, SOLO_ROUNDS, TRAINING

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and write what every site gets. A run that was interrupted goes on from its last round."""
    training = replace(TRAINING, rounds=int(context.run_config["rounds"]))
    folder = Path(os.environ.get("LOSSGAP_OPERATOR_STATE", "state")) / "runs" / str(context.run_config["name"])
    start = lg.models.initial_params(MODEL, (len(FEATURES),), len(CLASSES), seed=SEED, precision=training.precision)
    strategy = FairStrategy(METHOD, training, sites=SITES, solo=SOLO, solo_rounds=SOLO_ROUNDS, seed=SEED, folder=folder)
    result = strategy.run(grid, start, model=MODEL, after_round=stopwatch())
    result = replace(result, features=(len(FEATURES),), outputs=len(CLASSES))
    result.save(folder / "result")
    (folder / "table.txt").write_text(f"{result}\n")
    print(result)
    for incident in strategy.incidents:
        print(f"Round {incident.round}, {incident.site}: {incident.what}")


def stopwatch() -> Callable[[int, Params], None]:
    """Says how long each round took, but for the first, which includes what came before."""
    last = [0.0]

    def tell(done: int, params: Params) -> None:
        now = time.monotonic()
        if last[0]:
            print(f"Round {done} took {now - last[0]:.1f} s")
        last[0] = now

    return tell
