"""What a page says is what the results hold, and runs that cannot be compared are refused by name."""

import json
import re
from html import unescape

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap.cli import main
from lossgap.cli.output import folder_of
from lossgap.reporting import words
from lossgap.reporting.plain import Method, Run, of_results, short_names
from lossgap.reporting.settings import program
from lossgap.reporting.trajectories import trajectories
from lossgap.tuning import of_results as frontier_of
from made_up import result, results

EAGLE = lg.Eagle(gap_penalty=1.0)
PATH = (0.0, 0.3, 1.0, 3.0, 10.0)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def saved(made, folder):
    for each in made:
        each.save(folder_of(folder, each.algorithm, each.seed))
    return folder


def text_of(report):
    """The page as a reader sees it: no styles, no programs, no marks."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", report.html(), flags=re.S)
    page = re.sub(r"<desc>.*?</desc>|<title>.*?</title>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


class TestVerdict:
    def test_few_clients_are_all_named_with_what_they_gain_or_lose(self):
        report = lg.report([result(lg.FedAvg(), [-0.2, 0.1, 0.004])])
        said = text_of(report)
        assert "hospital 0 (by 0.200) gains; hospital 1 (by 0.100) loses; no difference for hospital 2." in said
        assert "Gaps run from −0.200 (hospital 0) to +0.100 (hospital 1), with a variance of 0.0235." in said

    def test_many_clients_are_counted(self):
        gaps = [-0.2, -0.3, 0.1, 0.2, 0.3, 0.0, 0.001, -0.1]
        said = text_of(lg.report([result(lg.FedAvg(), gaps)]))
        assert (
            "3 of 8 gain, hospital 1 the most (by 0.300); 3 of 8 lose, hospital 4 the most (by 0.300); "
            "no difference for 2 of 8." in said
        )

    def test_methods_are_held_against_each_other(self):
        made = [result(lg.FedAvg(), [-0.3, 0.1, 0.2]), result(EAGLE, [-0.02, 0.0, 0.05])]
        said = words.takeaways(of_results(made))
        assert said[0].startswith("Gains are most even under Eagle(gap_penalty=1) (variance of the gaps 0.00130)")
        assert said[1] == "Whoever comes off worst does best under Eagle(gap_penalty=1): hospital 2, at +0.050."
        assert said[2].startswith("Under every method hospital 2 loses")
        assert len(said) == 3

    def test_even_at_the_price_of_everybody_is_said(self):
        made = [result(lg.FedAvg(), [-0.3, -0.2, -0.1]), result(EAGLE, [0.3, 0.3, 0.31])]
        assert words.takeaways(of_results(made))[-1] == (
            "But Eagle(gap_penalty=1) levels down: under FedAvg every single client is better off."
        )

    def test_nobody_loses(self):
        made = [result(lg.FedAvg(), [-0.3, -0.2]), result(EAGLE, [-0.1, -0.1])]
        assert "Nobody loses under any method." in words.takeaways(of_results(made))

    @pytest.mark.parametrize(
        ("gap", "shown"), [(0.0123, "+0.012"), (-0.5, "−0.500"), (0.0, "0.000"), (-0.0001, "0.000"), (np.nan, "–")]
    )
    def test_gaps_carry_their_sign(self, gap, shown):
        assert words.Numbers().gap(gap) == shown

    @pytest.mark.parametrize(("gaps", "shown"), [([1e-4, -2e-4], "−0.000200"), ([600.0, -1200.0], "−1,200")])
    def test_losses_of_any_size_have_as_many_decimals_as_they_need(self, gaps, shown):
        evidence = of_results([result(lg.FedAvg(), gaps)])
        assert words.Numbers.of(evidence).gap(gaps[1]) == shown

    def test_regression_speaks_of_squared_errors(self):
        assert "mean squared errors" in text_of(lg.report([result(lg.FedAvg(), [0.1, -0.1], classes=1)]))


class TestSeeds:
    def test_a_client_is_the_mean_over_its_seeds(self):
        made = [result(EAGLE, [0.1, -0.3], seed=0), result(EAGLE, [0.3, -0.1], seed=7)]
        (method,) = of_results(made).methods
        assert [client.gap for client in method.clients] == pytest.approx([0.2, -0.2])
        assert method.mean("gap_variance") == pytest.approx(np.mean([0.08, 0.08]))
        assert method.gaps.tolist() == [[0.1, -0.3], [0.3, -0.1]]

    def test_means_and_each_seed_are_said_in_words(self):
        said = text_of(lg.report(results(3, seeds=(0, 42))))
        assert "seeds 0, 42" in said
        assert "means ± standard deviations over 2 seeds" in said
        assert "small strokes the shared model's loss in each of them" in said
        assert "Each mark is a client in one seed" in said
        assert "on 2 of 2 seeds" in said

    def test_every_seed_has_its_point(self):
        report = lg.report(results(5, seeds=(0, 1, 2)))
        box = next(plate for plate in report.plates if plate.name == "gaps").figure()
        assert len(re.findall(r"hospital \d, seed \d: ", box.body)) == 5 * 3 * 4

    def test_seeds_that_some_method_lacks_are_left_out_and_named(self):
        made = [*(result(lg.FedAvg(), [0.1, 0.2], seed=s) for s in (0, 1, 2)), result(EAGLE, [0.1, 0.2], seed=1)]
        evidence = of_results(made)
        assert evidence.seeds == (1,)
        assert evidence.notes == ("Left out, as not every method has them: seeds 0, 2.",)

    def test_methods_without_a_common_seed_are_refused(self):
        with pytest.raises(lg.SettingError, match="no seed was run under every method"):
            lg.report([result(lg.FedAvg(), [0.1, 0.2], seed=0), result(EAGLE, [0.1, 0.2], seed=1)])


class TestRefused:
    @pytest.mark.parametrize(
        ("second", "message"),
        [
            (result(EAGLE, [0.1, 0.2], names=["a", "b"]), r"FedAvg \(seed 0\) is about hospital 0.* about a, b"),
            (result(EAGLE, [0.1, 0.2], gap_split="train"), "validation rows, .* on train rows"),
            (result(EAGLE, [0.1, 0.2], solo=[0.3, 0.7]), "'hospital 1' reaches a loss of 0.9 alone .* and 0.7"),
            (result(lg.FedAvg(), [0.1, 0.3]), "FedAvg stands twice with seed 0"),
        ],
    )
    def test_runs_that_cannot_be_compared(self, second, message):
        with pytest.raises(lg.SettingError, match=message):
            lg.report([result(lg.FedAvg(), [0.1, 0.2]), second])

    def test_nothing_at_all(self):
        with pytest.raises(lg.SettingError, match="no results"):
            lg.report([])

    def test_a_name_that_is_no_page(self, tmp_path):
        with pytest.raises(lg.SettingError, match=r"End the name in \.html"):
            lg.report(results(3), tmp_path / "page.pdf")


class TestPenalties:
    def test_the_path_is_drawn_with_its_recommendation_and_turning_point(self):
        report = lg.report(results(10, penalties=PATH))
        names = [plate.name for plate in report.plates]
        assert names[:4] == ["losses", "gaps", "frontier", "worst-gap"]
        found = frontier_of([[r] for r in results(10, penalties=PATH) if isinstance(r.algorithm, lg.Eagle)])
        said = text_of(report)
        assert f"Recommended: λ = {found.recommended:g}, by the lowest worst gap" in said
        assert f"Levelling down begins at λ = {found.turning_point:g}" in said
        for plate in report.plates[2:4]:
            assert f"recommended, λ = {found.recommended:g}" in plate.figure().body
            assert "levelling down begins" in plate.figure().body

    def test_another_rule_recommends_another_penalty(self):
        made = results(10, penalties=PATH)
        report = lg.report(made, rule=lambda points: len(points) - 1)
        assert "Recommended: λ = 10" in text_of(report)
        assert "largest λ that was tried" in text_of(report)

    def test_fewer_than_three_penalties_make_no_path(self):
        names = [plate.name for plate in lg.report(results(3, penalties=(0.0, 1.0))).plates]
        assert "frontier" not in names

    def test_a_frontier_can_be_reported(self):
        found = frontier_of([[r] for r in results(10, penalties=PATH) if isinstance(r.algorithm, lg.Eagle)])
        assert "frontier" in [plate.name for plate in lg.report(found).plates]


class TestTables:
    def test_cells_are_the_summaries_of_the_results(self):
        made = results(10)
        sheet = lg.report(made).sheets[0].values()
        for row, each in zip(sheet.rows, made, strict=True):
            values, summary = dict(zip(sheet.columns, row, strict=True)), each.summary()
            assert values["method"] == str(each.algorithm)
            assert values["gap variance"] == pytest.approx(summary.gap_variance)
            assert values["worst gap"] == pytest.approx(summary.max_gap)
            assert values["better off"] == pytest.approx(summary.appeal)
            assert values["lose"] == len(summary.worse_off)

    def test_every_table_is_written_in_three_forms(self, tmp_path):
        report = lg.report(results(3, penalties=(0.0, 0.5, 1.0)))
        written = {path.name for path in report.save_tables(tmp_path / "files")}
        names = ("methods", "clients", "details", "doubt", "lambda")
        assert written == {f"{name}{ending}" for name in names for ending in (".csv", ".tex", ".md")}
        assert (tmp_path / "files" / "clients.csv").read_text().startswith("client,rows,loss alone,FedAvg,")

    def test_charts_are_written_for_papers(self, tmp_path):
        report = lg.report(results(3))
        svg = report.save_charts(tmp_path / "files")
        assert {path.stem for path in svg} == {plate.name for plate in report.plates}
        assert all("prefers-color-scheme" not in path.read_text() for path in svg)
        assert all(p.read_bytes().startswith(b"\x89PNG") for p in report.save_charts(tmp_path / "files", "png"))

    def test_unknown_accuracies_have_no_column(self):
        sheet = lg.report([result(lg.FedAvg(), [0.1, 0.2], accuracy=np.nan)]).sheets[0]
        assert "accuracy" not in [column.name for column in sheet.columns]


class TestCourse:
    def test_multipliers_are_drawn_where_they_move(self):
        plates = trajectories(of_results(results(3)))
        assert [len(plate.pictures) for plate in plates] == [2, 2, 2, 3]
        assert plates[0].says.startswith("It scales no gradients")

    def test_absent_clients_leave_no_hole_in_the_page(self):
        made = result(EAGLE, [0.1, 0.2, 0.3])
        made.history.multiplier[::2, 1] = np.nan
        charts = re.findall(r"<svg.*?</svg>", lg.report([made]).html(), flags=re.S)
        assert len(charts) > 5
        assert not any(re.search(r"\bnan\b", chart) for chart in charts)

    def test_a_peer_without_history_of_the_same_rounds_is_no_obstacle(self):
        made = [result(EAGLE, [0.1, 0.2], seed=0), result(EAGLE, [0.1, 0.2], seed=1, rounds=50)]
        assert len(trajectories(of_results(made))) == 1


class TestAgain:
    def test_the_program_on_the_page_builds_the_same_methods(self):
        methods = [lg.FedAvg(), lg.Ditto(base=lg.Eagle(gap_penalty=2.0, normalize="sqrt-k")), lg.AFL(mixture_step=0.1)]
        made = [result(method, [0.1, 0.2], batch_size=8) for method in methods]
        text = program(of_results(made))
        space = {"make_federation": None}
        text = text.replace("lg.compare(", "dict_of(").replace("lg.report(", "print(")
        taken = {}
        space["dict_of"] = lambda make, model, built, training, seeds: taken.update(
            model=model, methods=built, training=training, seeds=seeds
        )
        exec(text, space)
        assert taken["methods"] == methods
        assert taken["training"] == made[0].training
        assert taken["model"] == lg.models.linear()
        assert taken["seeds"] == (0,)

    def test_long_labels_keep_what_tells_them_apart(self):
        labels = [str(lg.Eagle(gap_penalty=p, normalize="sqrt-k", multiplier_range=(0.0, 10.0))) for p in (1.0, 2.0)]
        assert list(short_names(labels).values()) == ["Eagle(gap_penalty=1, …)", "Eagle(gap_penalty=2, …)"]

    def test_a_method_knows_its_clients_without_lossgap_having_trained_it(self):
        rows = result(EAGLE, [0.1, -0.1]).clients
        assert Method(name="ours", runs=(Run(clients=rows),)).clients == rows


class TestCommand:
    def test_a_folder_of_results_becomes_a_page(self, tmp_path):
        folder = saved(results(3, seeds=(0, 1)), tmp_path / "runs")
        out = tmp_path / "page.html"
        outcome = run("report", folder, "--out", out, "--svg", "--tables")
        assert outcome.exit_code == 0, outcome.output
        assert f"Page: {out}" in outcome.stdout
        assert "Gains are most even under Eagle(gap_penalty=1)" in outcome.stdout
        assert out.read_text().startswith("<!DOCTYPE html>")
        assert (tmp_path / "page-files" / "losses.svg").exists()
        assert (tmp_path / "page-files" / "methods.tex").exists()

    def test_methods_stand_in_an_order_that_a_person_would_choose(self, tmp_path):
        folder = saved(results(3, penalties=(0.5, 10.0, 2.0)), tmp_path / "runs")
        names = [method.name for method in lg.report(folder).evidence.methods]
        eagles = [f"Eagle(gap_penalty={p})" for p in ("0.5", "2", "10")]
        assert names == ["FedAvg", "AFL", "QFFL(q=1)", *eagles]

    def test_single_results_and_folders_of_them_mix(self, tmp_path):
        made = results(3)
        first = made[0].save(tmp_path / "first")
        rest = saved(made[1:], tmp_path / "rest")
        assert len(lg.report([first, rest]).evidence.methods) == 4
        assert len(lg.report([made[0], str(rest)]).evidence.methods) == 4

    def test_what_is_still_being_written_is_left_alone(self, tmp_path):
        folder = saved(results(3), tmp_path / "runs")
        results(3)[0].save(folder / ".FedAvg-seed-0-1a2b3c4d")
        assert len(lg.report(folder).evidence.methods) == 4

    def test_a_store_becomes_a_page(self, tmp_path):
        federation, training = lg.datasets.two_clients(rows=20), lg.Training(rounds=3)
        store = lg.Store(tmp_path / "store")
        store.sweep(federation, lg.models.linear(), [lg.FedAvg(), EAGLE], training, solo=[0.1, 0.2], progress=False)
        assert [m.name for m in lg.report(tmp_path / "store").evidence.methods] == ["FedAvg", str(EAGLE)]

    def test_a_comparison_becomes_a_page(self):
        made = results(3)
        comparison = lg.Comparison((0,), {str(each.algorithm): (each,) for each in made})
        assert len(lg.report(comparison).evidence.methods) == 4

    @pytest.mark.parametrize(("make", "words"), [(True, "holds no saved result"), (False, "is no folder")])
    def test_a_folder_without_results_is_refused(self, tmp_path, make, words):
        folder = tmp_path / "empty"
        if make:
            folder.mkdir()
        outcome = run("report", folder, "--out", tmp_path / "page.html")
        assert outcome.exit_code == 1
        assert words in outcome.stderr
        assert not (tmp_path / "page.html").exists()

    def test_the_demo_ends_with_the_page(self, tmp_path):
        outcome = run("demo", "--out", tmp_path / "demo")
        assert outcome.exit_code == 0, outcome.output
        assert outcome.stdout.splitlines()[-1] == f"Page: {tmp_path / 'demo.html'}"
        assert "client 0" in (tmp_path / "demo.html").read_text()


def test_a_page_is_the_same_for_the_same_runs():
    assert lg.report(results(3)).html() == lg.report(results(3)).html()


def test_a_page_holds_everything_it_shows():
    page = lg.report(results(3)).html()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", page)
    assert "@import" not in page
    assert "url(" not in page
    assert json.dumps("default-src 'none'")[1:-1] in page.replace("&#x27;", "'")
