"""Losses alone and together, and the gaps between them, as charts."""

from lossgap import charts
from lossgap.charts import Figure
from lossgap.charts.changes import change_keys
from lossgap.metrics import INDIFFERENT, ClientRow
from lossgap.reporting.plain import Evidence, Method
from lossgap.reporting.plates import NARROW, WIDE, Picture, Plate, small
from lossgap.reporting.words import counted

NAMED = 30
"""Up to so many clients stand by their names in a chart."""

TOGETHER = 60
"""Up to so many rows, all methods stand under each client in one chart."""

ENDS = ("alone", "shared model")


def losses(evidence: Evidence) -> Plate:
    """Per client and method, from the loss alone to the loss of the shared model."""
    clients = len(evidence.names)
    together = clients <= NAMED and clients * (len(evidence.methods) + 1) <= TOGETHER
    if together:
        return _plate(evidence, (Picture(_all(evidence, WIDE), _all(evidence, NARROW)),), named=True)
    draw = _named if clients <= NAMED else _unnamed
    limits = [v for m in evidence.methods for c in m.clients for v in _ends(c)]
    figures = [draw(evidence, method, limits) for method in evidence.methods]
    return _plate(evidence, small(figures), named=clients <= NAMED)


def gaps(evidence: Evidence) -> Plate:
    """Per method, how the gaps of all clients spread."""
    seeds = evidence.seeds if len(evidence.seeds) > 1 else ()
    every = [f"{name}, seed {seed}" for seed in seeds for name in evidence.names] if seeds else list(evidence.names)
    groups = {method.name: method.gaps.ravel().tolist() for method in evidence.methods}

    def draw(width: float) -> Figure:
        return charts.boxes(
            groups,
            x=evidence.labelled("loss gap"),
            title="Gaps under each method",
            names=every,
            sides=("gains by joining", "loses"),
            indifferent=INDIFFERENT,
            width=width,
        )

    points = "a client in one seed" if seeds else "a client"
    return Plate(
        name="gaps",
        title="Gaps under each method",
        says=f"Each mark is {points}; left of the line it gains, right of it it loses. Half of the marks lie within "
        "the box, and the stroke in it is the middle one. The shorter the row, the more even the gains.",
        pictures=(Picture(draw(WIDE), draw(NARROW)),),
    )


def _plate(evidence: Evidence, pictures: tuple[Picture, ...], *, named: bool) -> Plate:
    seeds = len(evidence.seeds)
    words = [
        f"From the best loss alone (open circle) to the loss of the shared model, on {evidence.measured_on}. "
        "Towards smaller losses a client gains, towards larger ones it loses; the length of the line is its gap.",
        "" if named else "Clients stand from the smallest loss alone to the largest, in the same order in each chart.",
        f"Marks are means over {seeds} seeds, small strokes the shared model's loss in each of them."
        if seeds > 1 and len(pictures) == 1
        else f"Marks are means over {seeds} seeds."
        if seeds > 1
        else "",
    ]
    return Plate(
        name="losses",
        title="Losses alone and with the shared model",
        says=" ".join(filter(None, words)),
        pictures=pictures,
        keys=tuple(change_keys(ENDS)) if len(pictures) > 1 else (),
    )


def _all(evidence: Evidence, width: float) -> Figure:
    """Every method under every client."""
    rows = {
        name: {method.name: _ends(method.clients[k]) for method in evidence.methods}
        for k, name in enumerate(evidence.names)
    }
    repeats = {
        (name, method.name): [run.clients[k].solo_loss + run.clients[k].gap for run in method.runs]
        for k, name in enumerate(evidence.names)
        for method in evidence.methods
        if len(method.runs) > 1
    }
    return charts.dumbbells(
        rows,
        x=evidence.labelled("loss"),
        title="Losses alone and with the shared model",
        ends=ENDS,
        indifferent=INDIFFERENT,
        repeats=repeats,
        width=width,
    )


def _named(evidence: Evidence, method: Method, limits: list[float]) -> Figure:
    rows = {client.name: _ends(client) for client in method.clients}
    return charts.dumbbells(
        rows,
        x=evidence.labelled("loss"),
        title=method.name,
        ends=ENDS,
        indifferent=INDIFFERENT,
        limits=limits,
        legend=False,
        width=NARROW,
    )


def _unnamed(evidence: Evidence, method: Method, limits: list[float]) -> Figure:
    return charts.drops(
        {client.name: _ends(client) for client in method.clients},
        x=f"{counted(len(method.clients), 'client')}, by their loss alone",
        y=evidence.labelled("loss"),
        title=method.name,
        ends=ENDS,
        indifferent=INDIFFERENT,
        limits=limits,
        legend=False,
        width=NARROW,
    )


def _ends(client: ClientRow) -> tuple[float, float]:
    return client.solo_loss, client.solo_loss + client.gap
