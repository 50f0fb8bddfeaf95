"""Colours: for people who tell them apart and people who do not, on light and on dark pages.

A mark names its role (`ink`, `s0` for the first series, …), never a colour. A page that embeds charts sets the colours
once with `page_style`; a file of its own carries them, light ones first, so that a viewer without media queries shows
those.
"""

from collections.abc import Mapping

SERIES = 8
"""Colours before they repeat; what repeats differs in dashes or in shape."""

# After Okabe and Ito, with yellow left out: it cannot be seen on white.
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "grid": "#d9dee3", "quiet": "#aab2bb",
    "gain": "#0072b2", "loss": "#d55e00",
    "s0": "#0072b2", "s1": "#d55e00", "s2": "#00835f", "s3": "#b2558a", "s4": "#c98500", "s5": "#3f9bd4",
    "s6": "#59636e", "s7": "#7b4fb5",
}  # fmt: skip
DARK = {
    "paper": "#0f1419", "ink": "#e8edf2", "faint": "#9da7b1", "grid": "#2e363e", "quiet": "#5d6670",
    "gain": "#4aa8e0", "loss": "#f0833a",
    "s0": "#4aa8e0", "s1": "#f0833a", "s2": "#2fbf94", "s3": "#de8fba", "s4": "#e9b33c", "s5": "#8fd0f5",
    "s6": "#a9b2bc", "s7": "#b394e6",
}  # fmt: skip

SEQUENCE = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#e8d21d")
"""Viridis, for parts in an order of their own."""

RULES = """
.chart text { font-family: system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Arial, sans-serif; font-size: 12px }
.chart .title { font-size: 15px; font-weight: 600 }
.chart .head { font-weight: 600 }
.chart .halo { paint-order: stroke; stroke-width: 4px; stroke-linejoin: round }
.chart .small { font-size: 11px }
.chart .line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round }
.chart .thin { fill: none; stroke: currentColor; stroke-width: 1 }
.chart .dash { stroke-dasharray: 5 4 }
.chart .dots { stroke-dasharray: 2 3 }
.chart .dust { fill: none; stroke: currentColor; stroke-width: 4; stroke-linecap: round }
.chart .fill { fill: currentColor }
.chart .band { fill: currentColor; fill-opacity: 0.18 }
.chart .open { stroke: currentColor; stroke-width: 2 }
"""


def page_style() -> str:
    """Rules for a page with charts in it: colours are variables, set for light pages, dark ones and paper."""
    return "\n".join(
        [
            f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}",
            RULES,
            *_roles({name: f"var(--{name})" for name in LIGHT}),
        ]
    )


def file_style(*, dark: bool | None = None) -> str:
    """Rules for a file of its own; `dark=None` follows the viewer."""
    rules = [RULES, *_roles(DARK if dark else LIGHT)]
    if dark is None:
        rules += ["@media (prefers-color-scheme: dark) {", *_roles(DARK), "}"]
    return "\n".join(rules)


def in_order(part: int, parts: int) -> str:
    """The colour of one of many parts in order."""
    place = part / max(1, parts - 1) * (len(SEQUENCE) - 1)
    low = min(int(place), len(SEQUENCE) - 2)
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in SEQUENCE[low : low + 2]]
    mixed = [round(a + (place - low) * (b - a)) for a, b in zip(*ends, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _roles(colours: Mapping[str, str]) -> list[str]:
    roles = [f".chart .{name} {{ color: {colour} }}" for name, colour in colours.items()]
    words = (("text", "ink"), ("text.faint", "faint"), ("text.gain", "gain"), ("text.loss", "loss"))
    fills = [f".chart {name} {{ fill: {colours[role]} }}" for name, role in words]
    paper = [f".chart .open {{ fill: {colours['paper']} }}", f".chart .halo {{ stroke: {colours['paper']} }}"]
    return [*roles, *fills, *paper]
