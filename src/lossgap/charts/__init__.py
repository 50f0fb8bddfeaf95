"""Charts from plain data, as SVG written by hand: no plotting library, nothing heavy, the same picture every time.

    figure = charts.lines({"FedAvg": (rounds, variances)}, x="round", y="variance of gaps", log="y")
    figure.save("variance.svg")  # or .png, with the extra lossgap[png]

Every chart takes its data by name. Names keep their order, and with it their colours: the first is blue everywhere.
"""

from lossgap.charts.bars import bars, stacked_bars
from lossgap.charts.changes import drops, dumbbells
from lossgap.charts.distributions import boxes
from lossgap.charts.figure import Figure
from lossgap.charts.grids import grid
from lossgap.charts.lines import lines
from lossgap.charts.points import scatter
from lossgap.charts.theme import page_style

__all__ = ["Figure", "bars", "boxes", "drops", "dumbbells", "grid", "lines", "page_style", "scatter", "stacked_bars"]
