"""Checked lines as methods with a row per client."""

from collections.abc import Mapping, Sequence

from lossgap.auditing.reading import Line
from lossgap.errors import require, require_data
from lossgap.metrics import INDIFFERENT, ClientRow
from lossgap.reporting.plain import Evidence, Method, Run

PREFERRED = ("test", "validation")
NAN = float("nan")


def evidence_of(lines: Sequence[Line], *, split: str | None, unit: str) -> Evidence:
    """The methods of one split, every one with the same clients in the same order."""
    chosen = _chosen(lines, split)
    kept = [line for line in lines if line.split == chosen]
    by_method: dict[str, dict[str, Line]] = {}
    for line in kept:
        own = by_method.setdefault(line.method, {})
        earlier = own.get(line.client)
        require_data(
            earlier is None,
            f"{line.place}: this client stands twice under {line.method}"
            f"{'' if earlier is None else f', before at {earlier.place}'}.",
            "Give one row per client and method.",
        )
        own[line.client] = line
    _check_clients(by_method)
    names = list(next(iter(by_method.values())))
    differing = _differing(by_method, names)
    rows = f"{chosen} rows" if chosen else "the rows given"
    return Evidence(
        methods=tuple(
            Method(name=name, runs=(Run(clients=tuple(_row(own[client]) for client in names)),))
            for name, own in by_method.items()
        ),
        unit=unit,
        measured_on=rows,
        accuracy_on=rows,
        notes=tuple(filter(None, [_left(lines, chosen), _yardsticks(differing), _tiny(kept)])),
        solo_differs=bool(differing),
    )


def _chosen(lines: Sequence[Line], split: str | None) -> str:
    """The split to look at."""
    there = list(dict.fromkeys(line.split for line in lines))
    if split is not None:
        require(split in there, f"audit: no row has the split {split!r}.", f"There are {', '.join(map(repr, there))}.")
        return split
    if len(there) == 1:
        return there[0]
    found = next((name for name in PREFERRED if name in there), None)
    require(
        found is not None,
        f"audit: there are rows of several splits: {', '.join(map(repr, there))}.",
        "Say which one to look at with split=… (--split).",
    )
    return str(found)


def _check_clients(by_method: Mapping[str, Mapping[str, Line]]) -> None:
    (first, own), *others = by_method.items()
    require_data(
        len(own) > 1,
        f"audit: {first} has one client, {next(iter(own))!r}.",
        "How even gains are shows with two or more clients.",
    )
    for name, clients in others:
        for one, there, other, missing in (
            (first, own, name, [c for c in own if c not in clients]),
            (name, clients, first, [c for c in clients if c not in own]),
        ):
            require_data(
                not missing,
                f"audit: {_few(missing)} under {one}{f' ({there[missing[0]].place})' if missing else ''}, "
                f"but not under {other}.",
                "Give every method the same clients.",
            )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"client{'s' * (len(names) > 1)} {', '.join(map(repr, names[:3]))}{more} stand{'s' * (len(names) == 1)}"


def _differing(by_method: Mapping[str, Mapping[str, Line]], names: Sequence[str]) -> list[str]:
    """Clients whose solo loss is not the same under every method."""
    return [name for name in names if len({own[name].solo_loss for own in by_method.values()}) > 1]


def _row(line: Line) -> ClientRow:
    return ClientRow(
        name=line.client,
        rows=line.rows,
        train_loss=NAN,
        validation_loss=NAN,
        test_loss=NAN,
        train_accuracy=NAN,
        validation_accuracy=NAN,
        test_accuracy=line.accuracy,
        solo_loss=line.solo_loss,
        gap=line.loss - line.solo_loss,
    )


def _left(lines: Sequence[Line], chosen: str) -> str:
    others = list(dict.fromkeys(line.split for line in lines if line.split != chosen))
    left = sum(line.split != chosen for line in lines)
    named = ", ".join(other or "(unnamed)" for other in others)
    return f"This is about the split {chosen!r}; {left} rows of {named} are left out." if left else ""


def _yardsticks(differing: Sequence[str]) -> str:
    if not differing:
        return ""
    whose = f"client {differing[0]!r}" if len(differing) == 1 else f"{len(differing)} clients ({differing[0]!r}, …)"
    return f"Methods are held against different solo losses: those of {whose} differ from method to method."


def _tiny(lines: Sequence[Line]) -> str:
    if any(abs(line.loss - line.solo_loss) > INDIFFERENT for line in lines):
        return ""
    return f"All gaps lie within {INDIFFERENT:g}, which counts as no difference. If it is one, use a smaller unit."
