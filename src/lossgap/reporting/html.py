"""Elements of a page. What comes from data is escaped here, and nowhere else."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from itertools import repeat

from lossgap.charts.frame import Key
from lossgap.reporting.plates import Plate
from lossgap.reporting.sheets import Column, Sheet

MANY = 3
"""So many columns that need a word get a list of them."""


def tag(name: str, *inside: str, **attributes: str | None) -> str:
    """An element around HTML; `class_` is the attribute class, and None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>"


def words(text: str) -> str:
    """Text from data."""
    return escape(text)


def paragraph(text: str, class_: str | None = None) -> str:
    return tag("p", words(text), class_=class_) if text else ""


def bullets(sentences: Sequence[str], class_: str | None = None) -> str:
    return tag("ul", *(tag("li", words(sentence)) for sentence in sentences), class_=class_) if sentences else ""


def folded(summary: str, inside: str, *, open_: bool) -> str:
    return f"<details{' open' if open_ else ''}><summary>{words(summary)}</summary>{inside}</details>"


def plate(each: Plate, *, heading: str = "h3") -> str:
    """A chart, or several side by side, with what they say; a folded one waits behind its title."""
    pictures = "".join(
        tag("div", picture.wide.inline(), class_="wide" if picture.narrow else None)
        + (tag("div", picture.narrow.inline(), class_="narrow") if picture.narrow else "")
        for picture in each.pictures
    )
    many = len(each.pictures) > 1
    inside = [
        paragraph(each.says, "says"),
        _legend(each.keys) if many and each.keys else "",
        tag("div", pictures, class_="panels" if many else "single"),
    ]
    title = each.title if many and heading else ""
    figure = tag("figure", *inside, aria_label=each.title, class_="plate")
    return tag(heading, words(title)) + figure if title else figure


def sheet(each: Sheet, *, open_: bool = True) -> str:
    """A table whose columns sort, and links that take it elsewhere."""
    columns = each.columns
    head = tag("tr", *map(_head, columns))
    rows = zip(
        *(list(zip(repeat(column), column.values, column.cells, strict=False)) for column in columns), strict=True
    )
    body = "".join(tag("tr", *(_cell(*each, first=i == 0) for i, each in enumerate(row))) for row in rows)
    caption = f"{tag('caption', words(each.caption), id=f'caption-{each.name}')}"
    table = tag("table", caption, tag("thead", head), tag("tbody", body), class_="sortable")
    scroll = tag("div", table, class_="scroll", tabindex="0", role="region", aria_labelledby=f"caption-{each.name}")
    inside = scroll + _downloads(each) + _meanings(columns)
    inside = folded(each.caption, inside, open_=False) if each.folded and not open_ else inside
    return inside if each.printed else tag("div", inside, class_="screen")


def definitions(entries: Mapping[str, str]) -> str:
    """Names and what stands behind them; nothing for an empty one."""
    return tag("dl", *(tag("dt", words(name)) + tag("dd", words(value)) for name, value in entries.items() if value))


def code(text: str) -> str:
    return tag("pre", tag("code", words(text)), tabindex="0")


def _head(column: Column) -> str:
    kind = None if column.show is None else "number"
    button = tag("button", words(column.name), type="button", title=column.explained or None)
    return tag("th", button, scope="col", class_=kind, aria_sort="none")


def _cell(column: Column, value: object, shown: str, *, first: bool) -> str:
    if column.show is None:
        return tag("th", words(shown), scope="row") if first else tag("td", words(shown))
    sign = None
    if column.coloured and isinstance(value, float):
        sign = "gain" if shown.startswith("−") else "loss" if shown.startswith("+") else None
    plain = "" if not isinstance(value, int | float) or value != value else f"{value:.9g}"
    return tag("td", words(shown), class_=" ".join(filter(None, ["number", sign])), data_v=plain)


def _meanings(columns: Sequence[Column]) -> str:
    """What the columns mean, where several need it; gaps under each method do not."""
    explained = {column.name: column.explained for column in columns if column.explained and not column.coloured}
    return folded("What the columns mean", definitions(explained), open_=False) if len(explained) >= MANY else ""


def _downloads(each: Sheet) -> str:
    """The table as files, inside of the page."""
    forms = ((".csv", "text/csv", each.values().csv()), (".tex", "text/x-tex", each.shown().latex()))
    links = [
        tag("a", ending[1:], href=f"data:{kind};charset=utf-8;base64,{_packed(text)}", download=f"{each.name}{ending}")
        for ending, kind, text in forms
    ]
    return tag("p", "This table as a file: ", " · ".join(links), class_="downloads")


def _packed(text: str) -> str:
    return b64encode(text.encode()).decode()


def _legend(keys: Sequence[Key]) -> str:
    entries = [
        tag(
            "li",
            f'<svg class="chart" viewBox="-12 -8 24 16" width="24" height="16" aria-hidden="true">{key.sample}</svg>',
            words(key.name),
        )
        for key in keys
    ]
    return tag("ul", *entries, class_="legend")
