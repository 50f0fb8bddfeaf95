"""How far can one site pull the shared model by lying about its gap, and what does `multiplier_range` do about it?

A site that overstates its loss, or understates what it reaches alone, by c nats claims a gap that is c too large. EAGLE
then weighs it up and, without bounds, drives the others' losses uphill. Every gap in the table is a true one.

    python examples/lying_site.py
"""

import numpy as np

import lossgap as lg
from lossgap.table import Table

LIAR = 0
OVERSTATED = (0.0, 0.5, 2.0, 10.0, 1000.0)
BOUNDS = {
    "none": None,
    "(0, ∞)": (0.0, np.inf),
    "(0, 0.6)": (0.0, 0.6),
    "(0.22, 0.67)": (0.22, 0.67),
    "(0.35, 0.55)": (0.35, 0.55),
}
"""Of normalised multipliers. Five sites with equal gaps would have 1/√5 = 0.447 each."""


def main() -> None:
    federation = lg.datasets.digits(clients=5, alpha=0.3, seed=0)
    model, training = lg.models.linear(), lg.Training(rounds=500, step_size=0.5)
    solo = lg.train_solo(federation, model, training, stop="best")
    rows = []
    for name, bounds in BOUNDS.items():
        for overstated in OVERSTATED:
            claimed = solo.losses() - overstated * (np.arange(5) == LIAR)
            eagle = lg.Eagle(gap_penalty=1.0, multiplier_range=bounds)
            try:
                result = lg.train(federation, model, eagle, training, solo=claimed)
            except lg.DivergedError as problem:
                rows.append((name, overstated, None, None, None, str(problem).split(":")[1].split(" the ")[0].strip()))
                continue
            gaps = np.array([client.gap for client in result.clients]) - overstated * (np.arange(5) == LIAR)
            others = np.delete(gaps, LIAR)
            share = result.history.multiplier[-1, LIAR] / np.abs(result.history.multiplier[-1]).sum()
            rows.append((name, overstated, gaps[LIAR], others.mean(), others.max(), f"{share:.0%}"))
    columns = ("bounds", "overstated", "liar's gap", "others' mean gap", "others' worst gap", "liar's share at the end")
    print(Table(columns, tuple(rows)))


if __name__ == "__main__":
    main()
