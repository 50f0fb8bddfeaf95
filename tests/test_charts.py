"""Pictures: well formed, nothing outside the paper, no two labels on top of each other, readable by machines."""

import itertools
import math
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from lossgap import SettingError, charts
from lossgap.charts import marks
from lossgap.charts.scale import Scale

METHODS = ["FedAvg", "QFFL(q=5)", "AFL", "Eagle(gap_penalty=2)"]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(kind: str, clients: int = 10, width: float = 720) -> charts.Figure:
    """A chart of every kind, with as many clients as asked."""
    names = [f"hospital {k}" for k in range(clients)]
    rounds = range(1, 500)
    curves = {m: (rounds, [(i + 1) * math.exp(-t / 99) for t in rounds]) for i, m in enumerate(METHODS)}
    gaps = {m: [math.sin(i + 7 * k) for k in range(clients)] for i, m in enumerate(METHODS)}
    gap = "gap (nats)"
    if kind == "lines":
        marked = {"now": 250, "levelling down begins": 480}
        return charts.lines(
            curves, x="round", y=gap, title="Curves", log="y", markers=marked, levels={"target": 0.1}, width=width
        )
    if kind == "scatter":
        marked = {"recommended": (0.7, 0.2), "levelling down begins": (0.8, 0.21)}
        return charts.scatter(
            {"path": ([0.7, 0.8, 0.9], [0.2, 0.21, 0.4]), "FedAvg": ([0.9], [0.5])},
            x="accuracy", y=gap, title="Frontier", joined=["path"], marked=marked, width=width,
        )  # fmt: skip
    if kind == "boxes":
        return charts.boxes(gaps, x=gap, title="Gaps", names=names, width=width)
    if kind == "dumbbells":
        return charts.dumbbells({n: (1 + k / 9, 1 + k / 8 - 0.1) for k, n in enumerate(names)}, x=gap, width=width)
    if kind == "grouped dumbbells":
        rows = {n: {m: (1 + k, 1 + k + gaps[m][k]) for m in METHODS} for k, n in enumerate(names)}
        return charts.dumbbells(rows, x=gap, title="Changes", width=width)
    if kind == "drops":
        return charts.drops(
            {n: (1 + k / 9, 1 + k / 8 - 0.1) for k, n in enumerate(names)}, x="clients", y=gap, width=width
        )
    if kind == "boxes with sides":
        return charts.boxes(gaps, x=gap, title="Gaps", sides=("gains by joining", "loses"), width=width)
    if kind == "ticks":
        ticks = [(k, f"λ {k}") for k in range(clients)]
        curve = {"a": (range(clients), range(clients))}
        return charts.lines(curve, x="λ", y=gap, ticks=ticks, dotted=["a"], width=width)
    if kind == "bars":
        return charts.bars({n: k - 2.5 for k, n in enumerate(names)}, x=gap, title="Bars", width=width)
    parts = [f"digit {d}" for d in range(10)]
    rows = {n: [(k * d) % 7 for d in range(10)] for k, n in enumerate(names)}
    return charts.stacked_bars(rows, parts=parts, x="rows", title="Labels", width=width)


KINDS = [
    "lines",
    "ticks",
    "scatter",
    "boxes",
    "boxes with sides",
    "drops",
    "dumbbells",
    "grouped dumbbells",
    "bars",
    "stacked bars",
]
everywhere = pytest.mark.parametrize(
    ("kind", "clients", "width"), list(itertools.product(KINDS, (1, 3, 10, 100), (340, 720)))
)


def words(figure: charts.Figure) -> list[tuple[str, float, float, float, float]]:
    """Every text with the box it is estimated to fill, a little smaller than the estimate."""
    found = []
    for element in ElementTree.fromstring(figure.svg()).iter(f"{SVG}text"):
        label, kind = "".join(element.itertext()), element.get("class", "")
        if element.find(f"{SVG}title") is not None:  # shortened: what is shown comes after its title
            label = element.find(f"{SVG}title").tail
        size = 15 if "title" in kind else 11 if "small" in kind else 12
        x, y, width = float(element.get("x")), float(element.get("y")), 0.85 * marks.text_width(label, size)
        left = {"end": x - width, "middle": x - width / 2}.get(element.get("text-anchor"), x)
        found.append((label, left, y - 0.7 * size, left + width, y))
    return found


@everywhere
def test_no_words_leave_the_paper(kind, clients, width):
    figure = drawn(kind, clients, width)
    assert words(figure)
    for label, left, top, right, bottom in words(figure):
        assert left >= -1, label
        assert top >= -1, label
        assert right <= figure.width + 1, label
        assert bottom <= figure.height + 1, label


@everywhere
def test_no_words_cover_others(kind, clients, width):
    for one, other in itertools.combinations(words(drawn(kind, clients, width)), 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        assert apart, (one[0], other[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_who_cannot_see_gets_title_and_values(kind):
    root = ElementTree.fromstring(drawn(kind).svg())
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.find(f"{SVG}title").text
    assert re.search(r"\d", root.find(f"{SVG}desc").text)


def test_the_same_data_give_the_same_picture():
    assert drawn("boxes").svg() == drawn("boxes").svg()


def test_a_picture_follows_the_viewer_or_is_told():
    figure = drawn("bars")
    assert "prefers-color-scheme" in figure.svg()
    assert "prefers-color-scheme" not in figure.svg(dark=True)
    assert figure.svg(dark=True) != figure.svg(dark=False)
    assert "<style>" not in figure.inline()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_curves_break_where_a_value_is_missing(bad):
    figure = charts.lines({"a": ([0, 1, 2, 3, 4], [1, 2, bad, 2, 1])}, x="x", y="y")
    assert figure.body.count('class="line s0"') == 2
    assert "nan" not in figure.body
    assert "inf" not in figure.body


def test_logarithmic_axes_leave_out_what_has_no_logarithm():
    figure = charts.lines({"a": ([1, 2, 3, 4, 5], [0.1, 1, -1, 10, 100])}, x="x", y="y", log="y")
    assert figure.body.count('class="line s0"') == 2


def test_nothing_to_draw_is_said():
    with pytest.raises(SettingError, match="nothing to draw: no y is a finite positive number"):
        charts.lines({"a": ([1, 2], [0, -1])}, x="round", y="loss", log="y")


def test_parts_must_match_their_names():
    with pytest.raises(SettingError, match="'lyon' has 2 amounts for 3 parts"):
        charts.stacked_bars({"lyon": [1, 2]}, parts=["a", "b", "c"], x="rows")


def test_names_cannot_break_the_picture():
    figure = charts.bars({"<b>&\"'": 1.0}, x="a < b", title="<script>")
    assert ElementTree.fromstring(figure.svg()) is not None


def test_long_curves_keep_their_peaks_and_stay_small():
    spike = [0.0] * 50_000
    spike[31_234] = 1.0
    figure = charts.lines({"a": (range(50_000), spike), "b": (range(50_000), spike[::-1])}, x="x", y="y")
    top = charts.lines({"a": ([0, 1], [0, 1]), "b": ([0], [0])}, x="x", y="y").body
    highest = min(float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", re.search(r'"line s0" d="([^"]*)"', top).group(1)))
    assert f" {highest:g}L" in figure.body
    assert len(figure.svg()) < 60_000


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(0, 1, False), (-3e-4, 2e-4, False), (1e5, 9e6, False), (3, 3.001, False), (1e-9, 1e3, True), (2, 3, True)],
)
def test_ticks_are_inside_distinct_and_few(low, high, log):
    ticks = Scale(low, high, 0, 600, log).ticks(6)
    assert 2 <= len(ticks) <= 8
    slack = 1e-9 * (high - low)
    assert all(low - slack <= value <= high + slack for value, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)


def test_files_are_svg_or_png(tmp_path):
    figure = drawn("bars")
    assert figure.save(tmp_path / "a.svg").read_text() == figure.svg()
    assert figure.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SettingError, match=r"\.svg or \.png"):
        figure.save(tmp_path / "a.jpg")


def test_a_missing_extra_names_its_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(SettingError, match=r"pip install 'lossgap\[png\]'"):
        drawn("bars").save(tmp_path / "a.png")


def test_a_grid_holds_every_picture():
    figures = [drawn(kind) for kind in KINDS]
    figure = charts.grid(figures, columns=2, title="All")
    assert all(each.body in figure.body for each in figures)
    assert figure.height >= sum(sorted(each.height for each in figures)[::2])


def test_charts_load_nothing_heavy():
    code = (
        "import sys; from lossgap import charts; print([m for m in ('numpy', 'jax', 'resvg_py') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
