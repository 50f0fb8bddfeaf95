"""Two published tables as federations, against the same files read by pandas."""

import gzip
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest

import lossgap as lg
from lossgap.datasets.adult import people
from lossgap.datasets.heart import COLUMNS, HOSPITALS, patients

FEATURES = list(COLUMNS[:-1])


@pytest.fixture
def copies(real_data, tmp_path, monkeypatch):
    """A folder of data sets that a test may damage."""
    for name in ("heart", "adult"):
        shutil.copytree(real_data / name, tmp_path / name)
        (tmp_path / name).chmod(0o755)
        for file in (tmp_path / name).iterdir():
            file.chmod(0o644)
    monkeypatch.setenv("LOSSGAP_DATA", str(tmp_path))
    return tmp_path


def rows_of(federation: lg.Federation) -> dict[str, int]:
    return {client.name: sum(len(rows) for _, rows in client.splits) for client in federation.clients}


def hospitals(real_data) -> pd.DataFrame:
    files = {name: real_data / "heart" / f"processed.{name}.data" for name in HOSPITALS}
    read = (pd.read_csv(file, names=COLUMNS, na_values="?").assign(hospital=name) for name, file in files.items())
    return pd.concat(read, ignore_index=True)


@pytest.mark.filterwarnings("ignore::lossgap.DataWarning")
class TestHeart:
    def test_four_hospitals_without_gaps(self, real_data):
        federation = lg.datasets.heart()
        assert rows_of(federation) == {"cleveland": 303, "hungarian": 261, "switzerland": 46, "va": 130}
        assert federation.classes == 2

    def test_the_rule_by_hand(self, real_data):
        raw = hospitals(real_data).drop(columns=["st slope", "vessels", "thallium"]).dropna()
        ill = raw.groupby("hospital")["disease"].agg(lambda column: int((column > 0).sum())).to_dict()
        found = {c.name: sum(int(rows.y.sum()) for _, rows in c.splits) for c in lg.datasets.heart().clients}
        assert found == ill

    def test_all_patients_and_columns_on_request(self, real_data):
        federation = lg.datasets.heart(missing="fill")
        assert rows_of(federation) == HOSPITALS
        assert federation.features[0] > lg.datasets.heart().features[0]
        assert all(np.isfinite(rows.x).all() for client in federation.clients for _, rows in client.splits)

    def test_every_number_is_the_published_one(self, real_data):
        table, raw = patients().to_pandas(), hospitals(real_data)
        assert table["hospital"].tolist() == raw["hospital"].tolist()
        for name in FEATURES:
            assert np.array_equal(table[name].astype(float), raw[name].astype(float), equal_nan=True), name
        assert (table["disease"] == "ill").tolist() == (raw["disease"] > 0).tolist()

    def test_kinds_are_one_hot_and_amounts_standardised(self, real_data):
        x = np.concatenate([client.train.x for client in lg.datasets.heart().clients])
        kinds = np.isin(x, (0, 1)).all(axis=0)
        assert kinds.sum() == 7  # four kinds of chest pain, three of ecg
        assert np.allclose(x[:, ~kinds].mean(axis=0), 0, atol=1e-5)
        assert np.allclose(x[:, ~kinds].std(axis=0), 1, atol=1e-4)

    def test_a_hospital_whose_training_rows_are_all_ill_is_pointed_out(self, real_data):
        with pytest.warns(lg.DataWarning, match="'switzerland' hold one class only"):
            lg.datasets.heart(seed=0)

    def test_a_hospital_that_never_recorded_a_column_is_pointed_out(self, real_data):
        lacking = [seed for seed in range(8) if "'va' have no value in column 'vessels'" in said(seed)]
        assert lacking  # two of its 200 patients have one

    def test_a_hospital_of_one_class_trains_like_the_others(self, real_data):
        federation = lg.datasets.heart(seed=0)
        assert set(federation.clients[2].train.y) == {1}
        training = lg.Training(rounds=30, step_size=0.3)
        result = lg.train(federation, lg.models.linear(), lg.Eagle(gap_penalty=0.5), training)
        assert all(np.isfinite([client.gap, client.test_loss]).all() for client in result.clients)
        assert result.clients[2].solo_loss < min(
            client.solo_loss for client in result.clients if client.name != "switzerland"
        )

    def test_seeds_draw_other_splits(self, real_data):
        one, again, other = (lg.datasets.heart(seed=seed).clients[0].test.x for seed in (1, 1, 2))
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)

    def test_an_unknown_rule_is_refused(self):
        with pytest.raises(lg.SettingError, match=r"missing is 'skip'.*drop.*fill"):
            lg.datasets.heart(missing="skip")

    def test_a_file_cut_off_between_two_lines_is_refused(self, copies):
        path = copies / "heart" / "processed.va.data"
        path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
        with pytest.raises(lg.FileError, match=r"processed\.va\.data: has 199 rows, and 200 were published"):
            lg.datasets.heart()

    def test_a_missing_file_says_how_to_get_it(self, copies):
        (copies / "heart" / "processed.hungarian.data").unlink()
        with pytest.raises(lg.FileError, match=r"processed\.hungarian\.data.*lossgap data fetch heart"):
            lg.datasets.heart()

    def test_text_among_the_numbers_is_refused(self, copies):
        path = copies / "heart" / "processed.cleveland.data"
        path.write_text(path.read_text().replace("63.0,", "sixty,", 1))
        with pytest.raises(lg.FileError, match=r"processed\.cleveland\.data: cannot be read"):
            lg.datasets.heart()


def said(seed: int) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lg.datasets.heart(seed=seed, missing="fill")
    return " ".join(str(warning.message) for warning in caught)


@pytest.mark.filterwarnings("ignore::lossgap.DataWarning")
class TestAdult:
    @pytest.mark.parametrize(
        ("parts", "sizes"),
        [(None, (48_248, 594)), (("train",), (32_148, 413)), (("test",), (16_100, 181))],
        ids=["both", "train", "test"],
    )
    def test_doctorates_and_everybody_else(self, real_data, parts, sizes):
        federation = lg.datasets.adult(parts=parts)
        assert rows_of(federation) == dict(zip(("others", "doctorate"), sizes, strict=True))
        assert federation.classes == 2

    def test_rich_people_are_as_many_as_published(self, real_data):
        files = [gzip.decompress((real_data / "adult" / f"adult.{part}.gz").read_bytes()) for part in ("data", "test")]
        lines = [line for file in files for line in file.decode().splitlines() if line.count(",") == 14]
        rich = {
            "doctorate": sum("Doctorate" in line and ">50K" in line for line in lines),
            "others": sum("Doctorate" not in line and ">50K" in line for line in lines),
        }
        clients = lg.datasets.adult().clients
        assert {c.name: sum(int(rows.y.sum()) for _, rows in c.splits) for c in clients} == rich

    def test_missing_values_are_marked(self, real_data):
        table = people()
        lacking = {name: table[name].null_count for name in ("workclass", "occupation", "country")}
        assert lacking == {"workclass": 2799, "occupation": 2809, "country": 857}
        assert sum(column.null_count for column in table.columns) == sum(lacking.values())

    def test_a_country_that_no_training_row_holds_is_pointed_out(self, real_data):
        with pytest.warns(lg.DataWarning, match="'Holand-Netherlands' in column 'country', but 1 .* 'others'"):
            unseen = lg.datasets.adult(seed=2)
        assert unseen.features[0] == lg.datasets.adult(seed=0).features[0] - 1

    def test_half_a_file_is_refused(self, copies):
        path = copies / "adult" / "adult.test.gz"
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:1_000_000].rsplit(b"\n", 1)[0]))
        with pytest.raises(lg.FileError, match=r"adult\.test\.gz: has \d+ rows, and 16281 were published"):
            lg.datasets.adult()

    def test_unknown_parts_are_refused(self, real_data):
        with pytest.raises(lg.SettingError, match=r"adult: parts is \('dev',\)"):
            lg.datasets.adult(parts=("dev",))
