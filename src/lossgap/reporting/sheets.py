"""Tables for a page, with values in full behind what is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lossgap.reporting.plain import Evidence, Method
from lossgap.reporting.words import Numbers, count, percent, variance
from lossgap.table import Cell, Table
from lossgap.tuning import Frontier

Show = Callable[[float], str]


MOST_PRINTED = 60
"""Rows of the table of every client under every method."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """Values with the way they are written."""

    name: str
    values: tuple[Cell, ...]
    show: Show | None = None  # None: text
    deviations: tuple[float, ...] = ()  # over seeds
    explained: str = ""
    coloured: bool = False  # by sign: gaps

    @property
    def cells(self) -> list[str]:
        if self.show is None:
            return [str(value) for value in self.values]
        shown = ["–" if value is None else self.show(float(value)) for value in self.values]
        if not any(spread == spread for spread in self.deviations):
            return shown
        return [f"{each} ± {self.show(spread)}" for each, spread in zip(shown, self.deviations, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table with a caption."""

    name: str  # of its files
    caption: str
    columns: tuple[Column, ...]
    folded: bool = False
    printed: bool = True  # long tables would fill pages

    def values(self) -> Table:
        """In full, for a spreadsheet: means and deviations in columns of their own."""
        names, values = [], []
        for column in self.columns:
            names.append(column.name)
            values.append(column.values)
            if any(spread == spread for spread in column.deviations):
                names.append(f"{column.name}, deviation over seeds")
                values.append(column.deviations)
        return Table(tuple(names), tuple(zip(*values, strict=True)))

    def shown(self) -> Table:
        """As on the page, for a paper."""
        return Table(tuple(c.name for c in self.columns), tuple(zip(*(c.cells for c in self.columns), strict=True)))


def methods_sheet(evidence: Evidence) -> Sheet:
    """A row per method: each method's own notion of fairness, for every method."""
    numbers, methods = Numbers.of(evidence), evidence.methods
    seeds = len(evidence.seeds)
    over = f", means ± standard deviations over {seeds} seeds" if seeds > 1 else ""

    def measure(name: str, of: str, show: Show, explained: str) -> Column:
        return Column(
            name=name,
            values=tuple(method.mean(of) for method in methods),
            show=show,
            deviations=tuple(method.deviation(of) for method in methods),
            explained=explained,
        )

    columns = [
        Column(name="method", values=tuple(method.name for method in methods)),
        *(_standing(name, kind, methods) for name, kind in (("gain", "gains"), ("same", "same"), ("lose", "loses"))),
        measure("worst gap", "max_gap", numbers.gap, "the largest gap of any client"),
        measure("best gap", "min_gap", numbers.gap, "the smallest gap of any client"),
        measure("mean gap", "mean_gap", numbers.gap, "over clients, each counting the same"),
        measure("gap variance", "gap_variance", variance, "how uneven the gains are: EAGLE's measure (ddof = 1)"),
        measure("gap range", "gap_range", numbers.loss, "worst minus best gap: FAA, the measure of FOCUS"),
        measure("better off", "appeal", percent, "share of clients with a smaller loss than alone: MaxFL's appeal"),
        measure("desert spread", "desert_spread", variance, "largest minus smallest loss over loss alone: UDJ-FL's"),
        *(
            [
                measure("accuracy", "mean_accuracy", percent, f"mean over clients, {evidence.accuracy_on}"),
                measure("worst accuracy", "worst_accuracy", percent, f"of any client, {evidence.accuracy_on}"),
            ]
            if evidence.columns_known("test_accuracy")
            else []
        ),
    ]
    return Sheet(name="methods", caption=f"Methods: summaries over clients{over}", columns=tuple(columns))


def clients_sheet(evidence: Evidence) -> Sheet:
    """A row per client, its gap under each method."""
    numbers, first = Numbers.of(evidence), evidence.methods[0]
    over = _over(evidence)
    columns = [
        Column(name="client", values=evidence.names),
        *_rows(evidence),
        *(
            []
            if evidence.solo_differs
            else [
                Column(
                    name="loss alone",
                    values=tuple(client.solo_loss for client in first.clients),
                    show=numbers.loss,
                    explained="the best loss that the client reaches alone",
                )
            ]
        ),
        *(
            Column(
                name=method.name,
                values=tuple(client.gap for client in method.clients),
                show=numbers.gap,
                explained=f"gap under {method.name}",
                coloured=True,
            )
            for method in evidence.methods
        ),
    ]
    return Sheet(name="clients", caption=f"Clients: each one's gap under each method{over}", columns=tuple(columns))


def details_sheet(evidence: Evidence) -> Sheet:
    """A row per client and method, with both losses."""
    numbers = Numbers.of(evidence)
    rows = [(client, method) for method in evidence.methods for client in method.clients]
    columns = [
        Column(name="client", values=tuple(client.name for client, _ in rows)),
        Column(name="method", values=tuple(method.name for _, method in rows)),
        Column(name="loss alone", values=tuple(client.solo_loss for client, _ in rows), show=numbers.loss),
        Column(
            name="shared loss", values=tuple(client.solo_loss + client.gap for client, _ in rows), show=numbers.loss
        ),
        Column(name="gap", values=tuple(client.gap for client, _ in rows), show=numbers.gap, coloured=True),
        *(
            [Column(name="accuracy", values=tuple(c.test_accuracy for c, _ in rows), show=percent)]
            if evidence.columns_known("test_accuracy")
            else []
        ),
        Column(name="against alone", values=tuple(client.standing for client, _ in rows)),
    ]
    caption = f"Every client under every method{_over(evidence)}"
    long = len(rows) > MOST_PRINTED
    return Sheet(name="details", caption=caption, columns=tuple(columns), folded=len(rows) > 12, printed=not long)


def path_sheet(frontier: Frontier, evidence: Evidence) -> Sheet:
    """A row per λ."""
    numbers, points = Numbers.of(evidence), frontier.points

    def column(name: str, of: str, show: Show, explained: str = "") -> Column:
        return Column(name=name, values=tuple(getattr(p, of) for p in points), show=show, explained=explained)

    columns = [
        column("λ", "penalty", "{:g}".format),
        column("worst gap", "worst_gap", numbers.gap),
        column("gap variance", "gap_variance", variance),
        column("mean loss", "mean_loss", numbers.loss),
        column("accuracy", "accuracy", percent, "mean over clients, validation rows"),
        column("smallest multiplier", "smallest_multiplier", variance, "of any client in any round"),
        Column(name="advice", values=tuple("recommended" if i == frontier.chosen else "" for i in range(len(points)))),
    ]
    return Sheet(name="lambda", caption=f"The path of λ{_over(evidence)}", columns=tuple(columns))


EXPLAINED = {
    "gains": "clients who gain",
    "same": "clients for whom it makes no difference",
    "loses": "clients who lose",
}


def _standing(name: str, kind: str, methods: Sequence[Method]) -> Column:
    values = tuple(len(method.standing(kind)) for method in methods)
    return Column(name=name, values=values, show=count, explained=EXPLAINED[kind])


def _rows(evidence: Evidence) -> list[Column]:
    if not evidence.columns_known("rows"):
        return []
    values = tuple(client.rows or None for client in evidence.methods[0].clients)
    return [Column(name="rows", values=values, show=count, explained="of training data")]


def _over(evidence: Evidence) -> str:
    return f", means over {len(evidence.seeds)} seeds" if len(evidence.seeds) > 1 else ""
