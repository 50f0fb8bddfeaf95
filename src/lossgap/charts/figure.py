"""A finished picture: SVG for pages and papers, PNG where SVG cannot go."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from lossgap.charts.theme import file_style
from lossgap.errors import SettingError, require

PNG_SCALE = 2
"""Pixels per unit of length: sharp on screens with fine pixels and in print."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Marks on paper, with a title and a description for those who cannot see them."""

    width: float
    height: float
    title: str
    description: str
    body: str  # SVG elements

    def svg(self, *, dark: bool | None = None) -> str:
        """A file of its own. `dark=None` follows the viewer's preference; True or False decides."""
        inside = f'<style>{file_style(dark=dark)}</style>\n<rect class="paper fill" width="100%" height="100%"/>'
        size = f'width="{self.width:g}" height="{self.height:g}"'
        return self._element(f'xmlns="http://www.w3.org/2000/svg" {size}', inside)

    def inline(self) -> str:
        """An element for a page that holds `page_style()`; as wide as its place allows, up to its own width."""
        return self._element(f'style="width:100%;max-width:{self.width:g}px;height:auto"', "")

    def save(self, path: str | Path, *, dark: bool | None = None) -> Path:
        """Write `….svg` or `….png`; a PNG is light unless `dark`."""
        path = Path(path)
        require(path.suffix in (".svg", ".png"), f"save: {path.name!r} is no picture.", "End the name in .svg or .png.")
        if path.suffix == ".svg":
            path.write_text(self.svg(dark=dark), encoding="utf-8")
        else:
            path.write_bytes(_png(self.svg(dark=bool(dark))))
        return path

    def _element(self, attributes: str, inside: str) -> str:
        box = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        title, description = escape(self.title), escape(self.description)
        return (
            f'<svg class="chart" role="img" aria-label="{title}" {box} {attributes}>'
            f"<title>{title}</title><desc>{description}</desc>{inside}\n{self.body}\n</svg>\n"
        )


def _png(svg: str) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise SettingError("Pictures as PNG need resvg. Install it with: pip install 'lossgap[png]'") from None
    drawn: Any = svg_to_bytes(svg_string=svg, zoom=PNG_SCALE)
    return bytes(drawn)
