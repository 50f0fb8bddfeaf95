"""An audit: exact where it says so, honest about what errors would change, clear about what is wrong with a file."""

import csv
import io
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize

import lossgap as lg
from lossgap.cli import main
from lossgap.reporting.doubt import bootstrap_interval, ranking, swap_error, swaps, undecided, variance_bounds

RNG = np.random.default_rng(3)
TABLE = """client,method,loss,solo_loss,accuracy,rows
lyon,ours,0.40,0.50,0.91,100
lille,ours,0.70,0.60,0.80,80
nice,ours,0.30,0.30,0.95,60
lyon,theirs,0.20,0.50,0.93,100
lille,theirs,0.90,0.60,0.70,80
nice,theirs,0.45,0.30,0.90,60
"""


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text(TABLE)
    return path


def variances(gaps, errors):
    return (gaps - errors).var(axis=-1, ddof=1)


class TestErrorsInSoloLosses:
    """Brute force over every corner of the box of errors, or a search inside of it."""

    @pytest.mark.parametrize("error", [0.01, 0.2, 3.0])
    def test_largest_variance(self, error):
        for clients in (2, 3, 8):
            gaps = RNG.normal(size=clients)
            corners = np.array(list(itertools.product((-error, error), repeat=clients)))
            assert variance_bounds(gaps, error)[1] == pytest.approx(variances(gaps, corners).max(), rel=1e-12)

    @pytest.mark.parametrize("error", [0.01, 0.2, 0.6])
    def test_smallest_variance(self, error):
        for clients in (2, 3, 8):
            gaps = RNG.normal(size=clients)
            found = minimize(
                lambda e, gaps=gaps: variances(gaps, e), np.zeros(clients), bounds=[(-error, error)] * clients
            )
            assert variance_bounds(gaps, error)[0] == pytest.approx(found.fun, abs=1e-6)
            assert variance_bounds(gaps, error)[0] <= found.fun + 1e-12

    def test_gaps_within_reach_of_each_other_may_all_be_equal(self):
        assert variance_bounds(np.array([0.1, 0.15, 0.2]), 0.05)[0] == 0
        assert variance_bounds(np.array([0.1, 0.15, 0.2001]), 0.05)[0] > 0

    def test_two_methods_swap_exactly_at_the_error_that_is_said(self):
        for clients in (2, 4, 9):
            one, other = RNG.normal(size=clients), 1.3 * RNG.normal(size=clients)
            critical = swap_error(one, other)
            sign = np.sign(one.var(ddof=1) - other.var(ddof=1))
            for share, swapped in ((0.999, False), (1.001, True)):
                corners = np.array(list(itertools.product((-1, 1), repeat=clients))) * critical * share
                differences = variances(one, corners) - variances(other, corners)
                assert (sign * differences.min() < 0 or sign * differences.max() < 0) == swapped

    def test_methods_that_differ_by_a_constant_are_equally_even_whatever_the_error(self):
        gaps = RNG.normal(size=5)
        assert swap_error(gaps, gaps + 2) == pytest.approx(0, abs=1e-9) or swap_error(gaps, gaps + 2) == np.inf

    def test_seeds_count_alike(self):
        one, other = RNG.normal(size=4), RNG.normal(size=4)
        assert swap_error(np.stack([one, one]), np.stack([other, other])) == pytest.approx(swap_error(one, other))

    def test_the_most_even_comes_first(self):
        gaps = {"wide": np.array([0.0, 2.0]), "narrow": np.array([0.0, 0.1]), "middle": np.array([0.0, 1.0])}
        assert ranking(gaps) == ["narrow", "middle", "wide"]
        assert {(swap.even, swap.uneven) for swap in swaps(gaps)} == {
            ("narrow", "middle"),
            ("narrow", "wide"),
            ("middle", "wide"),
        }

    def test_clients_near_zero_are_undecided(self):
        assert undecided([-0.2, -0.04, 0.0, 0.051, 0.056], 0.05, 0.005) == [1, 2, 3]


class TestBootstrap:
    def test_it_is_the_share_of_draws(self):
        gaps = np.array([0.0, 1.0])  # two of four draws are of one client twice: variance 0 or 0.5
        assert bootstrap_interval(gaps) == (0.0, 0.5)

    def test_it_agrees_with_drawing_one_by_one(self):
        gaps, rng = RNG.normal(size=30), np.random.default_rng(99)
        drawn = [rng.choice(gaps, 30).var(ddof=1) for _ in range(20_000)]
        assert bootstrap_interval(gaps) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), rel=0.03)

    def test_the_same_seed_gives_the_same_interval(self):
        gaps = RNG.normal(size=10)
        assert bootstrap_interval(gaps, seed=4) == bootstrap_interval(gaps, seed=4)
        assert bootstrap_interval(gaps, seed=4) != bootstrap_interval(gaps, seed=5)


class TestVerdict:
    def test_every_figure_by_hand(self, file):
        found = lg.audit(file).verdict
        ours = found["methods"]["ours"]  # gaps −0.1, 0.1, 0.0
        assert ours["gap_variance"] == pytest.approx(0.01)
        assert ours["gap_range"] == pytest.approx(0.2)
        assert ours["mean_gap"] == pytest.approx(0.0)
        assert ours["appeal"] == pytest.approx(1 / 3)
        assert (ours["gain"], ours["no_difference"], ours["lose"]) == (1, 1, 1)
        assert ours["worst_client"]["name"] == "lille"
        assert ours["best_client"]["name"] == "lyon"
        assert ours["losing_clients"] == ["lille"]
        assert ours["undecided_clients"] == ["nice"]
        assert ours["desert_spread"] == pytest.approx(0.7 / 0.6 - 0.4 / 0.5)
        assert ours["mean_accuracy"] == pytest.approx((0.91 + 0.80 + 0.95) / 3)
        assert ours["worst_accuracy"] == 0.80
        assert found["clients"] == 3
        assert found["ranking"] == ["ours", "theirs"]

    def test_the_ranking_stays_or_flips_at_the_error_worked_out_by_hand(self, file):
        # theirs: −0.3, 0.3, 0.15, variance 0.0975; d = 0.2, −0.2, −0.15 around −0.05: Σ|d − d̄| = 0.5.
        critical = (0.0975 - 0.01) * 2 / (2 * 0.5)
        (pair,) = lg.audit(file).verdict["pairs"]
        assert pair["swapped_by_error"] == pytest.approx(critical)
        assert lg.audit(file, solo_error=0.99 * critical).verdict["ranking_with_solo_error"] == "stays"
        assert lg.audit(file, solo_error=1.01 * critical).verdict["ranking_with_solo_error"] == "flips"

    def test_it_is_json_and_says_the_same_in_words(self, file, tmp_path):
        found = lg.audit(file)
        read = json.loads(found.save_verdict(tmp_path / "verdict.json").read_text())
        assert read == found.verdict
        assert "ours: lyon (by 0.100) gains; lille (by 0.100) loses; no difference for nice." in read["in_words"]
        assert any("With ±0.05 on the solo losses the ranking of methods" in line for line in read["in_words"])

    def test_one_method_has_no_ranking(self):
        found = lg.audit({"client": ["a", "b"], "loss": [1.0, 2.0], "solo_loss": [1.5, 1.5]})
        assert found.verdict["ranking_with_solo_error"] is None
        assert found.verdict["methods"]["the model"]["mean_accuracy"] is None
        assert json.loads(json.dumps(found.verdict, allow_nan=False)) == found.verdict

    def test_results_of_lossgap_get_the_same_verdict_as_from_lossgap(self):
        from made_up import results

        made = results(10)
        lines = [(c.name, str(r.algorithm), c.solo_loss + c.gap, c.solo_loss) for r in made for c in r.clients]
        found = lg.audit(dict(zip(("client", "method", "loss", "solo_loss"), zip(*lines, strict=True), strict=True)))
        for each in made:
            summary, own = each.summary(), found.verdict["methods"][str(each.algorithm)]
            for name in ("gap_variance", "gap_range", "appeal", "desert_spread", "mean_gap"):
                assert own[name] == pytest.approx(getattr(summary, name)), name


class TestForms:
    def same(self, table):
        return lg.audit(table).verdict["methods"]

    def test_data_frames_and_mappings_say_the_same_as_files(self, file):
        import pandas
        import polars

        expected = self.same(file)
        frame = pandas.read_csv(file)
        assert self.same(frame) == expected
        assert self.same(polars.read_csv(file)) == expected
        assert self.same(frame.to_dict("list")) == expected

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_spreadsheets_may_write_it_their_way(self, tmp_path, file, delimiter, mark):
        other = tmp_path / "other.csv"
        text = TABLE.replace(",", delimiter).replace("solo_loss", " Solo Loss ").replace("\n", "\r\n")
        other.write_text(mark + text + "\r\n\r\n", newline="")
        assert self.same(other) == self.same(file)

    def test_quoted_names_may_hold_commas_and_lines(self, tmp_path):
        text = io.StringIO()
        csv.writer(text).writerows([("client", "loss", "solo_loss"), ("a, b", 1, 2), ("c\nd", 1, 3)])
        path = tmp_path / "quoted.csv"
        path.write_text(text.getvalue(), newline="")
        assert lg.audit(path).report.evidence.names == ("a, b", "c\nd")

    def test_the_test_split_comes_first_and_others_are_named(self, tmp_path):
        path = tmp_path / "splits.csv"
        lines = [f"{c},{s},{0.5 + k},0.5" for k, s in enumerate(("train", "test")) for c in "ab"]
        path.write_text("\n".join(["client,split,loss,solo_loss", *lines]))
        found = lg.audit(path)
        assert found.verdict["measured_on"] == "test rows"
        assert found.verdict["notes"] == ["This is about the split 'test'; 2 rows of train are left out."]
        assert lg.audit(path, split="train").verdict["measured_on"] == "train rows"
        with pytest.raises(lg.SettingError, match="no row has the split 'valid'"):
            lg.audit(path, split="valid")

    def test_different_yardsticks_are_said(self, tmp_path):
        path = tmp_path / "losses.csv"
        path.write_text(TABLE.replace("nice,theirs,0.45,0.30", "nice,theirs,0.45,0.31"))
        assert lg.audit(path).verdict["notes"][0].startswith("Methods are held against different solo losses")

    def test_a_column_that_is_not_used_is_said(self):
        with pytest.warns(lg.DataWarning, match="'acuracy' is not used. Did you mean 'accuracy'"):
            lg.audit({"client": ["a", "b"], "loss": [1, 2], "solo_loss": [1, 1], "acuracy": [0.5, 0.5]})


class TestBroken:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the file is empty"),
            ("client,loss,solo_loss\n", "there is no row below the header"),
            ("client,loss\na,1\n", "the column 'solo_loss' is missing; there are client, loss"),
            ("client,loss,sololoss\na,1,2\n", "the column 'solo_loss' is missing.*Did you mean 'sololoss'"),
            ("client,loss,loss\na,1,2\n", "the column 'loss' stands twice"),
            ("client,loss,solo_loss\na,1,2\nb,x,2\n", "line 3, client 'b', column loss: 'x' is not a number"),
            ("client,loss,solo_loss\na,1,2\nb,nan,2\n", "line 3, client 'b', column loss: it is nan"),
            ("client,loss,solo_loss\na,1,inf\nb,1,2\n", "line 2, client 'a', column solo_loss: it is inf"),
            ("client,loss,solo_loss\na,1,\nb,1,2\n", "line 2, client 'a', column solo_loss: it is empty"),
            ("client;loss;solo_loss\na;0,5;1\nb;1;2\n", "'0,5' is not a number. Write decimals with a point"),
            ("client,loss,solo_loss\na,1,2\n,1,2\n", "line 3, column client: it is empty"),
            ("client,loss,solo_loss\na,1,2\na,1,3\n", "line 3, client 'a': this client stands twice.*line 2"),
            ("client,loss,solo_loss\na,1,2\nb,1\n", "line 3: it has 2 cells, and the header names 3 columns"),
            ("client,loss,solo_loss\na,1,2\n", "has one client, 'a'"),
            ("client,loss,solo_loss,accuracy\na,1,2,83\nb,1,2,90\n", "line 2.*column accuracy: it is 83"),
            ("client,loss,solo_loss,rows\na,1,2,1.5\nb,1,2,9\n", "line 2.*column rows: it is 1.5"),
            (
                "client,method,loss,solo_loss\na,m,1,2\nb,m,1,2\na,n,1,2\nc,n,1,2\n",
                "client 'b' stands under m .*line 3.* but not under n",
            ),
            ("client,split,loss,solo_loss\na,x,1,2\nb,y,1,2\n", "rows of several splits: 'x', 'y'"),
        ],
    )
    def test_files_are_refused_by_line_column_and_client(self, tmp_path, text, message):
        path = tmp_path / "losses.csv"
        path.write_text(text)
        with pytest.raises(lg.LossgapError, match=message):
            lg.audit(path)
        outcome = run("audit", path, "--out", tmp_path / "page.html")
        assert outcome.exit_code == 1
        assert outcome.stderr.splitlines()[-1].startswith("error: ")
        assert "Traceback" not in outcome.stderr
        assert not (tmp_path / "page.html").exists()

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(lg.FileError, match="there is no such file"):
            lg.audit(tmp_path / "nowhere.csv")

    def test_a_file_that_is_no_text(self, tmp_path):
        path = tmp_path / "losses.csv"
        path.write_bytes(b"client,loss,solo_loss\n\xff\xfe,1,2\n")
        with pytest.raises(lg.FileError, match="not UTF-8"):
            lg.audit(path)

    @pytest.mark.parametrize("error", [0, -1, float("nan"), float("inf")])
    def test_an_error_that_is_none(self, file, error):
        with pytest.raises(lg.SettingError, match="solo_error"):
            lg.audit(file, solo_error=error)

    def test_what_is_no_table(self):
        with pytest.raises(lg.DataError, match="the table is a int"):
            lg.audit(3)


class TestCommand:
    def test_page_and_verdict_are_written_side_by_side(self, file, tmp_path):
        out = tmp_path / "page.html"
        outcome = run("audit", file, "--out", out, "--svg", "--unit", "nats")
        assert outcome.exit_code == 0, outcome.output
        assert f"Page: {out}" in outcome.stdout
        assert json.loads((tmp_path / "page.json").read_text())["ranking"] == ["ours", "theirs"]
        assert "loss gap, nats" in (tmp_path / "page-files" / "gaps.svg").read_text()
        assert "lossgap audit losses.csv --solo-error 0.05" in out.read_text()

    def test_fifty_clients_under_ten_methods(self, tmp_path):
        rng = np.random.default_rng(0)
        solo = rng.uniform(0.1, 2, 50)
        lines = ["Client;Method;Loss;Solo Loss;Rows"]
        for m in range(10):
            losses = solo + (m - 4) / 50 + (m + 1) / 30 * rng.normal(size=50)
            lines += [f"bank {k:02d};torch run {m};{losses[k]:.5f};{solo[k]:.5f};{10 + k}" for k in range(50)]
        path = tmp_path / "theirs.csv"
        path.write_text("\n".join(lines))
        outcome = run("audit", path, "--out", tmp_path / "page.html")
        assert outcome.exit_code == 0, outcome.output
        verdict = json.loads((tmp_path / "page.json").read_text())
        assert verdict["clients"] == 50
        assert verdict["ranking"][0] == "torch run 0"
        assert len(verdict["pairs"]) == 45
        assert (tmp_path / "page.html").stat().st_size < 2_000_000
