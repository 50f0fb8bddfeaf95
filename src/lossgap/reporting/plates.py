"""Charts with the words around them: for a page, one picture or several small ones; for a paper, a single figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lossgap import charts
from lossgap.charts import Figure
from lossgap.charts.frame import Key

WIDE, NARROW = 880, 340
"""Charts are drawn for a desk and again for a phone: scaled down, their words could not be read."""


@dataclass(frozen=True)
class Picture:
    """A chart for wide screens, and for narrow ones where that must be another."""

    wide: Figure
    narrow: Figure | None = None


@dataclass(frozen=True, kw_only=True)
class Plate:
    """One chart, or small ones side by side that share a legend."""

    name: str  # of its file
    title: str
    says: str  # how to read it
    pictures: tuple[Picture, ...]
    keys: tuple[Key, ...] = ()
    folded: bool = False  # whether the page shows it only on request

    def figure(self, columns: int = 3) -> Figure:
        """All of it as one figure for a paper."""
        if len(self.pictures) == 1:
            return self.pictures[0].wide
        return charts.grid(
            [picture.wide for picture in self.pictures],
            columns=min(columns, len(self.pictures)),
            title=self.title,
            keys=self.keys,
        )


def small(figures: Sequence[Figure]) -> tuple[Picture, ...]:
    """Pictures that are narrow as they are."""
    return tuple(Picture(figure) for figure in figures)
