"""The page in a browser: drawn, sortable, in the dark, on a phone, on paper, and without a network."""

import re
from base64 import b64decode
from itertools import pairwise

import pytest

import lossgap as lg
from browser import Browser, found
from made_up import result, results

needs_browser = pytest.mark.skipif(found() is None, reason="no Chromium on this machine: apt-get install chromium")
pytestmark = needs_browser
PAGES = {
    "3 clients": {"clients": 3},
    "10 clients": {"clients": 10, "seeds": (0, 1, 2), "penalties": (0.0, 0.3, 1.0, 3.0, 10.0)},
    "100 clients": {"clients": 100},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, kind in PAGES.items():
        lg.report(results(**kind), folder / f"{name}.html")
    lg.audit(fifty_sites(), folder / "an audit.html")
    return folder


def fifty_sites():
    """Ten methods that somebody else trained."""
    rows = [
        (f"site {k}", f"method {m}", 0.2 + k / 100 + (m - 5) * ((k * 7) % 11 - 5) / 100, 0.2 + k / 100)
        for m in range(10)
        for k in range(50)
    ]
    return dict(zip(("client", "method", "loss", "solo_loss"), zip(*rows, strict=True), strict=True))


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


SEEN = "[...document.querySelectorAll('figure svg[role=img]')].filter(svg => svg.checkVisibility())"
every_page = pytest.mark.parametrize("name", [*PAGES, "an audit"])


@every_page
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_fetched_and_nothing_complains(browser, pages, name, width):
    page = pages / f"{name}.html"
    browser.open(page, width=width)
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]
    assert page.stat().st_size < 1_500_000


@every_page
@pytest.mark.parametrize("width", [1200, 390])
def test_every_chart_is_drawn_inside_of_the_page(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width=width)
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    charts = browser.run(
        SEEN
        + """.map(svg => {
            const box = svg.getBoundingClientRect(), marks = svg.querySelectorAll('path').length;
            return [svg.getAttribute('aria-label'), marks, box.width, box.height, box.right];
        })"""
    )
    assert len(charts) >= 2 + (name != "an audit")
    for title, marks, wide, high, right in charts:
        assert title
        assert marks >= 3, title
        assert wide >= 300, title
        assert high >= 100, title
        assert right <= width, title


@every_page
@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_page_never_scrolls_sideways(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width=width)
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width


@every_page
def test_words_on_a_phone_are_large_enough_to_read(browser, pages, name):
    browser.open(pages / f"{name}.html", width=390)
    sizes = browser.run(
        SEEN
        + """.map(svg =>
            11 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"""
    )
    assert min(sizes) >= 10


def test_words_in_charts_do_not_cover_each_other(browser, pages):
    """With the fonts of this machine; `test_charts.py` estimates it for any."""
    for name in PAGES:
        for width in (1200, 390):
            browser.open(pages / f"{name}.html", width=width)
            browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
            covered = browser.run(
                SEEN
                + """.flatMap(svg => {
                    const texts = [...svg.querySelectorAll('text')].filter(each => each.textContent);
                    const boxes = texts.map(each => [each.textContent, each.getBoundingClientRect()]);
                    return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
                        a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4
                    ).map(([other]) => [one, other]));
                })"""
            )
            assert covered == [], (name, width)


def column(browser, table, number):
    rows = f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows]"
    return browser.run(f"{rows}.map(row => row.cells[{number}].textContent)")


def test_tables_sort_by_keyboard(browser, pages):
    browser.open(pages / "10 clients.html")
    place = browser.run(
        "[...document.querySelectorAll('table')].findIndex(table => table.caption.textContent.startsWith('Clients'))"
    )
    before = column(browser, place, 3)
    button = f"[...document.querySelectorAll('table')][{place}].tHead.rows[0].cells[2].querySelector('button')"
    browser.run(f"{button}.focus()")
    browser.press("Tab")  # on to the next column: the first method's gaps
    head = "document.activeElement.closest('th')"
    assert browser.run(f"{head}.textContent") == "FedAvg"
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "none"
    for key, order in (("Enter", "ascending"), (" ", "descending"), ("Enter", "ascending")):
        browser.press(key)
        shown = [float(text.replace("−", "-")) for text in column(browser, place, 3)]
        assert shown == sorted(shown, reverse=order == "descending")
        assert browser.run(f"{head}.getAttribute('aria-sort')") == order
        assert order in browser.run("document.getElementById('status').textContent")
    assert sorted(before) == sorted(column(browser, place, 3))
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_clients_sort_as_people_count_and_what_is_unknown_comes_last(browser, pages, tmp_path):
    names = [f"site {k}" for k in (10, 9, 1, 2)]
    page = tmp_path / "page.html"
    lg.audit({"client": names, "loss": [1, 2, 3, 4], "solo_loss": [1.5, 1.4, 1.3, 1.2], "rows": [5, "", 7, 6]}, page)
    browser.open(page)
    place = browser.run(
        "[...document.querySelectorAll('table')].findIndex(table => table.caption.textContent.startsWith('Clients'))"
    )
    head = f"[...document.querySelectorAll('table')][{place}].tHead.rows[0]"
    browser.run(f"{head}.cells[0].querySelector('button').click()")
    assert column(browser, place, 0) == ["site 1", "site 2", "site 9", "site 10"]
    for _ in range(2):
        browser.run(f"{head}.cells[1].querySelector('button').click()")
        assert column(browser, place, 0)[-1] == "site 9"


def contrast(one, other):
    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_in_the_light_and_in_the_dark(browser, pages, scheme):
    browser.open(pages / "3 clients.html", prefers_color_scheme=scheme)
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 150) == (scheme == "dark")
    for words in ("p", ".says", "a", "th", "td.gain", "td.loss"):
        colour = browser.run(f"getComputedStyle(document.querySelector('{words}')).color")
        assert contrast(colour, paper) >= 3.5, words
    for role in ("", ".faint", ".gain", ".loss"):
        fill = browser.run(f"getComputedStyle(document.querySelector('svg text{role}')).fill")
        assert contrast(fill, paper) >= 3.5, role


def test_paper_is_white_and_shows_everything_once(browser, pages):
    browser.open(pages / "3 clients.html", prefers_color_scheme="dark")
    browser.media("print", prefers_color_scheme="dark")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("getComputedStyle(document.querySelector('.narrow')).display") == "none"
    browser.media("")
    closed = "document.querySelectorAll('details:not([open])').length"
    assert browser.run(closed) > 0
    paper = browser.paper()
    assert paper.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12
    assert browser.run(closed) > 0, "what was folded is folded again"


def test_paper_does_not_grow_with_clients_times_methods(browser, pages):
    browser.open(pages / "100 clients.html")
    assert len(re.findall(rb"/Type\s*/Page\b", browser.paper())) <= 14


@every_page
def test_readers_find_their_way(browser, pages, name):
    browser.open(pages / f"{name}.html")
    assert browser.run("document.documentElement.lang") == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert browser.run(f"document.querySelectorAll('body > {landmark}').length") == 1
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert browser.run("[...document.querySelectorAll('table')].every(each => each.caption?.textContent)")
    assert browser.run(
        "[...document.querySelectorAll('thead th')].every(each => each.ariaSort && each.scope === 'col')"
    )
    described = "each.querySelector('title')?.textContent && each.querySelector('desc')?.textContent"
    assert browser.run(f"[...document.querySelectorAll('svg[role=img]')].every(each => {described})")
    ids = browser.run("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(set(ids)) == len(ids)
    targets = browser.run("[...document.querySelectorAll('nav a')].map(each => each.hash.slice(1))")
    assert set(targets) <= set(ids)


def test_the_first_key_leads_past_the_navigation(browser, pages):
    browser.open(pages / "3 clients.html")
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Skip to the content"
    browser.press("Enter")
    assert browser.run("location.hash") == "#main"


def test_names_from_data_are_words_and_no_program(browser, tmp_path):
    bad = ["<script>document.title='taken'</script>", "\"'&<b>", "</svg><img src=x onerror=document.title='taken'>"]
    page = tmp_path / "page.html"
    lg.report([result(lg.FedAvg(), [0.1, -0.1, 0.2], names=bad)], page, title="<i>title</i>")
    browser.open(page)
    assert browser.complaints == []
    assert browser.run("document.title") == "<i>title</i>"
    assert browser.run("document.querySelectorAll('img, i').length") == 0
    assert browser.run("document.querySelector('main').textContent").count(bad[1]) >= 2


def test_a_table_on_the_page_can_be_taken_elsewhere(browser, pages):
    browser.open(pages / "3 clients.html")
    links = browser.run("[...document.querySelectorAll('a[download]')].map(each => [each.download, each.href])")
    files = {name: b64decode(href.partition(",")[2]).decode() for name, href in links}
    assert files["clients.csv"].splitlines()[0] == "client,rows,loss alone,FedAvg,QFFL(q=1),AFL,Eagle(gap_penalty=1)"
    assert files["methods.tex"].startswith(r"\begin{tabular}")


def test_a_thousand_clients_make_a_page_below_five_megabytes(browser, tmp_path):
    page = tmp_path / "page.html"
    lg.report(results(1000), page)
    assert page.stat().st_size < 5_000_000
    browser.open(page)
    assert browser.complaints == []
