"""A piece's tables, figures, claims and settings as files."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import lossgap
from lossgap.charts import Figure
from lossgap.errors import SettingError
from lossgap.paper.claims import Claim
from lossgap.paper.pieces import Parts, Piece, Sheet
from lossgap.paper.run import Outcome
from lossgap.paper.settings import Preset
from lossgap.table import Table
from lossgap.training import Training

PAGE = "README.md"


def write(piece: Piece, parts: Parts, outcomes: Sequence[Outcome], preset: Preset, folder: Path) -> None:
    """A page for people, and every table and figure in files of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for sheet in parts.sheets:
        _write_sheet(sheet, folder)
    drawn = {name: _write_figure(figure, folder / name) for name, figure in parts.figures.items()}
    sections = [
        f"# {piece.title}",
        circumstances(outcomes, preset),
        missing_rows(outcomes),
        *(f"## {sheet.title}\n\n{sheet.table.markdown()}" for sheet in parts.sheets if sheet.on_page),
        *(f"![{parts.figures[name].title}]({name}.{kind})" for name, kind in drawn.items()),
        f"## Claims\n\n{claims_table(parts).markdown()}" if parts.claims else "",
        f"## What the paper leaves open\n\n{choices_table(outcomes).markdown()}"
        if outcomes[0].experiment.choices
        else "",
    ]
    (folder / PAGE).write_text("\n\n".join(section for section in sections if section) + "\n", encoding="utf-8")


def as_text(piece: Piece, parts: Parts, outcomes: Sequence[Outcome], preset: Preset) -> str:
    """What the terminal shows."""
    sheets = [f"{sheet.title}\n{sheet.table}" for sheet in parts.sheets if sheet.on_page]
    claims = "\n".join(map(str, parts.claims))
    notes = [missing_rows(outcomes), circumstances(outcomes, preset)]
    return "\n\n".join(part for part in [piece.title, *sheets, claims, *notes] if part)


def claims_table(parts: Parts) -> Table:
    """Every claim, against our numbers and, for tables, against the paper's own."""
    published = {claim.words: claim for claim in parts.published_claims}
    rows = [
        (claim.words, _verdict(claim), claim.figures, *([_verdict(published[claim.words])] if published else []))
        for claim in parts.claims
    ]
    return Table(("claim", "here", "figures", *(["the paper's numbers"] if published else [])), tuple(rows))


def choices_table(outcomes: Sequence[Outcome]) -> Table:
    rows = [(choice.what, choice.paper, choice.ours) for choice in outcomes[0].experiment.choices]
    return Table(("setting", "the paper", "here"), tuple(rows))


def circumstances(outcomes: Sequence[Outcome], preset: Preset) -> str:
    """Which preset, how long, on what, with which versions."""
    protocol = dict.fromkeys(
        f"{training.rounds:,} rounds of {_work(training)}, seeds {', '.join(map(str, e.seeds))}"
        for e in (outcome.experiment for outcome in outcomes)
        for training in [e.training]
    )
    seconds = sum(outcome.seconds for outcome in outcomes)
    return (
        f'Preset "{preset}": {"; ".join(protocol)}. Wall time of training {duration(seconds)} on {machine()}, with '
        f"lossgap {lossgap.__version__}, JAX {version('jax')} and Python {platform.python_version()}."
    )


def missing_rows(outcomes: Sequence[Outcome]) -> str:
    """Which methods have no row, and why."""
    diverged = dict.fromkeys(label for outcome in outcomes for label in outcome.diverged)
    return f"Diverged on some seed, and therefore without a row: {', '.join(diverged)}." if diverged else ""


def machine() -> str:
    return f"{os.cpu_count()} cores ({platform.system()}, {platform.machine()})"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _work(training: Training) -> str:
    """What a client does in a round."""
    batches = "full batches" if training.batch_size is None else f"batches of {training.batch_size}"
    epochs = training.local_epochs
    return batches if epochs is None else f"{epochs} local epoch{'' if epochs == 1 else 's'} in {batches}"


def _verdict(claim: Claim) -> str:
    return "holds" if claim.holds else "**fails**"


def _write_sheet(sheet: Sheet, folder: Path) -> None:
    forms: Mapping[str, str] = {".csv": (sheet.values or sheet.table).csv()}
    if sheet.on_page:
        forms = {
            **forms,
            ".txt": f"{sheet.table}\n",
            ".md": f"{sheet.table.markdown()}\n",
            ".tex": f"{sheet.table.latex()}\n",
        }
    for ending, text in forms.items():
        (folder / f"{sheet.name}{ending}").write_text(text, encoding="utf-8")


def _write_figure(figure: Figure, path: Path) -> str:
    """SVG always; PNG where its extra is installed. Which of them a page should show."""
    figure.save(path.with_suffix(".svg"))
    try:
        figure.save(path.with_suffix(".png"))
    except SettingError:  # without the extra `png`
        return "svg"
    return "png"
