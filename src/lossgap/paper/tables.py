"""Our tables beside the published ones."""

from collections.abc import Mapping

from lossgap.paper.measures import MEASURES, Measure, Spread, Spreads, best
from lossgap.paper.published import PublishedTable
from lossgap.paper.statistics import Summaries, values
from lossgap.table import Cell, Table


def spreads_of(summaries: Summaries) -> Spreads:
    """Mean and standard deviation over seeds of each measure."""
    return {label: {m.name: Spread.of(values(summaries, label, m)) for m in MEASURES} for label in summaries}


def beside_published(ours: Spreads, published: PublishedTable) -> Table:
    """Each measure twice, ours and the paper's, with the best of each column in bold (the paper's as printed)."""
    labels = [*ours, *(label for label in published.spreads if label not in ours)]
    rows = [
        (label, *(_written(table.get(label), measure) for measure in MEASURES for table in (ours, published.spreads)))
        for label in labels
    ]
    bold = {
        (labels.index(label), 1 + 2 * j + side)
        for j, measure in enumerate(MEASURES)
        for side, winners in enumerate((best(ours, measure), published.bold[measure.name]))
        for label in winners
    }
    heads = (head for measure in MEASURES for head in (measure.heading, f"{measure.heading}, paper"))
    return Table(("method", *heads), tuple(rows), frozenset(bold))


def numbers(ours: Spreads, published: PublishedTable) -> Table:
    """The same as numbers, a line per method and measure: for spreadsheets and programs."""
    rows = [
        (label, measure.heading, *_pair(ours.get(label), measure), *_pair(published.spreads.get(label), measure))
        for label in {**ours, **published.spreads}
        for measure in MEASURES
    ]
    return Table(("method", "measure", "mean", "deviation", "paper's mean", "paper's deviation"), tuple(rows))


def _written(row: Mapping[str, Spread] | None, measure: Measure) -> str | None:
    return None if row is None else str(row[measure.name])


def _pair(row: Mapping[str, Spread] | None, measure: Measure) -> tuple[Cell, Cell]:
    return (None, None) if row is None else (row[measure.name].mean, row[measure.name].deviation)
