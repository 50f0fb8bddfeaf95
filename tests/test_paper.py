"""The paper's tables, claims and figures: published numbers agree with themselves, and ours are judged like them."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap.cli import main
from lossgap.paper import claims, pages, pieces, published, settings
from lossgap.paper.measures import ACCURACY, MEASURES, VARIANCE, WORST_GAP, Spread, best
from lossgap.paper.run import run
from lossgap.paper.statistics import differences_table, paired, seeds_table
from lossgap.paper.tables import beside_published, numbers, spreads_of
from lossgap.store import Store

EMNIST_ROWS = [
    "AFL",
    "FedAvg",
    *(f"q-FFL q={q}" for q in (1, 3, 5)),
    *(f"EAGLE λ={penalty}" for penalty in ("0.1", "1", "2", "3", "5")),
]


def table(**changes):
    """A made-up table on which every claim holds: changes are (worst gap, best gap, accuracy, variance) by label."""
    rows = {
        "FedAvg": (0.30, -0.5, 0.70, 0.040),
        "AFL": (0.28, -0.4, 0.69, 0.038),
        "EAGLE λ=0.1": (0.25, -0.4, 0.70, 0.030),
        "EAGLE λ=1": (0.20, -0.3, 0.695, 0.020),
        "EAGLE λ=10": (0.35, -0.1, 0.60, 0.010),
    } | changes
    names = [measure.name for measure in MEASURES]
    return {label: {n: Spread(v) for n, v in zip(names, row, strict=True)} for label, row in rows.items()}


class TestPublishedNumbers:
    def test_every_table_of_the_paper_is_there(self):
        linear_and_cnn = [f"{model}-{alpha}" for model in ("linear", "cnn") for alpha in ("0.1", "0.5", "1", "2000")]
        assert list(published.TABLES) == [*linear_and_cnn, "dirty-mnist"]

    @pytest.mark.parametrize("name", [name for name in published.TABLES if name != "dirty-mnist"])
    def test_emnist_tables_have_ten_rows(self, name):
        assert list(published.TABLES[name].spreads) == EMNIST_ROWS

    def test_dirty_mnist_has_more_penalties(self):
        penalties = [claims.penalty_of(label) for label in published.TABLES["dirty-mnist"].spreads]
        assert [p for p in penalties if p] == [0.1, 0.3, 0.5, 0.7, 1, 3, 5]

    @pytest.mark.parametrize("name", published.TABLES)
    def test_cells_are_what_their_columns_say(self, name):
        for row in published.TABLES[name].spreads.values():
            assert row["min_gap"].mean < row["max_gap"].mean
            assert 0 < row["mean_accuracy"].mean < 1
            assert row["gap_variance"].mean > 0
            # Between two numbers whose distance is the range, the variance of K numbers is at most range²/2 (K = 2).
            assert row["gap_variance"].mean <= (row["max_gap"].mean - row["min_gap"].mean) ** 2 / 2
            assert all(cell.deviation >= 0 for cell in row.values())

    @pytest.mark.parametrize(
        ("name", "label", "row"),
        [
            ("linear-0.1", "EAGLE λ=1", ("0.073 ± 0.123", "-0.381 ± 0.199", "0.687 ± 0.003", "0.020 ± 0.013")),
            ("linear-2000", "FedAvg", ("-2.076 ± 0.126", "-2.570 ± 0.087", "0.693 ± 0.002", "0.017 ± 0.010")),
            ("cnn-0.1", "FedAvg", ("0.294 ± 0.196", "-0.512 ± 0.131", "0.844 ± 0.005", "0.047 ± 0.020")),
            ("cnn-0.5", "EAGLE λ=5", ("-0.424 ± 0.071", "-0.938 ± 0.223", "0.805 ± 0.011", "0.024 ± 0.022")),
            ("cnn-1", "AFL", ("-0.726 ± 0.078", "-1.367 ± 0.082", "0.845 ± 0.003", "0.038 ± 0.012")),
            ("cnn-2000", "q-FFL q=5", ("-1.193 ± 0.040", "-1.618 ± 0.054", "0.846 ± 0.003", "0.014 ± 0.002")),
            ("dirty-mnist", "EAGLE λ=0.3", ("-0.099 ± 0.013", "-0.896 ± 0.038", "0.897 ± 0.002", "0.086 ± 0.003")),
        ],
    )
    def test_rows_read_as_they_are_printed(self, name, label, row):
        assert tuple(map(str, published.TABLES[name].spreads[label].values())) == row

    def test_bold_is_best_but_for_the_known_slip(self):
        slips = {
            (name, measure.name)
            for name, each in published.TABLES.items()
            for measure in MEASURES
            if not set(each.bold[measure.name]) <= best(each.spreads, measure)
        }
        assert slips == set(published.SLIPS)


class TestClaims:
    @pytest.mark.parametrize("claim", claims.UNEVEN)
    def test_all_hold_on_a_table_made_for_it(self, claim):
        assert claim(table()).holds

    def test_a_worst_gap_that_another_method_beats(self):
        claim = claims.smallest_worst_gap(table(AFL=(0.19, -0.4, 0.69, 0.038)))
        assert not claim.holds
        assert str(claim).startswith("FAILS")
        assert "EAGLE λ=1: 0.200" in claim.figures
        assert "AFL: 0.190" in claim.figures

    def test_a_draw_is_no_win(self):
        assert not claims.smallest_worst_gap(table(AFL=(0.20, -0.4, 0.69, 0.038))).holds

    def test_a_variance_that_another_method_beats(self):
        assert not claims.smallest_variance(table(AFL=(0.28, -0.4, 0.69, 0.009))).holds

    def test_a_variance_that_rises_again(self):
        assert not claims.variance_falls(table(**{"EAGLE λ=10": (0.35, -0.1, 0.60, 0.025)})).holds

    def test_a_small_rise_of_the_variance_is_noise(self):
        assert claims.variance_falls(table(**{"EAGLE λ=10": (0.35, -0.1, 0.60, 0.023)})).holds

    def test_accuracy_is_judged_where_the_worst_gap_is_smallest(self):
        assert not claims.accuracy_kept(table(**{"EAGLE λ=1": (0.20, -0.3, 0.68, 0.020)})).holds
        assert claims.accuracy_kept(table(**{"EAGLE λ=0.1": (0.25, -0.4, 0.1, 0.030)})).holds

    def test_levelling_down_that_never_comes(self):
        claim = claims.worst_gap_rises_again(table(**{"EAGLE λ=10": (0.15, -0.1, 0.60, 0.010)}))
        assert not claim.holds
        assert "λ=10 to λ=10" in claim.figures

    def test_even_data(self):
        assert not claims.little_difference(table()).holds
        even = table(**{label: (0.3 + 0.01 * i, 0.1, 0.7, 0.01) for i, label in enumerate(table())})
        assert claims.little_difference(even).holds

    def test_the_easy_client_is_harmed_only_if_its_gap_is_largest_on_every_seed(self):
        gaps = {"AFL": [[0.4, 0.1, 0.0], [0.3, 0.2, 0.1]], "EAGLE λ=2": [[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]}
        judge = claims.loss_parity_harms_the_easy_client
        assert judge(gaps, ["AFL"], "EAGLE λ=2").holds
        spared = {**gaps, "AFL": [[0.4, 0.1, 0.0], [0.1, 0.2, 0.1]]}
        assert not judge(spared, ["AFL"], "EAGLE λ=2").holds
        assert "1 of 2 seeds" in judge(spared, ["AFL"], "EAGLE λ=2").figures
        worse_under_eagle = {**gaps, "EAGLE λ=2": [[0.5, 0.1, 0.1], [0.5, 0.1, 0.1]]}
        assert not judge(worse_under_eagle, ["AFL"], "EAGLE λ=2").holds

    def test_eagle_varies_least_counts_seeds(self):
        gaps = {"FedAvg": [[0.0, 0.2], [0.0, 0.1]], "EAGLE λ=2": [[0.0, 0.1], [0.0, 0.2]]}
        assert claims.eagle_varies_least(gaps, "EAGLE λ=2").figures.startswith("On 1 of 2")
        assert not claims.eagle_varies_least(gaps, "EAGLE λ=2").holds

    def test_raised_losses(self):
        judge = claims.easy_loss_raised
        assert judge({"FedAvg": [[0.1, 0.5, 0.7]], "AFL": [[0.65, 0.6, 0.69]]}, "AFL", "FedAvg").holds
        assert not judge({"FedAvg": [[0.1, 0.5, 0.7]], "AFL": [[0.3, 0.6, 0.69]]}, "AFL", "FedAvg").holds
        assert not judge({"FedAvg": [[0.1, 0.5, 0.7]], "AFL": [[0.65, 0.69, 0.69]]}, "AFL", "FedAvg").holds

    def test_best_losses_spread_wider_for_uneven_data(self):
        assert claims.losses_differ_more([[0.0, 2.0]], [[1.0, 2.0]]).holds
        assert not claims.losses_differ_more([[1.0, 2.0]], [[0.0, 2.0]]).holds

    def test_the_papers_own_numbers_do_not_bear_out_every_claim(self):
        failing = {
            (name, claim.words)
            for name, each in published.TABLES.items()
            for claim in (judge(each.spreads) for judge in claims.of_table(name))
            if not claim.holds
        }
        assert {name for name, _ in failing} == {"linear-0.5", "cnn-2000"}


class TestStatistics:
    def test_the_interval_is_student_s(self):
        # Differences 1, 2, 3, 6: mean 3, std 2.1602; t(0.975, 3) = 3.1824.
        difference = paired([2, 4, 6, 10], [1, 2, 3, 4])
        assert difference.mean == 3
        assert difference.high - 3 == pytest.approx(3.182446 * 2.160247 / 2, rel=1e-5)
        assert not difference.certain
        assert difference.seeds == 4

    def test_equal_differences_are_certain(self):
        assert paired([2.0, 3.0], [1.0, 2.0]).certain

    def test_one_seed_says_nothing_about_chance(self):
        difference = paired([2.0], [1.0])
        assert not difference.certain
        assert str(difference) == "+1.000"

    def test_as_many_values_are_needed_on_both_sides(self):
        with pytest.raises(lg.SettingError, match="2 values against 1"):
            paired([1.0, 2.0], [1.0])


@pytest.fixture(scope="module")
def tiny():
    """A table experiment that takes a second."""
    base = settings.linear(0.1, "quick")
    return replace(
        base,
        make_federation=lambda seed: lg.datasets.synthetic(seed=seed, rows=30),
        methods={label: base.methods[label] for label in ("FedAvg", "AFL", "EAGLE λ=0.1", "EAGLE λ=1")},
        training=lg.Training(rounds=20, step_size=0.5),
        solo_training=lg.Training(rounds=20, step_size=0.5),
        seeds=(0, 1),
    )


@pytest.fixture(scope="module")
def outcome(tiny, tmp_path_factory):
    return run(tiny, Store(tmp_path_factory.mktemp("store")))


class TestOutcome:
    def test_rows_stand_in_their_order_with_a_result_for_each_seed(self, tiny, outcome):
        assert list(outcome.results) == list(tiny.methods)
        assert [r.seed for r in outcome.results["AFL"]] == [0, 1]

    def test_all_methods_of_a_seed_share_its_solo_losses(self, outcome):
        for each in outcome.results.values():
            found = [[client.solo_loss for client in result.clients] for result in each]
            np.testing.assert_allclose(found, outcome.best_losses)

    def test_a_second_run_reads_the_store(self, tiny, tmp_path, monkeypatch):
        store = Store(tmp_path)
        first = run(tiny, store)
        monkeypatch.setattr("lossgap.store.sweep.run_pass", lambda *_, **__: pytest.fail("trained again"))
        assert run(tiny, store).summaries == first.summaries

    def test_training_took_as_long_when_it_is_read_from_the_store(self, tiny, tmp_path):
        first = run(tiny, Store(tmp_path))
        assert 0 < first.seconds == run(tiny, Store(tmp_path)).seconds
        alone = run(replace(tiny, methods={}), Store(tmp_path))
        assert 0 < alone.seconds < first.seconds
        longer = replace(tiny, training=replace(tiny.training, rounds=21))
        assert Store(tmp_path).seconds(tiny.make_federation(seed=0), tiny.model, training=longer.training) == 0

    def test_a_method_that_diverges_has_no_row(self, tiny, tmp_path):
        wild = replace(tiny, methods={**tiny.methods, "wild": lg.Eagle(gap_penalty=1e6, normalize=None)})
        found = run(wild, Store(tmp_path))
        assert found.diverged == ("wild",)
        assert list(found.results) == list(tiny.methods)
        assert "without a row: wild." in pages.missing_rows([found])
        assert pages.missing_rows([replace(found, experiment=tiny)]) == ""


class TestTables:
    def test_means_and_deviations(self, outcome):
        spread = spreads_of(outcome.summaries)["AFL"]["max_gap"]
        worst = [max(client.gap for client in result.clients) for result in outcome.results["AFL"]]
        assert spread.mean == pytest.approx(np.mean(worst))
        assert spread.deviation == pytest.approx(np.std(worst, ddof=1))

    def test_ours_stand_beside_the_published_ones(self):
        ours = {label: row for label, row in table().items() if label != "EAGLE λ=10"}
        found = beside_published(ours, published.TABLES["linear-0.1"])
        assert found.columns[:3] == ("method", "worst gap", "worst gap, paper")
        rows = {row[0]: row[1:] for row in found.rows}
        assert rows["FedAvg"][:2] == ("0.300", "0.106 ± 0.170")
        assert rows["q-FFL q=1"][:2] == (None, "0.104 ± 0.178")  # only the paper has it
        bold = {(found.rows[i][0], found.columns[j]) for i, j in found.bold}
        assert ("EAGLE λ=1", "worst gap") in bold
        assert ("EAGLE λ=1", "worst gap, paper") in bold
        assert ("FedAvg", "worst gap") not in bold

    @pytest.mark.parametrize("name", published.TABLES)
    def test_every_table_is_made_and_judged(self, name, outcome):
        (piece,) = pieces.named(name)
        parts = piece.made([outcome])
        assert {row[0] for row in parts.sheets[0].table.rows} == set(published.TABLES[name].spreads)
        assert len(parts.claims) == len(parts.published_claims) > 0

    def test_without_a_baseline_there_is_nothing_to_compare(self, outcome):
        (piece,) = pieces.named("cnn-0.1")
        alone = replace(outcome, results={label: outcome.results[label] for label in ("AFL", "EAGLE λ=1")})
        with pytest.raises(lg.SettingError, match=r"FedAvg, EAGLE λ=0.1 diverged.*smaller step"):
            piece.made([alone])

    def test_numbers_are_for_programs(self):
        found = numbers(table(), published.TABLES["linear-0.1"])
        row = next(row for row in found.rows if row[:2] == ("FedAvg", "worst gap"))
        assert row[2:] == (0.30, None, 0.106, 0.170)

    def test_differences_are_bold_where_zero_is_left_out(self, outcome):
        summaries = {"FedAvg": outcome.summaries["FedAvg"]}
        lower = [replace(s, max_gap=s.max_gap - 1) for s in summaries["FedAvg"]]
        found = differences_table({**summaries, "lower": lower}, against="FedAvg")
        assert found.rows[0][:2] == ("lower", "-1.000 [-1.000, -1.000]")
        assert (0, 1) in found.bold

    def test_every_seed_is_kept(self, outcome):
        found = seeds_table(outcome.summaries, outcome.experiment.seeds)
        assert len(found.rows) == 4 * 2
        assert found.rows[1][:2] == ("FedAvg", 1)

    def test_best_looks_at_the_printed_digits(self):
        close = table(**{"EAGLE λ=1": (0.2004, 0, 0.7, 0.01), "EAGLE λ=0.1": (0.2, 0, 0.7, 0.01)})
        assert best(close, WORST_GAP) == {"EAGLE λ=1", "EAGLE λ=0.1"}
        assert best(close, ACCURACY) == {"FedAvg", "EAGLE λ=1", "EAGLE λ=0.1"}
        assert best(close, VARIANCE) == {"EAGLE λ=1", "EAGLE λ=0.1", "EAGLE λ=10"}


@pytest.fixture(scope="module")
def folder(outcome, tmp_path_factory):
    """A table's page and files."""
    folder = tmp_path_factory.mktemp("page") / "linear-0.1"
    (piece,) = pieces.named("linear-0.1")
    pages.write(piece, piece.made([outcome]), [outcome], "quick", folder)
    return folder


class TestPages:
    def test_every_form_is_written(self, folder):
        names = {path.name for path in folder.iterdir()}
        assert {f"table.{ending}" for ending in ("csv", "md", "tex", "txt")} <= names
        assert {"README.md", "seeds.csv", "clients.csv", "differences.csv", "gaps.svg"} <= names

    def test_the_page_states_settings_claims_and_circumstances(self, folder):
        page = (folder / "README.md").read_text()
        for words in (
            "Wall time",
            "lossgap 0.",
            "rows of EMNIST",
            "levelling down",
            "the paper's numbers",
            "0.106 ± 0.170",
        ):
            assert words in page

    def test_latex_has_as_many_columns_as_it_says(self, folder):
        lines = (folder / "table.tex").read_text().splitlines()
        assert lines[0] == r"\begin{tabular}{l" + "l" * 8 + "}"
        assert all(line.count("&") == 8 for line in lines if "&" in line)

    def test_csv_holds_numbers(self, folder, outcome):
        with (folder / "seeds.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert float(rows[0]["worst gap"]) == outcome.summaries["FedAvg"][0].max_gap


class TestBoxPlot:
    def test_it_is_drawn_and_judged_beside_the_published_table(self, outcome):
        (piece,) = pieces.named("cnn-gaps")
        found = piece.made([replace(outcome, experiment=replace(outcome.experiment, name="cnn-0.5"))])
        assert "<svg" in found.figures["figure"].svg()
        assert [claim.words for claim in found.claims] == [claim.words for claim in found.published_claims]
        assert all(claim.holds for claim in found.published_claims)


class TestCircumstances:
    def test_a_round_of_local_epochs_is_said_to_be_one(self, outcome):
        training = lg.Training(rounds=20, local_epochs=1, batch_size=32)
        local = replace(outcome, experiment=replace(outcome.experiment, training=training))
        assert "20 rounds of 1 local epoch in batches of 32, seeds 0, 1" in pages.circumstances([local], "reduced")


class TestSettings:
    @pytest.mark.parametrize("preset", settings.PRESETS)
    def test_every_piece_says_what_it_runs(self, preset):
        for piece in pieces.ALL:
            for experiment in piece.experiments(preset):
                assert experiment.choices
                assert set(experiment.seeds) <= set(settings.SEEDS)

    def test_the_paper_preset_is_the_papers_protocol(self):
        experiment = settings.linear(0.1, "paper")
        assert experiment.training.rounds == 10_000
        assert experiment.training.batch_size is None
        assert experiment.seeds == (0, 42, 100, 200)

    @pytest.mark.parametrize("name", published.TABLES)
    def test_our_rows_are_the_published_ones(self, name):
        (piece,) = pieces.named(name)
        (experiment,) = piece.experiments("quick")
        assert experiment.name == name
        assert list(experiment.methods) == list(published.TABLES[name].spreads)

    @pytest.mark.parametrize("name", ["cnn-0.1", "dirty-mnist"])
    def test_the_network_is_reduced_to_minibatches(self, name):
        (piece,) = pieces.named(name)
        (whole,), (reduced,) = piece.experiments("paper"), piece.experiments("reduced")
        assert (whole.training.rounds, whole.training.batch_size) == (10_000, None)
        assert (reduced.training.local_steps, reduced.training.batch_size) == (1, 32)
        said = {choice.what: choice.ours for choice in reduced.choices}
        assert "3×3" in said["the CNN"]
        assert "minibatch of 32" in said["local steps per round"]

    def test_the_box_plot_needs_no_runs_of_its_own(self):
        (figure,), (of_table,) = (pieces.named(name)[0].experiments("quick") for name in ("cnn-gaps", "cnn-0.5"))
        assert (figure.methods, figure.training, figure.model) == (of_table.methods, of_table.training, of_table.model)

    def test_without_penalty_eagle_takes_fedavgs_steps(self):
        eagle = settings.methods((1.0,), mixture_step=0.1)["EAGLE λ=1"]
        assert eagle.normalize == "sqrt-k"

    def test_groups_name_pieces(self):
        names = {piece.name for piece in pieces.ALL}
        assert all(set(members) <= names for members in pieces.GROUPS.values())


class TestCommand:
    def invoke(self, *arguments):
        return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])

    def test_without_a_name_it_lists_them(self):
        found = self.invoke()
        assert found.exit_code == 0
        for name in ("synthetic-gaps", "linear-2000", "all"):
            assert name in found.stdout

    def test_an_unknown_name_is_refused_with_those_that_are_known(self):
        found = self.invoke("table-9")
        assert found.exit_code == 1
        assert "there is no 'table-9'" in found.stderr
        assert "linear-0.1" in found.stderr

    @pytest.mark.parametrize(
        ("name", "advice"),
        [("cnn", "lossgap data fetch emnist"), ("dirty-mnist", "lossgap data build ambiguous-mnist")],
    )
    def test_data_that_are_not_here_are_missed_before_anything_is_trained(self, name, advice, tmp_path, monkeypatch):
        for variable in ("LOSSGAP_DATA", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / "nothing"))
        found = self.invoke(name, "--out", tmp_path / "out", "--store", tmp_path / "store")
        assert found.exit_code == 1
        assert advice in found.stderr
        assert "seed 0" not in found.stdout
        assert not (tmp_path / "out").exists()

    def test_the_quick_synthetic_figures_end_to_end(self, tmp_path):
        out, store = tmp_path / "out", tmp_path / "store"
        found = self.invoke("synthetic", "--out", out, "--store", store)
        assert found.exit_code == 0, found.stderr
        assert "holds: Methods for equal losses harm client 0" in found.stdout
        for name in pieces.GROUPS["synthetic"]:
            assert "<svg" in (out / name / "figure.svg").read_text()
            assert "Wall time" in (out / name / "README.md").read_text()
        assert json.loads((store / "store.json").read_text())
