"""Measures and draws what docs/theory.md shows: python benchmarks/theory.py FOLDER [part …], minutes on two cores."""

import json
import sys
from pathlib import Path

import numpy as np

import lossgap as lg
from lossgap import theory
from lossgap.disk import whole_file
from lossgap.theory import figures, study
from lossgap.theory.report import safe_step
from lossgap.theory.room import descends, room, settles

SEEDS = (0, 42, 100, 200)
ALPHAS = (0.1, 1.0, 10.0, 100.0)
PROBLEMS = 200
KINDS = {  # (local steps, batch size)
    "full batch, I = 1": (1, None),
    "full batch, I = 5": (5, None),
    "batches of 5, I = 1": (1, 5),
    "full batch, I = 100": (100, None),
    "batches of 5, I = 5": (5, 5),
}
LINEAR = lg.models.linear()
DATA = {
    "synthetic": lambda seed: lg.datasets.synthetic(seed=seed),
    "digits": lambda seed: lg.datasets.digits(clients=5, alpha=0.3, seed=seed),
}


def noted(folder: Path, name: str, content: object) -> None:
    with whole_file(folder / f"{name}.json") as draft:
        draft.write_text(json.dumps(content, indent=1))


def looseness(folder: Path) -> None:
    """Bound over measured: every λ, I, batch, seed and data set."""
    rows = []
    for data, make in DATA.items():
        for seed in SEEDS:
            problem = theory.Problem.of(make(seed), LINEAR, seed=seed)
            for batch_size in (None, 10):
                found = study.grid(problem, batch_size=batch_size)
                for (penalty, steps), c in found.items():
                    rows.append(
                        {
                            "data": data,
                            "seed": seed,
                            "batch": batch_size,
                            "λ": penalty,
                            "I": steps,
                            "covered": c.covered,
                            "1": c.parity.total / c.measured_parity,
                            "1 sharp": c.sharp_parity.total / c.measured_parity,
                            "2": c.utility.total / c.measured_utility,
                        }
                    )
                noted(folder, "looseness", rows)
                if seed == 0 and data == "synthetic":
                    kind = "full" if batch_size is None else "batches"
                    figures.over_penalties(found).save(folder / f"looseness-{kind}.svg")
                    runs = [found[1.0, 1], found[1.0, 5]]
                    figures.over_rounds(runs).save(folder / f"rounds-{kind}.svg")


def rates(folder: Path) -> None:
    """The slope in T."""
    problem = theory.Problem.of(DATA["synthetic"](0), LINEAR)
    found = {
        "full batch, I = 1": study.rate(problem, penalty=1.0),
        "batches of 5, I = 1": study.rate(problem, penalty=1.0, batch_size=5),
        "full batch, I = 5": study.rate(problem, penalty=1.0, local_steps=5),
        "batches of 5, I = 5": study.rate(problem, penalty=1.0, local_steps=5, batch_size=5),
    }
    figures.over_horizons(found).save(folder / "rate.svg")
    noted(
        folder,
        "rate",
        {name: [r.exponent, r.rounds.tolist(), r.measured.tolist(), r.covered.tolist()] for name, r in found.items()},
    )


def coarse_digits(alpha: float) -> lg.Federation:
    """Digits of 2×2 pixels: with all 64, a linear model fits all training rows, and fairness costs nothing."""

    def coarse(rows: lg.Split) -> tuple[np.ndarray, np.ndarray]:
        return rows.x.reshape(len(rows), 2, 4, 2, 4).mean(axis=(2, 4)), rows.y

    fine = lg.datasets.digits(clients=5, alpha=alpha, seed=0)
    splits = {client.name: {name: coarse(rows) for name, rows in client.splits} for client in fine.clients}
    return lg.Federation.from_splits(splits, classes=10)


def prices(folder: Path) -> None:
    """The price of fairness over λ and over heterogeneity."""
    by_penalty = {}
    for data, federation in {"synthetic": DATA["synthetic"](0), "coarse digits, α = 0.1": coarse_digits(0.1)}.items():
        problem = theory.Problem.of(federation, LINEAR)
        by_penalty[data] = study.prices(problem, (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0))
    penalties = [p.penalty for p in by_penalty["synthetic"]]
    figures.price_of_fairness(by_penalty, "λ", penalties, title="The price of fairness, by λ").save(
        folder / "price-by-penalty.svg"
    )
    by_alpha = {0.3: [], 1.0: []}
    for alpha in ALPHAS:
        problem = theory.Problem.of(coarse_digits(alpha), LINEAR)
        for penalty, found in zip(by_alpha, study.prices(problem, tuple(by_alpha)), strict=True):
            by_alpha[penalty].append(found)
    panels = {f"coarse digits, λ = {penalty:g}": found for penalty, found in by_alpha.items()}
    title = "The price of fairness, by how alike clients are"
    figures.price_of_fairness(panels, "Dirichlet α: large is alike", ALPHAS, title=title).save(
        folder / "price-by-heterogeneity.svg"
    )
    tables = {name: study.price_table({f"λ = {p.penalty:g}": p for p in found}) for name, found in by_penalty.items()}
    tables |= {
        name: study.price_table({f"α = {alpha:g}": p for alpha, p in zip(ALPHAS, found, strict=True)})
        for name, found in panels.items()
    }
    text = "\n\n".join(f"{name}\n{table.markdown()}" for name, table in tables.items())
    (folder / "price.md").write_text(text + "\n")


def random_problem(seed: int) -> tuple[theory.Problem, float]:
    """Clients that have little to do with each other, in 1 to 3 times their natural scale, and a λ."""
    rng = np.random.default_rng([seed, 9])
    clients, rows, features, classes = [(2, 8, 2, 2), (4, 12, 5, 3), (8, 10, 3, 4)][seed % 3]
    scale, penalty = float(rng.uniform(1, 3)), float(10 ** rng.uniform(-2, 1))

    def made() -> tuple[np.ndarray, np.ndarray]:
        x = scale * (rng.normal(size=(rows, features)) + rng.normal(size=features))
        return x, np.append(rng.integers(0, classes, rows - 2), [0, 1])

    splits = {f"{k}": {"train": made(), "validation": made(), "test": made()} for k in range(clients)}
    federation = lg.Federation.from_splits(splits, classes=classes)
    solo = rng.uniform(0, 1, clients).tolist()
    return theory.Problem.of(federation, LINEAR, solo=solo, seed=seed), penalty


def rooms(folder: Path) -> None:
    """How much larger than the safe step one may go, over random problems."""
    found: dict[str, list[int]] = {}
    ends: dict[str, list[float]] = {name: [] for name in KINDS}
    for seed in range(PROBLEMS):
        problem, penalty = random_problem(seed)
        proven = safe_step(problem, penalty, lg.Training())  # at I = 1: 1/β_F
        for name, (steps, batch_size) in KINDS.items():
            step = proven / steps
            run = {"penalty": penalty, "rounds": max(10, 200 // steps), "local_steps": steps, "batch_size": batch_size}
            # as the theorems have it, whatever I
            path = theory.walk(problem, step_size=proven, **run)
            ends[name].append(float(np.nan_to_num(path.end_objective / path.seen.objective[0, 0], nan=np.inf)))
            found.setdefault(name, []).append(room(problem, step_size=step, verdict=settles, **run))
            if steps == 1 and batch_size is None:
                label = f"{name}, every step down"
                found.setdefault(label, []).append(room(problem, step_size=step, verdict=descends, **run))
        noted(folder, "room", {"largest multiple of the safe step": found, "F end / F start at 1/β_F": ends})
    figures.rooms(found).save(folder / "room.svg")


PARTS = {"rooms": rooms, "rates": rates, "prices": prices, "looseness": looseness}

if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for part in sys.argv[2:] or PARTS:
        PARTS[part](out)
