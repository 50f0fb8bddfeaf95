"""The page as one file: nothing is fetched, so it opens from disk, from a mail, without a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from lossgap.charts import page_style
from lossgap.reporting.html import tag, words

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself refuses to fetch anything."""


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `html` is what stands below it."""

    id: str
    title: str
    html: str


def page(title: str, about: str, sections: Sequence[Section], foot: str) -> str:
    """All of it. `about` stands below the title, `foot` at the end, both as text."""
    body = [
        tag("a", "Skip to the content", class_="skip", href="#main"),
        tag("header", tag("h1", words(title)), tag("p", words(about), class_="meta")),
        tag("nav", tag("ul", *map(_entry, sections)), aria_label="On this page"),
        tag("main", *map(_section, sections), id="main"),
        tag("footer", tag("p", words(foot))),
        tag("p", class_="unseen", id="status", role="status", aria_live="polite"),
        f"<script>{_resource('page.js')}</script>",
    ]
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        tag("title", words(title)),
        f"<style>{page_style()}\n{_resource('page.css')}</style>",
    ]
    return "\n".join(
        ["<!DOCTYPE html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", *body, "</body>", "</html>", ""]
    )


def _entry(section: Section) -> str:
    return tag("li", tag("a", words(section.title), href=f"#{section.id}"))


def _section(section: Section) -> str:
    heading = tag("h2", words(section.title), id=f"{section.id}-title")
    return tag("section", heading, section.html, id=section.id, aria_labelledby=f"{section.id}-title")


def _resource(name: str) -> str:
    return files("lossgap.reporting").joinpath(name).read_text(encoding="utf-8")
