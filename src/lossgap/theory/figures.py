"""The theory in pictures."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lossgap import charts
from lossgap.charts import Figure
from lossgap.theory.study import Price, Rate
from lossgap.theory.theorems import Check

PANEL = 460
POINTS = 60
MEASURED, SHARP, BOUND = "measured", "bound, drift by local step", "bound"


def over_rounds(checks: Sequence[Check]) -> Figure:
    """Measured against bound as rounds go by, a panel for each run."""
    return charts.grid([_one_run(each) for each in checks], title="Theorem 1 along a run: the mean of ‖∇F‖² so far")


def _one_run(check: Check) -> Figure:
    some = np.unique(np.geomspace(1, check.rounds, POINTS).astype(int))
    cut = [check.up_to(int(T)) for T in some]
    curves = {
        MEASURED: [each.measured_parity for each in cut],
        SHARP: [each.sharp_parity.total for each in cut],
        BOUND: [each.parity.total for each in cut],
    }
    batch = "full batch" if check.batch_size is None else f"batches of {check.batch_size}"
    title = f"λ = {check.penalty:g}, I = {check.local_steps}, {batch}"
    series = {name: (some.tolist(), values) for name, values in curves.items()}
    return charts.lines(series, x="rounds T", y="mean ‖∇F‖²", title=title, log="xy", width=PANEL)


def over_penalties(found: Mapping[tuple[float, int], Check]) -> Figure:
    """How many times larger than what is measured the bounds are, by λ and I."""
    penalties, steps = sorted({key[0] for key in found}), sorted({key[1] for key in found})
    panels: dict[str, Callable[[Check], float]] = {
        "Theorem 1": lambda c: c.parity.total / c.measured_parity,
        "Theorem 1, drift by local step": lambda c: c.sharp_parity.total / c.measured_parity,
        "Theorem 2": lambda c: c.utility.total / c.measured_utility,
    }
    return charts.grid(
        [
            charts.lines(
                {f"I = {each}": (penalties, [of(found[penalty, each]) for penalty in penalties]) for each in steps},
                x="λ",
                y="bound / measured",
                title=title,
                log="xy",
                levels={"tight": 1.0},
                width=PANEL,
            )
            for title, of in panels.items()
        ],
        columns=3,
        title="How loose the bounds are",
    )


def over_horizons(rates: Mapping[str, Rate]) -> Figure:
    """The mean of ‖∇F‖² by T with η = 1/√(TI), against the rate that the theorem promises."""
    panels = []
    for name, found in rates.items():
        rounds = found.rounds.tolist()
        guide = found.measured[-1] * np.sqrt(found.rounds[-1] / found.rounds)
        covered = np.where(found.covered, found.bound, np.nan)
        series = {
            MEASURED: (rounds, found.measured.tolist()),
            "Theorem 1, where it speaks": (rounds, covered.tolist()),
            "1/√T": (rounds, guide.tolist()),
        }
        title = f"{name}: measured ∝ T^{found.exponent:.2f}".replace("-", "−")
        panels.append(charts.lines(series, x="rounds T", y="mean ‖∇F‖²", title=title, log="xy", width=PANEL))
    return charts.grid(panels, title="Runs of T rounds with η = 1/√(TI)")


def price_of_fairness(found: Mapping[str, Sequence[Price]], x: str, values: Sequence[float], *, title: str) -> Figure:
    """What fairness costs the mean loss, measured and as Theorem 2 bounds it, a panel for each name."""
    panels = []
    for name, each in found.items():
        curves = {
            "‖∇L‖² where training ends": [p.squared_gradient for p in each],
            "32λ²Γ²B² there": [p.bound_here for p in each],
            "32λ²Γ²B² along the path": [p.bound for p in each],
            "L − L*, nats": [p.loss for p in each],
        }
        series = {label: (list(values), numbers) for label, numbers in curves.items()}
        panels.append(charts.lines(series, x=x, y="", title=name, log="xy", width=PANEL))
    return charts.grid(panels, title=title)


def rooms(found: Mapping[str, Sequence[float]]) -> Figure:
    """How many times the safe step still works, over random problems."""
    return charts.boxes(
        found, x="the largest multiple of the safe step that still works", title="Room above the safe step", log=True
    )
