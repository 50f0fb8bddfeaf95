"""Methods at their best: each tuned over a grid of its own with one budget.

Settings are chosen on validation rows and read on test rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lossgap.algorithms import Algorithm
from lossgap.comparison import MEASURES, summary_table
from lossgap.errors import require
from lossgap.experiment import check_seeds
from lossgap.federation import SPLITS, Federation
from lossgap.metrics import ClientRow, Summary, measured_on
from lossgap.models import Model
from lossgap.result import Result
from lossgap.solo import Solo, Stop
from lossgap.store import Store
from lossgap.table import Table
from lossgap.training import Training

Tell = Callable[[str], None]
"""Called with a line about what comes next."""

Rule = Callable[[Summary], float]
"""What validation rows are asked for; the setting with the smallest mean over seeds is chosen."""


def worst_gap(summary: Summary) -> float:
    """the lowest worst gap"""
    return summary.max_gap


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One setting of a method.

    Args:
        algorithm: the method, or a function that makes it from the solo losses L_k* [client] of a seed.
        training: rounds, step size and local work.
        label: what differs from the method's other settings.
    """

    algorithm: Algorithm | Callable[[np.ndarray], Algorithm]
    training: Training
    label: str

    def made(self, solo_losses: np.ndarray) -> Algorithm:
        return self.algorithm if isinstance(self.algorithm, Algorithm) else self.algorithm(solo_losses)


def grid(name: str, settings: Mapping[Any, Any], trainings: Sequence[Training]) -> tuple[Candidate, ...]:
    """Every setting of a method with every training: `grid("q", {q: lossgap.QFFL(q=q) for q in (1, 5)}, trainings)`."""
    return tuple(
        Candidate(algorithm=each, training=training, label=f"{name}={value}, step {training.step:g}")
        for value, each in settings.items()
        for training in trainings
    )


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A method with the setting that validation rows chose."""

    candidates: tuple[Candidate, ...]
    scores: tuple[float, ...]  # of each, on validation rows; infinite if a run diverged
    results: tuple[Result, ...]  # of the chosen one, one per seed
    summaries: tuple[Summary, ...]  # of the same, gaps measured on test rows

    @property
    def best(self) -> int:
        return int(np.argmin(self.scores))

    @property
    def chosen(self) -> Candidate:
        return self.candidates[self.best]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Methods, each at the setting that was best for it on validation rows."""

    seeds: tuple[int, ...]
    rule: str
    tuned: Mapping[str, Tuned]
    diverged: tuple[str, ...]  # methods none of whose settings ended on every seed
    alone: tuple[Summary, ...]  # of the solo models, on test rows

    @property
    def summaries(self) -> dict[str, tuple[Summary, ...]]:
        """By method, and of the solo models: one summary per seed, gaps measured on test rows."""
        return {"alone": self.alone} | {label: each.summaries for label, each in self.tuned.items()}

    def table(self, measures: Sequence[str] = tuple(MEASURES)) -> Table:
        """One row per method, on test rows. Measures are fields of `lossgap.metrics.Summary`."""
        return summary_table(self.summaries, measures)

    def choices(self) -> Table:
        """What was chosen, and what it came to on validation rows."""
        rows = [
            (label, each.chosen.label, min(each.scores), f"{np.isinf(each.scores).sum()} of {len(each.scores)}")
            for label, each in self.tuned.items()
        ]
        return Table(("method", "chosen setting", f"{self.rule} (validation)", "diverged"), tuple(rows))

    def __str__(self) -> str:
        lines = [str(self.table()), "", f"Settings chosen by {self.rule} on validation rows, figures on test rows:"]
        lines += ["", str(self.choices())]
        return "\n".join([*lines, *(f"{label} diverged at every setting." for label in self.diverged)])


def tune_methods(
    make_federation: Callable[..., Federation],
    model: Model,
    grids: Mapping[str, Sequence[Candidate]],
    store: Store,
    *,
    solo_training: Training,
    stop: Stop = "converged",
    rule: Rule = worst_gap,
    seeds: Sequence[int] = (0,),
    lanes: int | None = None,
    tell: Tell = lambda line: None,
    progress: bool | None = None,
) -> Selection:
    """Train every setting of every method on every seed, choose on validation rows, read on test rows.

    Methods are compared fairly only if each had as many tries: all grids must come to the same number of rounds. What
    the store holds is not trained again, so that a run that was cut off goes on where it was.

    Args:
        make_federation: called as `make_federation(seed=seed)`.
        grids: the settings of each method, by the label of its row.
        store: where runs are kept.
        solo_training, stop: how each client trains alone, see `lossgap.train_solo`.
        rule: what is asked of a setting on validation rows, from the summary of one seed; smaller is better.
        seeds: each gives a federation, an initialisation and its batches.
        lanes: see `lossgap.Store.sweep`.
        tell: called with a line per seed about what comes next.
    """
    check_seeds(seeds, "tune_methods")
    _check_budgets(grids)
    solos, found = [], []
    for seed in seeds:
        tell(f"seed {seed}: each client alone, then {sum(map(len, grids.values()))} settings of {len(grids)} methods")
        federation = make_federation(seed=seed)
        solo = store.train_solo(federation, model, solo_training, stop=stop, seed=seed, progress=progress)
        solos.append(solo)
        sweep = _Sweep(federation, model, store, solo, seed, lanes, progress)
        found.append({label: sweep.outcomes(candidates) for label, candidates in grids.items()})
    tuned = {
        label: _tuned(candidates, [of_seed[label] for of_seed in found], solos, rule)
        for label, candidates in grids.items()
    }
    return Selection(
        seeds=tuple(seeds),
        rule=" ".join((rule.__doc__ or rule.__name__).split()),
        tuned={label: each for label, each in tuned.items() if each is not None},
        diverged=tuple(label for label, each in tuned.items() if each is None),
        alone=tuple(map(_alone, solos)),
    )


@dataclass(frozen=True)
class _Sweep:
    """What all runs of one seed have in common."""

    federation: Federation
    model: Model
    store: Store
    solo: Solo
    seed: int
    lanes: int | None
    progress: bool | None

    def outcomes(self, candidates: Sequence[Candidate]) -> list[Result | None]:
        """The result of each setting, or None where it diverged."""
        found: dict[tuple[Algorithm, Training], Result] = {}
        for training in dict.fromkeys(candidate.training for candidate in candidates):
            wanted = dict.fromkeys(self._made(each) for each in candidates if each.training == training)
            results = self.store.sweep(
                self.federation,
                self.model,
                list(wanted),
                training,
                seeds=(self.seed,),
                solo=self.solo,
                lanes=self.lanes,
                skip_diverged=True,
                progress=self.progress,
            )
            found |= {(result.algorithm, training): result for result in results}
        return [found.get((self._made(candidate), candidate.training)) for candidate in candidates]

    def _made(self, candidate: Candidate) -> Algorithm:
        return candidate.made(self.solo.losses(candidate.training.gap_split))


def _check_budgets(grids: Mapping[str, Sequence[Candidate]]) -> None:
    require(grids, "tune_methods: there are no methods.", "Give the settings of at least one.")
    rounds = {label: sum(candidate.training.rounds for candidate in candidates) for label, candidates in grids.items()}
    require(
        len(set(rounds.values())) == 1 and min(rounds.values()) > 0,
        f"tune_methods: the settings of each method come to different numbers of rounds: {rounds}.",
        "Give every method as many settings × rounds, or the one with more tries has an advantage.",
    )


def _tuned(
    candidates: Sequence[Candidate],
    found: Sequence[Sequence[Result | None]],  # [seed][candidate]
    solos: Sequence[Solo],
    rule: Rule,
) -> Tuned | None:
    by_candidate = [
        [result for result in results if result is not None] for results in zip(*found, strict=True)
    ]  # [candidate][seed]
    whole = [len(results) == len(solos) for results in by_candidate]
    if not any(whole):
        return None
    scores = [
        float(np.mean([rule(_summary(*pair, "validation")) for pair in zip(results, solos, strict=True)]))
        if ended
        else np.inf
        for results, ended in zip(by_candidate, whole, strict=True)
    ]
    results = by_candidate[int(np.argmin(scores))]
    return Tuned(
        candidates=tuple(candidates),
        scores=tuple(scores),
        results=tuple(results),
        summaries=tuple(_summary(*pair, "test") for pair in zip(results, solos, strict=True)),
    )


def _summary(result: Result, solo: Solo, split: Any) -> Summary:
    return Summary.of(measured_on(split, result.clients, solo.losses(split)))


def _alone(solo: Solo) -> Summary:
    """The solo models seen as one method, on test rows."""
    names = [f"{split}_{what}" for split in SPLITS for what in ("loss", "accuracy")]
    rows = [
        ClientRow(
            name=client.name,
            rows=0,  # which a summary does not look at
            solo_loss=client.test_loss,
            gap=0.0,
            **{name: getattr(client, name) for name in names},
        )
        for client in solo.clients
    ]
    return Summary.of(rows)
