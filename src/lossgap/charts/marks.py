"""Elements of a picture as SVG text, and how wide words are."""

from collections.abc import Sequence
from html import escape
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

NARROW, WIDE = set("iljtfrI.,:;'|!()[] "), set("mwMW@%—")
SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",  # circle
    "M-4 -4h8v8h-8z",  # square
    "M0 -5.2L5 4h-10z",  # triangle
    "M0 -5.8L5.8 0L0 5.8L-5.8 0z",  # diamond
    "M0 5.2L5 -4h-10z",  # triangle on its tip
    "M-5 -1.7h3.3v-3.3h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3z",  # plus
)


def number(value: float) -> str:
    """A coordinate."""
    return f"{round(value, 1) + 0:.1f}".removesuffix(".0")  # + 0: no minus zero


def shown(value: float) -> str:
    """A value as a person reads it: three digits, a true minus sign."""
    if value != value:
        return "–"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return text.replace("-", "−")


def text_width(words: str, size: float = 12) -> float:
    """An upper estimate: fonts differ between readers, and too much room harms less than too little."""
    units = (0.36 if c in NARROW else 0.92 if c in WIDE else 0.7 if c.isupper() else 0.6 for c in words)
    return size * sum(units)


def shortened(words: str, room: float, size: float = 12) -> str:
    """The words, or as many letters of them as fit."""
    if text_width(words, size) <= room:
        return words
    kept = words
    while kept and text_width(kept + "…", size) > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def wrapped(words: str, room: float, size: float = 12) -> list[str]:
    """Lines that fit."""
    lines: list[str] = []
    for word in words.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [shortened(line, room, size) for line in lines]


def text(x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start", *, says: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    title = f"<title>{escape(says)}</title>" if says else ""
    return f'<text x="{number(x)}" y="{number(y)}"{attributes}>{title}{escape(words)}</text>'


def path(points: Sequence[Point], kind: str, says: str = "") -> str:
    return _with_title(f'<path class="{kind}" d="{outline(points)}"', says, "path")


def outline(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) if points else "M0 0"


def area(upper: Sequence[Point], lower: Sequence[Point], kind: str) -> str:
    return f'<path class="{kind}" d="{outline([*upper, *reversed(lower)])}z"/>'


def dust(points: Sequence[Point], kind: str) -> str:
    """Many dots as one element: small files, no answer to a pointer."""
    placed = "".join(f"M{number(x)} {number(y)}h.01" for x, y in points)
    return f'<path class="dust {kind}" d="{placed}"/>' if points else ""


def segments(ends: Sequence[tuple[Point, Point]], kind: str) -> str:
    """Many lines as one element."""
    return f'<path class="{kind}" d="{"".join(map(outline, ends))}"/>' if ends else ""


def segment(start: Point, end: Point, kind: str) -> str:
    return f'<path class="{kind}" d="{outline([start, end])}"/>'


def box(x: float, y: float, width: float, height: float, kind: str = "fill", says: str = "", colour: str = "") -> str:
    size = f'x="{number(x)}" y="{number(y)}" width="{number(max(0, width))}" height="{number(height)}"'
    return _with_title(f'<rect class="{kind}" {size}' + (f' style="color:{colour}"' if colour else ""), says, "rect")


def dot(at: Point, kind: str, says: str = "", *, shape: int = 0, scale: float = 1.0) -> str:
    place = f"translate({number(at[0])} {number(at[1])})" + (f" scale({scale:g})" if scale != 1 else "")
    return _with_title(f'<path class="{kind}" d="{SHAPES[shape % len(SHAPES)]}" transform="{place}"', says, "path")


def _with_title(opening: str, says: str, tag: str) -> str:
    return f"{opening}><title>{escape(says)}</title></{tag}>" if says else f"{opening}/>"
