"""What a store holds, as tables."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from lossgap.comparison import as_text, summary_table
from lossgap.disk import whole_file
from lossgap.errors import require
from lossgap.store.catalogue import SHOWN, Found, federation, setting
from lossgap.table import Table

Row = Mapping[str, Any]


def listing(runs: Sequence[Found]) -> Table:
    """One line per run."""
    columns = ("run", "method", "seed", "model", "rounds", "worst gap", "gap variance", "accuracy", "seconds", "state")
    return Table(columns, tuple(_line(run) for run in runs))


def _line(run: Found) -> tuple[Any, ...]:
    if run.entry is None:
        return run.key[:SHOWN], run.label, *[None] * 7, run.state
    content, about = run.settings, run.entry.about
    summary = about.get("summary", {})
    return (
        run.key[:SHOWN],
        run.label.rpartition("-seed-")[0],
        content["seed"],
        content["model"]["name"],
        content["training"]["rounds"],
        *(summary.get(name) for name in ("max_gap", "gap_variance", "mean_accuracy")),
        about.get("seconds"),
        run.state,
    )


def shown(run: Found) -> str:
    """One run: what it follows from, how it came about, and what each client got."""
    if run.entry is None:
        return f"{run.label} ({run.key})\n{run.state}: {run.problem}"
    content, about = run.settings, run.entry.about
    settings = {
        "run": run.key,
        "method": content["algorithm"],
        "training": content["training"],
        "model": content["model"]["name"],
        "seed": content["seed"],
        "solo losses": content["solo"],
        "federation": f"{federation(run)}, {about.get('federation')}",
        "finished": f"{about.get('finished')} on {about.get('machine')}, {about.get('seconds')} s",
        "versions": f"lossgap {run.entry.lossgap}, JAX {about.get('jax')}",
        "folder": str(run.folder),
    }
    head = "\n".join(
        f"{name}: {each if isinstance(each, str) else json.dumps(each)}" for name, each in settings.items()
    )
    if run.entry.diverged:
        return f"{run.label}\n{head}\n{run.entry.diverged}"
    rows = run.clients()
    columns = ("client", "rows", "solo loss", "shared loss", "gap", "test accuracy", "against alone")
    table = Table(
        columns,
        tuple((c.name, c.rows, c.solo_loss, c.solo_loss + c.gap, c.gap, c.test_accuracy, c.standing) for c in rows),
    )
    return f"{run.label}\n{head}\n\n{table}"


def comparisons(runs: Iterable[Found]) -> list[str]:
    """Methods side by side over seeds: a table for each group of runs that differ in nothing else."""
    whole = sorted((run for run in runs if run.whole), key=setting)
    require(whole, "There are no finished runs to compare.", "`lossgap runs list` shows what there is.")
    return [text for _, group in groupby(whole, key=setting) for text in _compared(list(group))]


def _compared(runs: Sequence[Found]) -> list[str]:
    """One table; where several federations have the same seed, one for each federation."""
    by_run = {(run.label, federation(run)) for run in runs}
    if len({label for label, _ in by_run}) < len(by_run):
        parts = sorted(runs, key=federation)
        return [text for _, part in groupby(parts, key=federation) for text in _compared(list(part))]
    methods: dict[str, list[Found]] = {}
    for run in sorted(runs, key=lambda run: run.settings["seed"]):
        methods.setdefault(run.label.rpartition("-seed-")[0], []).append(run)
    content = runs[0].settings
    head = f"{content['model']['name']}, {content['training']['rounds']} rounds, {len(runs[0].clients())} clients"
    lines = [f"{head}, rows {', '.join(sorted({federation(run) for run in runs}))}"]
    seeds = {label: tuple(run.settings["seed"] for run in each) for label, each in methods.items()}
    summaries = {label: [run.summary() for run in each] for label, each in methods.items()}
    if len(set(seeds.values())) == 1:
        return ["\n".join([*lines, as_text(summaries, next(iter(seeds.values())))])]
    lines.append(str(summary_table(summaries)))
    each = (f"{label}: seeds {', '.join(map(str, own))}" for label, own in seeds.items())
    return ["\n".join([*lines, "Seeds differ, so compare with care.", *each])]


def client_rows(runs: Iterable[Found]) -> list[Row]:
    """Every client of every finished run."""
    return [
        _described(run) | asdict(client) | {"standing": client.standing}
        for run in runs
        if run.whole
        for client in run.clients()
    ]


def summary_rows(runs: Iterable[Found]) -> list[Row]:
    """Every finished run."""
    found = [(_described(run), asdict(run.summary())) for run in runs if run.whole]
    return [described | summary | {"worse_off": ", ".join(summary["worse_off"])} for described, summary in found]


def _described(run: Found) -> dict[str, Any]:
    assert run.entry is not None
    content, about = run.settings, run.entry.about
    return {
        "run": run.key,
        "method": run.label.rpartition("-seed-")[0],
        "seed": content["seed"],
        "federation": content["federation"],
        "model": content["model"]["name"],
        "rounds": content["training"]["rounds"],
        "settings": json.dumps({name: content[name] for name in ("algorithm", "training", "solo")}, sort_keys=True),
        "finished": about.get("finished"),
        "seconds": about.get("seconds"),
        "lossgap": run.entry.lossgap,
    }


def export(rows: Sequence[Row], path: Path) -> None:
    """Write rows as csv or parquet, by the ending of the file."""
    require(path.suffix in (".csv", ".parquet"), f"{path} ends in neither .csv nor .parquet.", "Use one of them.")
    require(rows, "There are no finished runs to export.", "`lossgap runs list` shows what there is.")
    with whole_file(path) as draft:
        if path.suffix == ".csv":
            draft.write_text(Table(tuple(rows[0]), tuple(tuple(row.values()) for row in rows)).csv(), encoding="utf-8")
            return
        import pyarrow  # imported late: only this needs it
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), draft)
