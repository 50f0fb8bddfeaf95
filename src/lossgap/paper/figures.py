"""The paper's figures, drawn from our results."""

from collections.abc import Mapping, Sequence

import numpy as np

from lossgap import charts
from lossgap.charts import Figure
from lossgap.federation import Federation
from lossgap.paper.run import Outcome
from lossgap.paper.settings import several
from lossgap.result import Result

PANEL = 460
"""Width of one of two pictures side by side."""

CURVE = 200
"""Points of a curve."""

Points = tuple[list[float], list[float]]


def two_clients(outcome: Outcome) -> Figure:
    """Figure 1: where equal losses and equal gaps draw the line, and what each client gets."""
    federation, results = _first_seed(outcome)
    shown = {label: result for label, result in results.items() if label == "AFL" or label.startswith("EAGLE")}
    panels = [
        charts.scatter(
            {**points, **{f"{label}'s line": _separator(result, points) for label, result in shown.items()}},
            x="first feature",
            y="second feature",
            title=name,
            joined=[f"{label}'s line" for label in shown],
            width=PANEL,
        )
        for name, points in _by_class(federation).items()
    ]
    below = losses_and_gaps(outcome, width=2 * PANEL)
    return charts.grid([charts.grid(panels), below], columns=1, title="Two clients: equal losses or equal gaps")


def best_losses(outcomes: Mapping[str, Outcome]) -> Figure:
    """Figure 2: the best local losses of all clients and seeds, for uneven and for even data."""
    groups = {name: outcome.best_losses.ravel().tolist() for name, outcome in outcomes.items()}
    return charts.boxes(groups, x="best local loss L_k* on validation rows, nats", title="What clients reach alone")


def losses_and_gaps(outcome: Outcome, *, width: float = 2 * PANEL) -> Figure:
    """Figure 3: from the best local loss to the shared model's, client by client and method by method."""
    rows = {
        name: {label: (float(alone), float(alone + gap)) for label, alone, gap in each}
        for name, each in _mean_clients(outcome).items()
    }
    return charts.dumbbells(
        rows,
        x=f"loss on {outcome.experiment.training.gap_split} rows, nats: the gap lies between the marks",
        title=f"Losses and gaps, mean over {several(outcome.experiment.seeds)}",
        ends=("best alone", "shared model"),
        width=width,
    )


def gaps(outcome: Outcome) -> Figure:
    """Figure 4: the gaps of all clients and seeds, method by method."""
    seeds = outcome.experiment.seeds
    names = [f"{client.name}, seed {seed}" for seed in seeds for client in _first(outcome)[seeds.index(seed)].clients]
    return charts.boxes(
        {label: each.ravel().tolist() for label, each in outcome.gaps.items()},
        x="loss gap r_k on validation rows, nats: below zero, joining helps",
        title=f"Gaps of all clients over {several(seeds)}",
        names=names,
    )


def data(outcome: Outcome) -> Figure:
    """Figure 5: the clients' rows."""
    federation, _ = _first_seed(outcome)
    panels = [
        charts.scatter(points, x="first feature", y="second feature", title=name, width=PANEL)
        for name, points in _by_class(federation).items()
    ]
    return charts.grid(panels, columns=3, title=f"The synthetic clients, seed {outcome.experiment.seeds[0]}")


def training_losses(outcome: Outcome) -> Figure:
    """Figure 6: each client's training loss along the rounds, method by method."""
    _, results = _first_seed(outcome)
    panels = []
    for label, result in results.items():
        some = np.unique(np.geomspace(1, len(result.history) - 1, CURVE).astype(int))  # a log axis has no round 0
        rounds, losses = result.history.rounds[some], result.history.train_loss[some]
        curves = {c.name: (rounds.tolist(), losses[:, k].tolist()) for k, c in enumerate(result.clients)}
        panels.append(charts.lines(curves, x="round", y="training loss", title=label, log="x", width=PANEL))
    return charts.grid(panels, title=f"Training losses, seed {outcome.experiment.seeds[0]}")


def _first(outcome: Outcome) -> Sequence[Result]:
    return next(iter(outcome.results.values()))


def _first_seed(outcome: Outcome) -> tuple[Federation, dict[str, Result]]:
    federation = outcome.experiment.make_federation(seed=outcome.experiment.seeds[0])
    return federation, {label: each[0] for label, each in outcome.results.items()}


def _mean_clients(outcome: Outcome) -> dict[str, list[tuple[str, float, float]]]:
    """(method, L_k*, gap) by client, mean over seeds."""
    alone = outcome.best_losses.mean(axis=0)
    return {
        client.name: [(label, alone[k], each[:, k].mean()) for label, each in outcome.gaps.items()]
        for k, client in enumerate(_first(outcome)[0].clients)
    }


def _by_class(federation: Federation) -> dict[str, dict[str, Points]]:
    """All rows of each client in the plane, class by class."""
    found = {}
    for client in federation.clients:
        x = np.concatenate([rows.x for _, rows in client.splits])
        y = np.concatenate([rows.y for _, rows in client.splits])
        found[client.name] = {f"class {c}": (x[y == c, 0].tolist(), x[y == c, 1].tolist()) for c in (0, 1)}
    return found


def _separator(result: Result, points: Mapping[str, Points]) -> Points:
    """The two ends of the line where a linear model of two classes is undecided, within the rows' box."""
    kernel, bias = (np.asarray(result.params[name], np.float64) for name in ("kernel", "bias"))
    normal, offset = kernel[:, 1] - kernel[:, 0], bias[1] - bias[0]
    foot, along = -offset * normal / (normal @ normal), np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    everywhere = np.concatenate([np.array(each) for each in points.values()], axis=1)
    box = np.stack([everywhere.min(axis=1), everywhere.max(axis=1)], axis=1)
    with np.errstate(divide="ignore"):
        reach = np.sort((box - foot[:, None]) / along[:, None], axis=1)
    ends = foot[:, None] + along[:, None] * np.array([reach[:, 0].max(), reach[:, 1].min()])
    return ends[0].tolist(), ends[1].tolist()
