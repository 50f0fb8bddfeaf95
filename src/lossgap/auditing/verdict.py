"""An audit: the page and the verdict for a model from any framework."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lossgap
from lossgap.auditing.evidence import evidence_of
from lossgap.auditing.reading import read
from lossgap.disk import whole_file
from lossgap.errors import is_positive, require
from lossgap.metrics import INDIFFERENT, ClientRow
from lossgap.reporting.compose import SOLO_ERROR, Report, composed
from lossgap.reporting.html import code, definitions, paragraph
from lossgap.reporting.page import Section
from lossgap.reporting.plain import Evidence, Method
from lossgap.reporting.settings import versions
from lossgap.reporting.trust import Doubt, MethodDoubt, order_sentences
from lossgap.reporting.words import Numbers, counted, takeaways, who

FORMAT = "lossgap audit"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Who gains and who loses, as a page, as plain values and in words."""

    report: Report
    doubt: Doubt
    source: str

    @property
    def verdict(self) -> dict[str, Any]:
        """Plain values, as JSON holds them; what is not known is None."""
        evidence, doubt = self.report.evidence, self.doubt
        return {
            "format": FORMAT,
            "version": VERSION,
            "lossgap": lossgap.__version__,
            "source": self.source,
            "measured_on": evidence.measured_on,
            "clients": len(evidence.names),
            "no_difference_within": INDIFFERENT,
            "solo_error": doubt.error,
            "methods": {
                method.name: _method(method, own) for method, own in zip(evidence.methods, doubt.methods, strict=True)
            },
            "ranking": list(doubt.ranking),
            "ranking_with_solo_error": ("flips" if doubt.open else "stays") if doubt.swaps else None,
            "pairs": [
                {"more_even": swap.even, "less_even": swap.uneven, "swapped_by_error": _known(swap.error)}
                for swap in doubt.swaps
            ],
            "notes": list(evidence.notes),
            "in_words": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """The verdict in plain words."""
        evidence = self.report.evidence
        numbers = Numbers.of(evidence)
        each = [f"{method.name}: {who(method, numbers)}" for method in evidence.methods]
        return [*each, *takeaways(evidence), *order_sentences(self.doubt)]

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        return self.report.save(path)

    def save_verdict(self, path: str | Path) -> Path:
        """Write the verdict as JSON."""
        with whole_file(Path(path)) as draft:
            draft.write_text(json.dumps(self.verdict, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return Path(path)

    def __str__(self) -> str:
        notes = [*self.report.evidence.notes, ""] if self.report.evidence.notes else []
        return "\n".join([*notes, str(self.report.sheets[0].shown()), "", *self.sentences()])


def audit(
    table: Any,
    path: str | Path | None = None,
    *,
    solo_error: float = SOLO_ERROR,
    split: str | None = None,
    unit: str = "",
    title: str = "",
    seed: int = 0,
) -> Audit:
    """Who gains and who loses by a model from any framework, and how sure that is.

    Args:
        table: the path of a csv file, a mapping of columns, or a data frame: a row per client (and method, and split).
            Needed are `client`, `loss` (of the shared model) and `solo_loss` (the best that the client reaches alone,
            on the same rows); also read are `accuracy` (0 to 1), `rows` (of training data), `method` and `split`.
        path: where to write the page; None writes none.
        solo_error: the error in each solo loss, up or down, whose consequences are worked out.
        split: which split to look at; by default the only one, or "test", or "validation".
        unit: of the losses, such as "nats", for axes.
        title: of the page.
        seed: of the bootstrap over clients.
    """
    require(is_positive(solo_error), f"audit: solo_error is {solo_error}.", "Use a number above zero, such as 0.05.")
    evidence = evidence_of(read(table), split=split, unit=unit)
    doubt = Doubt.of(evidence, float(solo_error), seed=seed)
    source = Path(table).name if isinstance(table, str | Path) else "a table"
    page = composed(
        evidence,
        title=title or "Who gains and who loses by the shared model",
        about=f"{counted(len(evidence.names), 'client')} · {counted(len(evidence.methods), 'method')} · from {source}",
        doubt=doubt,
        last=_origin(evidence, doubt, source, seed),
    )
    made = Audit(report=page, doubt=doubt, source=source)
    if path is not None:
        made.save(path)
    return made


def _method(method: Method, doubt: MethodDoubt) -> dict[str, Any]:
    summary = method.summaries[0]
    ordered = sorted(method.clients, key=lambda client: client.gap)
    return {
        "gap_variance": summary.gap_variance,
        "gap_variance_interval": list(doubt.interval),
        "gap_variance_with_solo_error": list(doubt.bounds),
        "gap_range": summary.gap_range,
        "mean_gap": summary.mean_gap,
        "best_client": _client(ordered[0]),
        "worst_client": _client(ordered[-1]),
        "gain": len(method.standing("gains")),
        "no_difference": len(method.standing("same")),
        "lose": len(method.standing("loses")),
        "losing_clients": [client.name for client in method.standing("loses")],
        "undecided_clients": list(doubt.undecided),
        "appeal": summary.appeal,
        "desert_spread": summary.desert_spread,
        "mean_accuracy": _known(summary.mean_accuracy),
        "worst_accuracy": _known(summary.worst_accuracy),
    }


def _client(client: ClientRow) -> dict[str, Any]:
    return {
        "name": client.name,
        "gap": client.gap,
        "loss": client.solo_loss + client.gap,
        "solo_loss": client.solo_loss,
    }


def _known(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if abs(value) < float("inf") else None


def _origin(evidence: Evidence, doubt: Doubt, source: str, seed: int) -> Section:
    entries = {
        "Losses": f"{source}, as given; lossgap trained nothing",
        "Gaps on": evidence.measured_on,
        "Error in solo losses": f"±{doubt.error:g}",
        "Bootstrap": f"seed {seed}",
        "Versions": versions(),
    }
    again = f"lossgap audit {source} --solo-error {doubt.error:g}"
    return Section("settings", "Settings", definitions(entries) + paragraph("To run it again:") + code(again))
