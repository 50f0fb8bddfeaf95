"""A report on runs of lossgap: one page, and its charts and tables as files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import lossgap
from lossgap.comparison import Comparison
from lossgap.disk import whole_file
from lossgap.errors import require
from lossgap.reporting import figures, html
from lossgap.reporting.page import Section, page
from lossgap.reporting.penalties import Path as PenaltyPath
from lossgap.reporting.penalties import advice, frontier_plates, path_of
from lossgap.reporting.plain import Evidence, of_results
from lossgap.reporting.plates import Plate
from lossgap.reporting.saved import read_runs
from lossgap.reporting.settings import settings_section
from lossgap.reporting.sheets import Sheet, clients_sheet, details_sheet, methods_sheet, path_sheet
from lossgap.reporting.trajectories import trajectories
from lossgap.reporting.trust import Doubt, trust_section
from lossgap.reporting.verdicts import verdict_section
from lossgap.reporting.words import counted, takeaways
from lossgap.result import Result
from lossgap.tuning import Frontier, Rule, lowest_worst_gap

Runs = Result | Comparison | Frontier | str | Path | Iterable["Runs"]
"""Results, what `compare` or `frontier` gave, folders of saved results, or several of these."""

SOLO_ERROR = 0.05

MOST_ROWS = 2500
"""Of a table on the page."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page, with the charts and tables in it."""

    title: str
    about: str
    evidence: Evidence
    sections: tuple[Section, ...]
    plates: tuple[Plate, ...]
    sheets: tuple[Sheet, ...]

    def html(self) -> str:
        """The page as text: one file that needs no other."""
        written = datetime.now(UTC).date().isoformat()
        return page(self.title, self.about, self.sections, f"Written by lossgap {lossgap.__version__} on {written}.")

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        path = Path(path)
        require(
            path.suffix in (".html", ".htm"), f"report: {path.name!r} is no name of a page.", "End the name in .html."
        )
        with whole_file(path) as draft:
            draft.write_text(self.html(), encoding="utf-8")
        return path

    def save_charts(self, folder: str | Path, kind: Literal["svg", "png"] = "svg") -> list[Path]:
        """Write every chart as a file of its own, for papers and slides; returns their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return [each.figure().save(folder / f"{each.name}.{kind}", dark=False) for each in self.plates]

    def save_tables(self, folder: str | Path) -> list[Path]:
        """Write every table as .csv, with values in full, and as .tex and .md; returns their paths."""
        folder, written = Path(folder), []
        folder.mkdir(parents=True, exist_ok=True)
        for sheet in self.sheets:
            forms = {".csv": sheet.values().csv(), ".tex": sheet.shown().latex(), ".md": sheet.shown().markdown()}
            for ending, text in forms.items():
                written.append(folder / f"{sheet.name}{ending}")
                written[-1].write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        return written

    def __str__(self) -> str:
        return "\n".join([str(self.sheets[0].shown()), "", *takeaways(self.evidence)])


def report(runs: Runs, path: str | Path | None = None, *, title: str = "", rule: Rule = lowest_worst_gap) -> Report:
    """One self-contained HTML page on several runs: who gains, who loses, and how even the gains are.

    Args:
        runs: results, a `Comparison`, a `Frontier`, folders that hold saved results, or a list of these. They must be
            about the same clients; runs of one method that differ in their seeds are shown as means with each seed.
        path: where to write the page; None writes none.
        title: of the page; by default it says how many clients and methods.
        rule: how to recommend a λ, where several λ of EAGLE are among the runs, as in `lossgap.frontier`.
    """
    results, notes = _gathered(runs)
    evidence = of_results(results, notes=notes)
    path_of_penalties = path_of(evidence, rule)
    made = _made(evidence, path_of_penalties, title)
    if path is not None:
        made.save(path)
    return made


def _made(evidence: Evidence, penalties: PenaltyPath | None, title: str) -> Report:
    along = frontier_plates(penalties) if penalties else []
    path_table = [path_sheet(penalties.frontier, evidence)] if penalties else []
    courses = trajectories(evidence)
    return composed(
        evidence,
        title=title or "Who gains and who loses by sharing a model",
        about=_about(evidence),
        doubt=Doubt.of(evidence, SOLO_ERROR),
        before=[_penalty_section(penalties, along, path_table[0])] if penalties else [],
        after=[_course_section(courses, evidence)] if courses else [],
        last=settings_section(evidence),
        more=(tuple(along + courses), tuple(path_table)),
    )


def composed(
    evidence: Evidence,
    *,
    title: str,
    about: str,
    doubt: Doubt,
    last: Section,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
    more: tuple[tuple[Plate, ...], tuple[Sheet, ...]] = ((), ()),
) -> Report:
    """What every page holds, with sections before and after the one that says how sure it is.

    Args:
        more: charts and tables of those sections.
    """
    plates = (figures.losses(evidence), figures.gaps(evidence))
    sheets = (methods_sheet(evidence), clients_sheet(evidence), details_sheet(evidence))
    trust, trust_table = trust_section(doubt)
    sections = [
        verdict_section(evidence),
        Section("losses", "Alone and together", html.plate(plates[0])),
        Section("gaps", "How even the gains are", html.plate(plates[1])),
        *before,
        trust,
        *after,
        _tables_section(sheets),
        last,
    ]
    return Report(
        title=title,
        about=about,
        evidence=evidence,
        sections=tuple(sections),
        plates=plates + more[0],
        sheets=(*sheets, trust_table, *more[1]),
    )


def _tables_section(sheets: Sequence[Sheet]) -> Section:
    shown = [sheet for sheet in sheets if len(sheet.columns[0].values) <= MOST_ROWS]
    left = [
        html.paragraph(f"{sheet.caption}: {len(sheet.columns[0].values):,} rows, left out to keep the page small. "
        "The option --tables writes them.")
        for sheet in sheets
        if sheet not in shown
    ]  # fmt: skip
    return Section("tables", "Tables", "".join([*(html.sheet(each, open_=not each.folded) for each in shown), *left]))


def _penalty_section(penalties: PenaltyPath, plates: Sequence[Plate], sheet: Sheet) -> Section:
    inside = [html.bullets(advice(penalties), "takeaways"), *map(html.plate, plates), html.sheet(sheet)]
    return Section("lambda", "Which λ", "".join(inside))


def _course_section(plates: Sequence[Plate], evidence: Evidence) -> Section:
    seeds = len(evidence.seeds)
    left = len(evidence.methods) - len(plates)
    says = (
        "Each client's loss on its training rows, its gap, and the multiplier that scales its gradients, round by round"
        + (f", means over {seeds} seeds." if seeds > 1 else ".")
        + (f" {counted(left, 'further method')} left out, to keep the page small." if left else "")
    )
    drawn = (html.folded(each.title, html.plate(each, heading=""), open_=not each.folded) for each in plates)
    return Section("course", "During training", html.paragraph(says, "says") + "".join(drawn))


def _about(evidence: Evidence) -> str:
    seeds = evidence.seeds
    parts = [
        counted(len(evidence.names), "client"),
        counted(len(evidence.methods), "method"),
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else "",
        f"gaps on {evidence.measured_on}",
    ]
    return " · ".join(part for part in parts if part)


def _gathered(runs: Runs) -> tuple[list[Result], list[str]]:
    """All results, and remarks on those that could not be had."""
    results: list[Result] = []
    notes: list[str] = []
    for each in _flat(runs):
        if isinstance(each, Result):
            results.append(each)
        else:
            found, said = read_runs(each)
            results += found
            notes += said
    return results, notes


def _flat(runs: Runs) -> Iterator[Result | Path]:
    if isinstance(runs, Result):
        yield runs
    elif isinstance(runs, str | Path):
        yield Path(runs)
    elif isinstance(runs, Comparison):
        yield from (result for results in runs.results.values() for result in results)
    elif isinstance(runs, Frontier):
        yield from (result for results in runs.results for result in results)
    else:
        for each in runs:
            yield from _flat(each)
