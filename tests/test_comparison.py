"""Tables of methods: every notion of fairness of every method, and methods tuned before they are compared."""

from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lossgap as lg
from lossgap.comparison import NOTIONS, Comparison
from lossgap.metrics import ClientRow, Summary, gini, measured_on
from lossgap.selection import Candidate, grid, tune_methods

SHORT = lg.Training(rounds=30, step_size=0.5)
LINEAR = lg.models.linear()


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    methods = [lg.FedAvg(), lg.Ditto()]
    return lg.compare(lg.datasets.synthetic, LINEAR, methods, SHORT, seeds=(0, 42), progress=False)


# --- what a comparison shows ---


def test_every_notion_of_fairness_is_shown_for_every_method(comparison: Comparison) -> None:
    table = comparison.fairness()
    assert table.columns[1:] == tuple(NOTIONS.values())
    for row, results in zip(table.rows, comparison.results.values(), strict=True):
        expected = [np.mean([getattr(r.summary(), name) for r in results]) for name in NOTIONS]
        np.testing.assert_allclose([float(cell) for cell in row[1:]], expected, atol=6e-5)
    assert str(table) in str(comparison)


def test_any_summary_can_be_a_column(comparison: Comparison) -> None:
    numbers = tuple(f.name for f in fields(Summary) if f.name != "worse_off")
    assert len(comparison.table(numbers).columns) == 1 + len(numbers)
    with pytest.raises(lg.SettingError, match=r"measures holds 'worse_off', 'gap'.*Known are max_gap"):
        comparison.table(("max_gap", "worse_off", "gap"))


def test_notions_of_fairness_by_hand() -> None:
    def row(name: str, solo: float, gap: float, accuracy: float) -> ClientRow:
        same = {f"{s}_{w}": accuracy for s in ("train", "validation", "test") for w in ("loss", "accuracy")}
        return ClientRow(name=name, rows=1, solo_loss=solo, gap=gap, **same)

    # Losses 0.3, 0.5 and 1.0; their ratios to the losses alone 0.75, 1 and 2.
    summary = Summary.of([row("a", 0.4, -0.1, 0.9), row("b", 0.5, 0.0, 0.7), row("c", 0.5, 0.5, 0.5)])
    assert summary.gap_range == pytest.approx(0.6)
    assert summary.gap_variance == pytest.approx(np.var([-0.1, 0, 0.5], ddof=1))
    assert summary.loss_variance == pytest.approx(np.var([0.3, 0.5, 1.0], ddof=1))
    assert summary.worst_loss == pytest.approx(1.0)
    assert summary.desert_spread == pytest.approx(1.25)
    assert summary.appeal == pytest.approx(1 / 3)
    assert summary.accuracy_deviation == pytest.approx(0.2)
    # Differences 0.2, 0.7, 0.5, each counted twice among nine pairs, over twice the mean 0.6.
    assert summary.loss_gini == pytest.approx(2 * 1.4 / 9 / 1.2)
    assert gini(np.array([2.0, 2.0])) == 0


def test_gaps_can_be_read_on_another_split(comparison: Comparison) -> None:
    (result, _) = comparison.results["FedAvg"]
    moved = measured_on("test", result.clients, [0.1, 0.2, 0.3])
    assert [c.gap for c in moved] == pytest.approx(
        [c.test_loss - solo for c, solo in zip(result.clients, (0.1, 0.2, 0.3), strict=True)]
    )
    assert [c.solo_loss for c in moved] == [0.1, 0.2, 0.3]


# --- methods tuned before they are compared ---

TRAININGS = (SHORT, lg.Training(rounds=30, step_size=0.1))


def deserving(power: float, solo: np.ndarray) -> lg.Algorithm:
    return lg.Udj(power=power, desert=tuple(1 / solo))


GRIDS = {
    "FedAvg": tuple(Candidate(algorithm=lg.FedAvg(), training=t, label=f"step {t.step_size:g}") for t in TRAININGS),
    "q-FFL": grid("q", {q: lg.QFFL(q=q) for q in (0.5, 5.0)}, TRAININGS[:1]),
    "UDJ-FL": grid("p", {p: partial(deserving, p) for p in (1.0, 2.0)}, TRAININGS[:1]),
}
tuned = partial(tune_methods, lg.datasets.synthetic, LINEAR, solo_training=SHORT, seeds=(0, 42), progress=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> lg.Store:
    return lg.Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def selection(store: lg.Store) -> lg.Selection:
    return tuned(GRIDS, store)


def test_the_setting_with_the_lowest_worst_gap_on_validation_rows_is_chosen(selection: lg.Selection) -> None:
    for label, candidates in GRIDS.items():
        scores = []
        for candidate in candidates:
            gaps = []
            for seed in (0, 42):
                federation = lg.datasets.synthetic(seed=seed)
                solo = lg.train_solo(federation, LINEAR, SHORT, seed=seed)
                method = candidate.made(solo.losses())
                result = lg.train(federation, LINEAR, method, candidate.training, seed=seed, solo=solo)
                gaps.append(max(c.validation_loss - s for c, s in zip(result.clients, solo.losses(), strict=True)))
            scores.append(np.mean(gaps))
        assert selection.tuned[label].scores == pytest.approx(scores, rel=1e-4)
        assert selection.tuned[label].chosen == candidates[int(np.argmin(scores))]


def test_figures_are_those_of_test_rows(selection: lg.Selection) -> None:
    for seed, summary, alone in zip((0, 42), selection.tuned["FedAvg"].summaries, selection.alone, strict=True):
        federation = lg.datasets.synthetic(seed=seed)
        solo = lg.train_solo(federation, LINEAR, SHORT, seed=seed)
        training = selection.tuned["FedAvg"].chosen.training
        result = lg.train(federation, LINEAR, lg.FedAvg(), training, seed=seed, solo=solo)
        gaps = np.array([c.test_loss for c in result.clients]) - solo.losses("test")
        assert summary.max_gap == pytest.approx(gaps.max(), rel=1e-4)
        assert summary.gap_variance == pytest.approx(gaps.var(ddof=1), rel=1e-4)
        assert alone.mean_loss == pytest.approx(solo.losses("test").mean())
        assert alone.max_gap == 0
    assert [row[0] for row in selection.table().rows] == ["alone", *GRIDS]
    assert "the lowest worst gap on validation rows" in str(selection)


def test_what_the_store_holds_is_not_trained_again(selection: lg.Selection, store: lg.Store, monkeypatch) -> None:
    monkeypatch.setattr("lossgap.store.sweep.run_pass", None)
    again = tuned(GRIDS, store)
    assert again.summaries == selection.summaries


def test_unequal_budgets_are_refused(store: lg.Store) -> None:
    unfair = GRIDS | {"FedAvg": GRIDS["FedAvg"][:1]}
    with pytest.raises(lg.SettingError, match=r"different numbers of rounds: \{'FedAvg': 30, 'q-FFL': 60"):
        tuned(unfair, store)
    with pytest.raises(lg.SettingError, match="no methods"):
        tuned({}, store)


def test_settings_that_diverge_are_not_chosen(tmp_path: Path) -> None:
    grids = {
        "EAGLE": grid("λ", {v: lg.Eagle(gap_penalty=v, normalize=None) for v in (1e6, 0.1)}, [lg.Training(rounds=200)]),
        "mad": grid("λ", {v: lg.Eagle(gap_penalty=v, normalize=None) for v in (1e7, 2e7)}, [lg.Training(rounds=200)]),
    }
    found = tune_methods(
        lg.datasets.synthetic, LINEAR, grids, lg.Store(tmp_path / "runs"), solo_training=SHORT, progress=False
    )
    assert found.tuned["EAGLE"].chosen.label == "λ=0.1, step 0.1"
    assert found.tuned["EAGLE"].scores[0] == np.inf
    assert found.diverged == ("mad",)
    assert "1 of 2" in str(found)
    assert "mad diverged at every setting" in str(found)
