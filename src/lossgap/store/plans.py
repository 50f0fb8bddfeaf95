"""What to do next: which missing runs are computed together, and by whom.

Runs of one kind are computed in one pass, and results of such a pass equal those of single runs up to rounding only.
So that a run cut off and resumed ends bit for bit as if it had not been, each pass is written down as a plan before it
begins, and whoever comes later finishes that plan rather than making another of what is missing.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lossgap.algorithms import Algorithm
from lossgap.disk import SHORT, read_json, whole_file, write_json
from lossgap.errors import FileError
from lossgap.identity import Identity, joint_key
from lossgap.store.claims import Claim, alone
from lossgap.store.layout import Layout

PLAN = "plan.json"


@dataclass(frozen=True)
class Wanted:
    """A run that somebody asks for."""

    identity: Identity
    algorithm: Algorithm
    seed: int


@dataclass(frozen=True)
class Plan:
    """Runs that one pass computes, and the claims on those that it will put onto the shelf."""

    runs: tuple[Wanted, ...]
    folder: Path
    claims: tuple[Claim, ...]

    @property
    def key(self) -> str:
        return joint_key([run.identity.key for run in self.runs])

    def release(self) -> None:
        for claim in self.claims:
            claim.release()

    def done(self) -> None:
        """Everything is on the shelf: neither plan nor checkpoint is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def next_plan(layout: Layout, groups: Sequence[Sequence[Wanted]]) -> Plan | None:
    """A pass that nobody is at work on, claimed; None if all that is missing is in other hands.

    One process chooses at a time, so that what one of them claims the others see.
    """
    with alone(layout.planning):
        wanted = {run.identity.key: run for group in groups for run in group}
        for runs in _begun(layout, wanted):
            missing = [run for run in runs if not layout.results.holds(run.identity)]
            if not missing:  # others have trained these in other plans meanwhile
                shutil.rmtree(layout.unfinished / joint_key([run.identity.key for run in runs])[:SHORT], True)
            claims = _all_or_none(layout, missing)
            if claims:
                return _written(layout, runs, claims)
        for group in groups:
            missing = [run for run in group if not layout.results.holds(run.identity)]
            claimed = [(run, Claim.attempt(layout.lock(run.identity))) for run in missing]
            free = [(run, claim) for run, claim in claimed if claim is not None]
            if free:
                runs, claims = zip(*free, strict=True)
                return _written(layout, runs, claims)
    return None


def _begun(layout: Layout, wanted: dict[str, Wanted]) -> Iterator[tuple[Wanted, ...]]:
    """Plans on disk all of whose runs are wanted. Other plans wait for somebody who wants them."""
    for path in sorted(layout.unfinished.glob(f"*/{PLAN}")):
        try:
            keys = read_json(path, "")["runs"]
        except (FileError, KeyError, TypeError):
            continue  # a plan that cannot be read was written by nobody who got further than that
        if all(key in wanted for key in keys):
            yield tuple(wanted[key] for key in keys)


def _all_or_none(layout: Layout, runs: Sequence[Wanted]) -> tuple[Claim, ...]:
    claims: list[Claim] = []
    for run in runs:
        claim = Claim.attempt(layout.lock(run.identity))
        if claim is None:
            for earlier in claims:
                earlier.release()
            return ()
        claims.append(claim)
    return tuple(claims)


def _written(layout: Layout, runs: Sequence[Wanted], claims: Sequence[Claim]) -> Plan:
    folder = layout.unfinished / joint_key([run.identity.key for run in runs])[:SHORT]
    plan = Plan(tuple(runs), folder, tuple(claims))
    path = plan.folder / PLAN
    if not path.exists():
        with whole_file(path) as draft:
            content = {"runs": [run.identity.key for run in runs], "labels": [run.identity.label for run in runs]}
            write_json(draft, content)
    return plan
