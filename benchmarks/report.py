"""The race's results as text, JSON, Markdown and a chart."""

import json
import math
from html import escape
from pathlib import Path
from typing import Any

from workloads import EVENTS

Race = dict[str, Any]
Result = dict[str, Any]

BASELINE = "torch_loop"  # what a user would write without any framework: ratios are against it


def write(race: Race, folder: Path) -> None:
    write_json(race, folder)
    (folder / "race.md").write_text(markdown(race))
    (folder / "race.svg").write_text(chart(race))


def write_json(race: Race, folder: Path) -> None:
    (folder / "race.json").write_text(json.dumps(race, indent=2) + "\n")


def text(race: Race) -> str:
    """Aligned tables for a terminal."""
    tables = [speed_table(race), deviation_table(race), product_table(race)]
    return "\n\n".join(aligned(table) for table in tables if len(table) > 1)


def markdown(race: Race) -> str:
    facts = race["machine"]
    reasons = [f"- {result['contestant']}, {result['workload']}: {outcome(result)}" for result in unfinished(race)]
    parts = [
        "# The benchmark race",
        f"{facts['date']} on {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, "
        f"Python {facts['python']}; load average at the start {facts['load_at_start']}.",
        f"Warm, best of several timings, one contestant at a time. In parentheses: times as fast as `{BASELINE}`.",
        as_markdown(speed_table(race)),
        "![The same as a chart](race.svg)",
        "Largest distance of a parameter from the float64 reference, and the most that counts as equal:",
        as_markdown(deviation_table(race)),
        "Bare matrix products of this machine in the same run, GFLOP/s in float32:",
        as_markdown(product_table(race)),
        "\n".join(reasons),
        "Versions: " + "; ".join(f"{name}: {versions}" for name, versions in all_versions(race).items()) + ".",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def speed_table(race: Race) -> list[list[str]]:
    names = workloads(race)
    header = ["contestant", *[f"{name}, {EVENTS[name].unit}" for name in names]]
    return [header, *[[who, *[speed(race, who, name) for name in names]] for who in contestants(race)]]


def deviation_table(race: Race) -> list[list[str]]:
    names = workloads(race)
    header = ["contestant", *[f"{name} (≤ {EVENTS[name].tolerance:.0e})" for name in names]]
    return [header, *[[who, *[deviation(race, who, name) for name in names]] for who in contestants(race)]]


def product_table(race: Race) -> list[list[str]]:
    measured = {library: rates for library, rates in race["products"].items() if "failed" not in rates}
    shapes = list(dict.fromkeys(shape for rates in measured.values() for shape in rates))
    rows = [[library, *[f"{rates[shape]:.0f}" for shape in shapes]] for library, rates in measured.items()]
    return [["GFLOP/s", *shapes], *rows]


def speed(race: Race, contestant: str, workload: str) -> str:
    result = find(race, contestant, workload)
    if result is None or "shown" not in result:
        return state(result)
    factor = ratio(race, result)
    parts = [number(result["shown"]), f"({short(factor)}×)" if factor else "", "" if result["correct"] else "WRONG"]
    return " ".join(part for part in parts if part)


def deviation(race: Race, contestant: str, workload: str) -> str:
    result = find(race, contestant, workload)
    if result is None or "shown" not in result:
        return state(result)
    return distance(result) + ("" if result["correct"] else " WRONG")


def state(result: Result | None) -> str:
    if result is None:
        return ""
    return "skipped" if "skipped" in result else "failed"


def outcome(result: Result) -> str:
    """One line about one result, for progress and for the list of reasons."""
    for kind in ("failed", "skipped"):
        if kind in result:
            return f"{kind}: {result[kind]}"
    verdict = "agrees with" if result["correct"] else "DIFFERS from"
    return f"{number(result['shown'])} {result['unit']}, {verdict} the reference ({distance(result)})"


def distance(result: Result) -> str:
    return "other parameters" if result["deviation"] is None else f"{result['deviation']:.1e}"


def ratio(race: Race, result: Result) -> float | None:
    """Times as fast as the baseline in the same run."""
    base = find(race, BASELINE, result["workload"])
    if base is None or "seconds_per_round" not in base:
        return None
    return base["seconds_per_round"] / result["seconds_per_round"]


def find(race: Race, contestant: str, workload: str) -> Result | None:
    wanted = (contestant, workload)
    return next((r for r in race["results"] if (r["contestant"], r["workload"]) == wanted), None)


def unfinished(race: Race) -> list[Result]:
    return [result for result in race["results"] if "shown" not in result]


def contestants(race: Race) -> list[str]:
    return list(dict.fromkeys(result["contestant"] for result in race["results"]))


def workloads(race: Race) -> list[str]:
    return list(dict.fromkeys(result["workload"] for result in race["results"]))


def all_versions(race: Race) -> dict[str, str]:
    return {
        result["contestant"]: ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        for result in race["results"]
        if "versions" in result
    }


def number(value: float) -> str:
    """Three significant digits and no exponent."""
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{round(value, 2 - math.floor(math.log10(value))):,.{digits}f}"


def short(factor: float) -> str:
    return number(factor) if factor >= 0.1 else f"{factor:.2g}"


def aligned(table: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in table]
    return "\n".join("  ".join(line) for line in lines)


def as_markdown(table: list[list[str]]) -> str:
    header, *rows = table
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


# The chart: a panel per workload, a bar per contestant, longer is faster.

SCALE = f"times as fast as {BASELINE}, logarithmic"

WIDTH, LEFT, RIGHT = 760, 110, 190  # the whole picture; room for names; room for numbers
BAR, GAP, PANEL_HEAD, PANEL_FOOT = 18, 6, 34, 30

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .faint { fill: #59636e; font-size: 11px }
  .bar { fill: #8c959f } .own { fill: #0969da } .grid { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .faint { fill: #9198a1 }
    .bar { fill: #656c76 } .own { fill: #4493f8 } .grid { stroke: #3d444d }
  }
"""


def chart(race: Race) -> str:
    """A picture that reads on light and dark pages."""
    panels: list[str] = []
    top = 0
    for name in workloads(race):
        results = sorted(timed(race, name), key=lambda result: result["seconds_per_round"])
        if results:
            panels.append(panel(race, name, results, top))
            top += PANEL_HEAD + len(results) * (BAR + GAP) + PANEL_FOOT
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    body = "\n".join(panels)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def timed(race: Race, workload: str) -> list[Result]:
    return [result for result in race["results"] if result["workload"] == workload and "shown" in result]


def panel(race: Race, name: str, results: list[Result], top: int) -> str:
    """One workload on a logarithmic axis of speed, in powers of ten of the baseline's (or of the slowest's)."""
    base = find(race, BASELINE, name) or {}
    base_seconds = base.get("seconds_per_round", results[-1]["seconds_per_round"])
    powers = [math.log10(base_seconds / result["seconds_per_round"]) for result in results]
    low, high = math.floor(min(powers) - 0.05), math.ceil(max(powers) + 0.05)

    def across(power: float) -> float:
        return LEFT + (power - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    first, last = top + PANEL_HEAD, top + PANEL_HEAD + len(results) * (BAR + GAP)
    lines = [label(0, top + 18, f"{EVENTS[name].title}, {EVENTS[name].unit}", "title")]
    lines.append(label(WIDTH - 4, top + 18, SCALE, "faint", anchor="end"))
    for power in range(low, high + 1):
        lines.append(f'<path class="grid" d="M{across(power):.1f} {first - 4}V{last}"/>')
        lines.append(label(across(power), last + 13, f"{10.0**power:g}×", "faint", anchor="middle"))
    for row, (result, power) in enumerate(zip(results, powers, strict=True)):
        lines += bar(result, first + row * (BAR + GAP), across(power), speed(race, result["contestant"], name))
    return "\n".join(lines)


def bar(result: Result, y: int, end: float, value: str) -> list[str]:
    kind = "bar own" if result["contestant"].startswith("lossgap") else "bar"
    return [
        label(LEFT - 8, y + 13, result["contestant"], anchor="end"),
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" rx="2"/>',
        label(end + 6, y + 13, value),
    ]


def label(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
