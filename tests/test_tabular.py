"""Tables become federations by the rules that lossgap.tabular.read states."""

import gzip
import os
import re
import subprocess
import sys
import warnings
from datetime import date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossgap import tabular
from lossgap.errors import DataError, DataWarning, FileError, LossgapError, SettingError
from lossgap.federation import Federation

HEART = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal")
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
ADULT = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours,country,income"
)


def patients(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "hospital": np.resize(["lyon", "lille", "brest"], rows),
            "age": rng.normal(50, 10, rows),
            "visits": pd.array(rng.integers(0, 9, rows), "Int64"),
            "smoker": rng.integers(0, 2, rows).astype(bool),
            "job": rng.choice(["nurse", "köchin", "baker, pastry"], rows),
            "disease": rng.choice(["none", "flu"], rows),
        }
    )
    frame.loc[[3, 10, 30, 31, 40], "age"] = np.nan
    frame.loc[[4, 5, 6, 20, 41], "visits"] = pd.NA
    frame.loc[[7, 8, 9, 21, 22], "job"] = None
    return frame


def read(table, **settings):
    return tabular.read(table, **{"client": "hospital", "target": "disease"} | settings)


def from_table(table, **settings) -> Federation:
    return Federation.from_table(table, **{"client": "hospital", "target": "disease"} | settings)


def arrays(federation: Federation) -> list[np.ndarray]:
    return [a for client in federation.clients for _, split in client.splits for a in (split.x, split.y)]


def same(left: Federation, right: Federation) -> bool:
    alike = left.names == right.names and left.classes == right.classes
    return alike and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(arrays(left), arrays(right), strict=True)
    )


def split_rows(frame: pd.DataFrame, target: str = "disease", **settings) -> Federation:
    """Row numbers of the table in place of features, by Federation.from_arrays itself."""
    labels = np.unique(frame[target].to_numpy(), return_inverse=True)[1]
    rows = np.arange(len(frame))
    owned = {name: frame["hospital"] == name for name in frame["hospital"].unique()}
    return Federation.from_arrays({name: (rows[own][:, None], labels[own]) for name, own in owned.items()}, **settings)


def numbers_in(federation: Federation, *splits: str) -> np.ndarray:
    return np.concatenate([client.split(name).x[:, 0] for client in federation.clients for name in splits])


def stacked(federation: Federation, *splits: str) -> np.ndarray:
    return np.concatenate([client.split(name).x for client in federation.clients for name in splits])


ALL = ("train", "validation", "test")


# Sources


def as_csv(frame, folder):
    frame.to_csv(folder / "p.csv", index=False)
    return folder / "p.csv"


def as_csv_gz(frame, folder):
    frame.to_csv(folder / "p.csv.gz", index=False, quoting=1)
    return str(folder / "p.csv.gz")


def as_tsv(frame, folder):
    frame.to_csv(folder / "P.TSV", index=False, sep="\t", lineterminator="\r\n")
    return folder / "P.TSV"


def as_csv_with_bom(frame, folder):
    frame.to_csv(folder / "b.csv", index=False, encoding="utf-8-sig")
    return folder / "b.csv"


def as_csv_with_spaces(frame, folder):
    text = frame[["hospital", "age", "visits", "smoker"]].to_csv(index=False, header=False, na_rep="?").splitlines()
    tails = frame[["job", "disease"]].to_csv(index=False, header=False, na_rep="?", quoting=1).splitlines()
    lines = [f"{head},{tail}" for head, tail in zip([t.replace(",", ", ") for t in text], tails, strict=True)]
    (folder / "s.csv").write_text("\n".join([",".join(frame.columns), *lines]))
    return folder / "s.csv"


def as_parquet(frame, folder):
    frame.to_parquet(folder / "p.parquet", index=False)
    return folder / "p.parquet"


def as_polars(frame, folder):
    return pl.from_pandas(frame)


def as_polars_categories(frame, folder):
    return pl.from_pandas(frame).with_columns(pl.col("hospital", "job", "disease").cast(pl.Categorical))


def as_pandas_categories(frame, folder):
    return frame.astype({"hospital": "category", "job": "category", "disease": "category"})


def as_pandas_with_index(frame, folder):
    return frame.set_index(pd.Index(np.arange(len(frame))[::-1] * 3, name="visit"))


def as_pandas_objects(frame, folder):
    return frame.astype({"hospital": object, "job": object, "visits": object})


def as_chunked_arrow(frame, folder):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])


def as_arrow_dictionaries(frame, folder):
    table = as_chunked_arrow(frame, folder)  # each chunk has a dictionary of its own
    parts = [pa.Table.from_batches([b]) for b in table.to_batches()]
    return pa.concat_tables([p.set_column(4, "job", p["job"].dictionary_encode()) for p in parts])


def as_record_batch(frame, folder):
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


SOURCES = [value for name, value in list(globals().items()) if name.startswith("as_")]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_every_source_gives_the_same_federation(source, tmp_path):
    frame = patients()
    federation, encoding = read(source(frame, tmp_path))
    expected, names = read(frame)
    assert same(federation, expected)
    assert encoding == names


def test_a_parquet_file_encoded_on_disk_gives_the_same_federation(tmp_path, monkeypatch):
    monkeypatch.setattr("lossgap.tabular.on_disk.ROWS_AT_ONCE", 7)
    path = as_parquet(patients(), tmp_path)
    inside, encoding = read(path)
    outside, same_encoding = read(path, on_disk=tmp_path / "rows.npy")
    assert same(inside, outside)
    assert encoding == same_encoding
    assert outside.clients[0].train.kept.source.filename == tmp_path / "rows.npy"
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, "rows.npy"])


@pytest.mark.parametrize(
    ("table", "on_disk", "words"),
    [
        ("p.csv", "rows.npy", r"p\.csv: only parquet files.*on_disk"),
        ("p.parquet", "rows.bin", r"rows\.bin.*\.npy"),
        ("other.parquet", "rows.npy", r"other\.parquet: there is no such file"),
    ],
)
def test_what_cannot_be_encoded_on_disk_is_refused(tmp_path, table, on_disk, words):
    as_parquet(patients(), tmp_path)
    as_csv(patients(), tmp_path)
    with pytest.raises(LossgapError, match=words):
        read(tmp_path / table, on_disk=tmp_path / on_disk)
    with pytest.raises(SettingError, match="on_disk is for parquet files"):
        read(patients(), on_disk=tmp_path / "rows.npy")


def test_parquet_columns_do_not_come_from_folder_names(tmp_path):
    folder = tmp_path / "year=2024"
    folder.mkdir()
    assert same(from_table(as_parquet(patients(), folder)), from_table(patients()))


def test_quoted_newlines_of_a_long_csv(tmp_path):
    pages = np.resize(["\n" * 999 + letter for letter in "abc"], 6000)  # wherever pyarrow cuts, it cuts in quotes
    frame = pd.DataFrame(
        {"hospital": np.resize(["a", "b"], 6000), "page": pages, "disease": np.resize([0, 0, 1, 1], 6000)}
    )
    frame.to_csv(tmp_path / "pages.csv", index=False)
    assert read(tmp_path / "pages.csv")[1].features == ("page=a", "page=b", "page=c")


def test_markers_of_a_csv_are_missing_however_they_are_spaced(tmp_path):
    lines = "a, x,0\nb,   ? ,1\na,NA,1\nb,'?',0\na,\"\",1\nb,null,0\n".replace("'", '"')
    (tmp_path / "p.csv").write_text("hospital,job,disease\n" + lines * 10)
    federation, encoding = read(tmp_path / "p.csv")
    assert encoding.features == ("job=x", "job is missing")
    assert stacked(federation, *ALL).sum(axis=0).tolist() == [10, 50]


def test_client_codes_of_a_csv_keep_their_zeros(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("hospital,x,disease\n" + "01,1,0\n1,2,1\n01,3,1\n1,4,0\n" * 5)
    assert from_table(path).names == ("01", "1")


@pytest.mark.parametrize("names", [[3, 1, 2], [True, False, True], [date(2024, 1, 1), date(2023, 1, 1)], [2.5, 1.5]])
def test_a_client_column_of_any_type_names_clients_in_order_of_appearance(names):
    frame = patients().assign(hospital=np.resize(np.array(names, object), 60))
    given = [str(name).lower() if isinstance(name, bool) else str(name) for name in dict.fromkeys(names)]
    assert list(from_table(pa.Table.from_pandas(frame)).names) == given


def test_from_table_is_read_without_the_names():
    assert same(from_table(patients(), seed=3), read(patients(), seed=3)[0])


# Splits


def test_rows_are_split_as_in_from_arrays():
    frame = patients().assign(row=np.arange(60.0))
    fractions = (0.5, 0.25, 0.25)
    federation, encoding = read(frame, features=["row"], seed=5, fractions=fractions)
    row = encoding.columns[0]
    numbers = [np.rint(client.split(n).x * row.deviation + row.mean) for client in federation.clients for n in ALL]
    expected = split_rows(frame, seed=5, fractions=fractions)
    for found, (client, name) in zip(numbers, [(c, n) for c in expected.clients for n in ALL], strict=True):
        assert np.array_equal(found, client.split(name).x)


def test_targets_belong_to_their_rows():
    frame = patients().assign(row=np.arange(60.0), number=np.arange(60) * 0.1)
    federation, encoding = read(frame, target="number", features=["row"])
    row = encoding.columns[0]
    for client in federation.clients:
        for _, split in client.splits:
            assert np.allclose(split.x[:, 0] * row.deviation + row.mean, 10 * split.y, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_figures_come_from_training_rows_of_all_clients(seed):
    frame = patients(seed=seed)
    rows = split_rows(frame, seed=seed)
    federation, encoding = read(frame, seed=seed, features=["visits", "age"])
    values = frame[["visits", "age"]].astype(float).to_numpy()
    train, everything = numbers_in(rows, "train"), numbers_in(rows, *ALL)
    for column, name in enumerate(("visits", "age")):
        known = pd.Series(values[train, column])
        filled = known.fillna(known.median())
        number = pd.Series(values[everything, column]).fillna(known.median())
        expected = (number - filled.mean()) / filled.std(ddof=0)
        found = stacked(federation, *ALL)[:, encoding.features.index(name)]
        assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_changed_row_outside_training_changes_only_itself(split):
    frame = patients()
    row = numbers_in(split_rows(frame), split)[0]
    changed = frame.copy()
    changed.loc[row, ["age", "visits", "job"]] = [1e6, 500, "astronaut"]
    before, after = (from_table(f) for f in (frame, changed))
    differs = (stacked(before, *ALL) != stacked(after, *ALL)).any(axis=1)
    assert numbers_in(split_rows(frame), *ALL)[differs].tolist() == [row]


def test_a_changed_training_row_changes_others():
    frame = patients()
    row = numbers_in(split_rows(frame), "train")[0]
    changed = frame.copy()
    changed.loc[row, "age"] = 1e6
    differs = (stacked(from_table(frame), *ALL) != stacked(from_table(changed), *ALL)).any(axis=1)
    assert differs.mean() > 0.9


# Features


def one_column(values, kind=None):
    """Training rows, other rows and the encoding of a column, given its values in training rows and in others."""
    frame = patients()
    rows = split_rows(frame)
    inside, outside = values
    column = np.empty(60, object)
    train = numbers_in(rows, "train")
    rest = numbers_in(rows, "validation", "test")
    column[train] = np.resize(np.array(inside, object), len(train))
    column[rest] = np.resize(np.array(outside, object), len(rest))
    table = pa.table({"hospital": frame["hospital"], "disease": frame["disease"], "x": pa.array(column.tolist(), kind)})
    federation, encoding = read(table)
    return stacked(federation, "train"), stacked(federation, "validation", "test"), encoding


def test_a_category_that_training_rows_do_not_hold_is_zero_everywhere():
    inside, outside, encoding = one_column((["b", "a"], ["c"]))
    assert encoding.features == ("x=a", "x=b")
    assert inside.tolist() == np.resize([[0.0, 1.0], [1.0, 0.0]], (len(inside), 2)).tolist()
    assert not outside.any()


def test_missing_text_is_a_category_if_training_rows_lack_values():
    inside, outside, encoding = one_column((["b", None], [None, "b", "c"]))
    assert encoding.features == ("x=b", "x is missing")
    assert inside[:2].tolist() == [[1, 0], [0, 1]]
    assert sorted(map(tuple, np.unique(outside, axis=0))) == [(0, 0), (0, 1), (1, 0)]


def test_missing_text_outside_training_only_is_zero_everywhere():
    _, outside, encoding = one_column((["b", "a"], [None]))
    assert encoding.features == ("x=a", "x=b")
    assert not outside.any()


def test_missing_numbers_are_the_training_median_and_marked():
    inside, outside, encoding = one_column(([1.0, 3.0, 8.0, None], [None, 3.0]))
    assert encoding.features == ("x", "x is missing")
    assert encoding.columns[0].median == 3
    assert inside[3].tolist() == [inside[1, 0], 1]
    assert np.unique(outside[:, 0]).tolist() == [inside[1, 0]]
    assert sorted(set(outside[:, 1])) == [0, 1]
    assert inside[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert inside[:, 0].std() == pytest.approx(1, abs=1e-6)


def test_missing_numbers_outside_training_only_are_the_median_without_a_mark():
    inside, outside, encoding = one_column(([1.0, 3.0, 8.0], [None]))
    assert encoding.features == ("x",)
    assert np.unique(outside).tolist() == [inside[1, 0]]


def test_nan_is_missing():
    with_nan = one_column(([1.0, 3.0, float("nan")], [float("nan")]))
    with_null = one_column(([1.0, 3.0, None], [None]))
    assert np.array_equal(with_nan[0], with_null[0])
    assert with_nan[2] == with_null[2]


@pytest.mark.parametrize("constant", [0.1, 1e9 + 0.1, -3])
def test_a_column_that_is_constant_on_training_rows_is_zero(constant):
    inside, outside, encoding = one_column(([constant], [constant + 1]), pa.float64())
    assert encoding.features == ("x",)
    assert not inside.any()
    assert not outside.any()


def test_a_column_without_any_value_is_zero_and_marked():
    inside, outside, encoding = one_column(([None], [None]))
    assert encoding.features == ("x", "x is missing")
    assert np.unique(inside, axis=0).tolist() == np.unique(outside, axis=0).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(5, 2), pa.decimal256(40, 1)],
    ids=str,
)
def test_numbers_of_every_type_are_standardised(kind):
    values = [0, 1, 0, 1] if kind != pa.bool_() else [False, True, False, True]
    inside, _, encoding = one_column((values, values), kind if kind != pa.float16() else None)
    assert encoding.features == ("x",)
    assert np.unique(inside).tolist() == [-1, 1]


def test_half_floats_are_numbers():
    table = pa.Table.from_pandas(patients()).append_column("half", pa.array(np.arange(60).astype(np.float16)))
    assert read(table, features=["half"])[1].columns[0].deviation > 10


def test_whole_numbers_beyond_the_precision_of_floats_are_rounded():
    inside, _, encoding = one_column(([2**64 - 1, 0], [1]), pa.uint64())
    assert encoding.columns[0].mean == 2.0**63
    assert np.unique(inside).tolist() == [-1, 1]


def test_few_rows_may_have_a_text_each():
    frame = patients(60).head(30).assign(note=[f"n{k}" for k in range(30)])
    assert len(read(frame, features=["note"])[1].features) == 18


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_of_every_type_is_one_hot(kind):
    inside, _, encoding = one_column((["b", "a"], ["a"]), kind)
    assert encoding.features == ("x=a", "x=b")
    assert inside.sum(axis=1).tolist() == [1] * len(inside)


def test_categories_that_are_numbers_are_one_hot():
    frame = patients().assign(ward=pd.Categorical(np.resize([7, 10, 8], 60)))
    assert read(frame, features=["ward"])[1].features == ("ward=10", "ward=7", "ward=8")


def test_features_are_float32_rows_in_the_order_asked_for():
    federation, encoding = read(patients(), features=["job", "age"])
    assert [column.name for column in encoding.columns] == ["job", "age"]
    assert {part.x.dtype for client in federation.clients for _, part in client.splits} == {np.dtype(np.float32)}
    assert federation.features == (len(encoding.features),)


def test_all_other_columns_are_features_in_table_order():
    assert [column.name for column in read(patients())[1].columns] == ["age", "visits", "smoker", "job"]


# Targets


def every_third(values) -> pd.Series:
    """Targets that change with every third row, so that each client has all of them."""
    return pd.Series(values).take(np.arange(60) // 3 % len(values)).reset_index(drop=True)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["no", "yes", "maybe"], ("maybe", "no", "yes")),
        ([10, 9, 30], ("9", "10", "30")),
        ([True, False], ("False", "True")),
        (pd.Categorical(["b", "a"], categories=["z", "b", "a"]), ("a", "b")),
        (pd.Categorical([10, 9]), ("9", "10")),
        (pd.Categorical([1.5, 0.5]), ("0.5", "1.5")),
    ],
    ids=str,
)
def test_classes_are_the_sorted_distinct_values(values, names):
    column = every_third(values)
    federation, encoding = read(patients().assign(disease=column, row=np.arange(60.0)), features=["row"])
    assert encoding.classes == names
    assert federation.classes == len(names)
    row = encoding.columns[0]
    for client in federation.clients:
        number = np.rint(client.test.x[:, 0] * row.deviation + row.mean).astype(int)
        assert [names[k] for k in client.test.y] == [str(column[k]) for k in number]


def test_floats_are_numbers_to_predict():
    federation, encoding = read(patients().assign(disease=np.linspace(0, 1, 60)))
    assert federation.classes is None
    assert encoding.classes is None
    assert {a.dtype for a in arrays(federation)} == {np.dtype(np.float32), np.dtype(np.float64)}


def test_half_floats_can_be_classes():
    table = pa.Table.from_pandas(patients().drop(columns="disease"))
    halves = pa.array(every_third([1.5, 0.5]).to_numpy().astype(np.float16))
    assert read(table.append_column("disease", halves), task="classification")[1].classes == ("0.5", "1.5")


def test_task_makes_floats_classes():
    federation, encoding = read(patients().assign(disease=every_third([0.5, 2, -1])), task="classification")
    assert encoding.classes == ("-1.0", "0.5", "2.0")
    assert federation.classes == 3


@pytest.mark.parametrize("values", [[0, 1], [0.0, 1.0, 2.0], [False, True], pd.Categorical([1, 2])], ids=str)
def test_task_makes_whole_numbers_numbers_to_predict(values):
    column = every_third(values)
    federation = from_table(patients().assign(disease=column), task="regression")
    assert federation.classes is None
    found = np.unique(np.concatenate(arrays(federation)[1::2]))
    assert found.tolist() == [float(value) for value in values]


def test_regression_is_split_whatever_the_targets():
    frame = patients().assign(row=np.arange(60.0))
    splits = [
        from_table(frame.assign(disease=disease), features=["row"], task="regression")
        for disease in (np.arange(60), np.linspace(0, 1, 60))
    ]
    assert all(np.array_equal(a.x, b.x) for a, b in zip(*[[c.test for c in s.clients] for s in splits], strict=True))


def test_a_client_with_one_class_is_warned_of_once():
    frame = patients()
    frame.loc[frame["hospital"] == "lyon", "disease"] = "flu"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(frame)
    assert [w.category for w in caught] == [DataWarning]
    assert "'lyon'" in str(caught[0].message)


# Real files


@pytest.fixture(scope="module")
def heart(tmp_path_factory, real_data: Path) -> Path:
    lines = [",".join(("hospital", *HEART, "disease"))]
    for hospital in HOSPITALS:
        rows = (real_data / "heart" / f"processed.{hospital}.data").read_text().split()
        lines += [f"{hospital},{row}" for row in rows]
    path = tmp_path_factory.mktemp("heart") / "heart.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_heart_as_four_hospitals(heart):
    federation, encoding = read(heart)
    assert federation.names == HOSPITALS
    assert [sum(len(split) for _, split in client.splits) for client in federation.clients] == [303, 294, 123, 200]
    assert encoding.classes == ("0", "1", "2", "3", "4")
    raw = pd.read_csv(heart, na_values="?")
    everything = stacked(federation, *ALL)
    for name in HEART:
        assert name in encoding.features  # a number in spite of its "?"
        lacking = raw[name].isna().sum()
        if lacking:
            assert everything[:, encoding.features.index(f"{name} is missing")].sum() == lacking


def test_heart_equals_the_same_table_read_by_pandas(heart):
    assert same(from_table(heart), from_table(pd.read_csv(heart, na_values="?")))


def test_heart_against_a_plain_pandas_encoding(heart):
    federation, encoding = read(heart, seed=42)
    raw = pd.read_csv(heart, na_values="?")
    rows = split_rows(raw, seed=42)
    train = raw.loc[numbers_in(rows, "train"), list(HEART)]
    filled = raw[list(HEART)].fillna(train.median())
    known = filled.loc[train.index]
    expected = ((filled - known.mean()) / known.std(ddof=0)).to_numpy()[numbers_in(rows, *ALL)]
    found = stacked(federation, *ALL)[:, [encoding.features.index(name) for name in HEART]]
    assert np.allclose(found, expected, atol=1e-5)
    labels = np.concatenate([split.y for client in federation.clients for _, split in client.splits])
    assert np.array_equal(labels, raw["disease"].to_numpy()[numbers_in(rows, *ALL)])


@pytest.fixture(scope="module")
def adult(tmp_path_factory, real_data: Path) -> Path:
    lines = gzip.decompress((real_data / "adult" / "adult.data.gz").read_bytes()).decode().strip().split("\n")
    owners = ["doctorate" if line.split(", ")[3] == "Doctorate" else "rest" for line in lines]
    path = tmp_path_factory.mktemp("adult") / "adult.csv"
    path.write_text("\n".join([f"{ADULT},client", *(f"{a}, {b}" for a, b in zip(lines, owners, strict=True))]))
    return path


def test_adult_as_doctorates_and_the_rest(adult):
    federation, encoding = read(adult, client="client", target="income")
    sizes = {client.name: sum(len(split) for _, split in client.splits) for client in federation.clients}
    assert sizes == {"rest": 32148, "doctorate": 413}
    assert encoding.classes == ("<=50K", ">50K")
    everything = stacked(federation, *ALL)
    for name, lacking in (("workclass", 1836), ("occupation", 1843), ("country", 583)):
        assert everything[:, encoding.features.index(f"{name} is missing")].sum() == lacking
    numbers = [encoding.features.index(name) for name in ("age", "fnlwgt", "education-num", "hours")]
    assert np.allclose(stacked(federation, "train")[:, numbers].mean(axis=0), 0, atol=1e-4)
    assert np.allclose(stacked(federation, "train")[:, numbers].std(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_adult_country_that_training_rows_lack_is_zero_everywhere(adult, seed):
    raw = pd.read_csv(adult, skipinitialspace=True, na_values="?")
    federation, encoding = read(adult, client="client", target="income", features=["country"], seed=seed)
    rows = split_rows(raw.rename(columns={"client": "hospital"}), target="income", seed=seed)
    train = set(raw.loc[numbers_in(rows, "train"), "country"])
    country = raw.loc[numbers_in(rows, *ALL), "country"]
    assert ("country=Holand-Netherlands" in encoding.features) == ("Holand-Netherlands" in train)  # it has one row
    assert np.array_equal(stacked(federation, *ALL).sum(axis=1), country.isin(train))


# Errors


def changed(**columns) -> pd.DataFrame:
    return patients().assign(**columns)


def with_missing(column: str, rows: list[int]) -> pd.DataFrame:
    frame = patients()
    frame.loc[rows, column] = None
    return frame


def texts(values) -> np.ndarray:
    return np.resize(np.array(values, object), 60)


BAD_ROWS = {
    "missing client": (
        with_missing("hospital", [17, 20]),
        {},
        r"Row 17 .*names no client: column 'hospital'.* 1 other",
    ),
    "empty client": (changed(hospital=texts(["a", "b", ""])), {}, r"Row 2 .*names no client"),
    "nan client": (changed(hospital=np.resize([1.0, np.nan], 60)), {}, r"Row 1 .*names no client"),
    "client of lists": (
        pa.Table.from_pandas(changed(hospital=[[1]] * 60)),
        {},
        r"'hospital' is of type list.*Give text",
    ),
    "missing target": (
        with_missing("disease", [4, 7, 8]),
        {},
        r"Client 'lille': 2 rows have no target, .* 'disease'.*\(3 rows of 2 clients.*dropna\(subset=\['disease'\]\)",
    ),
    "nan target": (changed(disease=np.resize([0.5, np.nan], 60)), {}, r"'lyon': 10 rows have no target"),
    "nan target in polars": (
        pl.from_pandas(patients()).with_columns(disease=pl.Series(np.resize([0.5, np.nan], 60))),
        {},
        "'lyon': 10 rows have no target",
    ),
    "no target at all": (changed(disease=[None] * 60), {}, r"Client 'lyon': 20 rows have no target"),
    "whole floats": (
        changed(disease=np.resize([0.0, 1.0], 60)),
        {},
        r"'disease', holds 2 whole numbers from 0.0 to 1.0, written as double: classes or numbers\? Say task=",
    ),
    "whole floats from 1": (changed(disease=np.resize([1.0, 2.0, 7.0], 60)), {}, "3 whole numbers from 1.0 to 7.0"),
    "many classes": (
        pd.concat([patients()] * 5).assign(disease=np.arange(300)),
        {},
        r"'disease', holds 300 distinct values of type int64: really classes\? Say task=",
    ),
    "regression of text": (patients(), {"task": "regression"}, "'disease', is text.*Convert it to numbers"),
    "infinite target": (changed(disease=np.resize([0.5, np.inf], 60)), {}, "Client 'lille', column 'disease'.*inf"),
    "date target": (changed(disease=[date(2024, 1, 1)] * 60), {}, "Column 'disease' holds dates"),
    "infinite feature": (
        changed(age=np.where(np.arange(60) == 31, -np.inf, 1.0)),
        {},
        r"Client 'lille', column 'age': the value -inf in row 31 is infinite.*\(1 such.*Replace it",
    ),
    "beyond float32": (changed(age=np.resize([1.0, 1e39], 60)), {}, r"'age': the value 1e\+39"),
    "date": (changed(seen=[date(2024, 1, 1)] * 60), {}, r"Column 'seen' holds dates or times \(date32.*days since"),
    "timestamp": (changed(seen=[datetime(2024, 1, 1)] * 60), {}, r"Column 'seen' holds dates or times \(timestamp"),
    "time": (changed(seen=[time(1)] * 60), {}, r"Column 'seen' holds dates or times \(time64"),
    "duration": (changed(seen=[timedelta(1)] * 60), {}, r"Column 'seen' holds dates or times \(duration"),
    "dates as categories": (changed(seen=pd.Categorical([date(2024, 1, 1)] * 60)), {}, "Column 'seen' holds dates"),
    "list": (changed(scans=[[1, 2]] * 60), {}, r"Column 'scans' is nested \(list.*column of its own"),
    "struct": (changed(scans=[{"a": 1}] * 60), {}, r"Column 'scans' is nested \(struct"),
    "binary": (changed(scans=[b"x"] * 60), {}, "Column 'scans' is of type binary, neither numbers nor text"),
    "period": (changed(scans=pd.period_range("2024", periods=60)), {}, "Column 'scans' is of type extension"),
    "numbers as text": (changed(age=texts(["1", " -2.5e3", ".5"])), {}, "Column 'age' is text.* are numbers. Convert"),
    "numbers and a marker as text": (
        changed(age=[str(k) for k in range(58)] + ["?", "n/a"]),
        {},
        r"'age' is text, but its 60 .*numbers, except '\?', 'n/a'\..*to_numeric\(frame\['age'\], errors=\"coerce\"\)",
    ),
    "identifier": (
        changed(patient=[f"p{k}" for k in range(60)], hospital=texts(["a", "b"])),
        {"fractions": (0.9, 0.05, 0.05)},
        r"Column 'patient' has 5\d distinct texts in 5\d training rows.*features=\[",
    ),
    "free text": (
        pd.concat([patients(3000)] * 2).assign(note=np.resize([f"n{k}" for k in range(1500)], 6000)),
        {},
        r"Column 'note' has 1\d\d\d distinct texts",
    ),
    "too few rows": (changed(hospital=["a"] * 58 + ["b"] * 2), {}, "Client 'b' has 2 rows, too few"),
    "one client": (changed(hospital="a"), {}, "one client, 'a'"),
    "no rows": (patients().head(0), {}, "The DataFrame has no rows"),
    "same name twice": (
        pd.concat([patients(), patients()[["age"]]], axis=1),
        {},
        "DataFrame cannot be read as a table: Duplicate column names.*every column its own name",
    ),
    "same name twice in arrow": (
        pa.Table.from_pandas(patients()).append_column("age", pa.array(range(60))),
        {},
        r"column names \['age'\] stand twice",
    ),
    "mixed types": (changed(age=texts([1, "x"])), {}, "cannot be read as a table: .*column age.*one type"),
    "series": (patients()["age"], {}, r"The (table is a )?Series"),
    "lazy frame": (pl.DataFrame({"a": [1]}).lazy(), {}, "The table is a LazyFrame. Give the path"),
    "list of rows": ([[1, 2]], {}, "The table is a list. Give the path"),
}


@pytest.mark.parametrize(("table", "options", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows_are_refused_by_name(table, options, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        from_table(table, **options)


BAD_SETTINGS = {
    "misspelt client": (
        {"client": "hopsital"},
        "no column 'hopsital' for the client.*mean 'hospital'.*'age', 'visits'",
    ),
    "misspelt target": ({"target": "diseases"}, "no column 'diseases' for the target.*mean 'disease'"),
    "unlike any column": ({"target": "xyz"}, "no column 'xyz' for the target. Its columns are 'hospital', "),
    "misspelt feature": ({"features": ["Age"]}, "no column 'Age' for the feature.*mean 'age'"),
    "number as a name": ({"features": [3]}, "no column 3 for the feature"),
    "client is target": ({"target": "hospital"}, "'hospital' is both client and target"),
    "client in features": ({"features": ["age", "hospital"]}, "features names 'hospital', which is the client"),
    "target in features": ({"features": ["disease"]}, "features names 'disease', which is the target"),
    "feature twice": ({"features": ["age", "age"]}, "features names 'age' twice"),
    "features as text": ({"features": "age"}, r"features is text: 'age'. Use a list: features=\['age'\]"),
    "no features": ({"features": []}, "No column is left as a feature"),
    "unknown task": ({"task": "regresion"}, "task is 'regresion'.*'classification', 'regression'"),
    "fractions": ({"fractions": (0.5, 0.5, 0.5)}, "sum to 1"),
}


@pytest.mark.parametrize(("options", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_refused_by_name(options, message):
    with pytest.raises(SettingError, match=f"(?s){message}"):
        from_table(patients(), **options)


def test_a_table_of_client_and_target_only_is_refused():
    with pytest.raises(SettingError, match="No column is left as a feature"):
        from_table(patients()[["hospital", "disease"]])


def test_many_classes_are_accepted_when_asked_for():
    frame = pd.concat([patients()] * 10).assign(disease=np.resize(np.arange(150), 600))
    assert from_table(frame, task="classification").classes == 150


def test_missing_clients_and_targets_of_a_csv_are_found(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("hospital,x,disease\n" + "a,1,0\nb,2,1\n" * 5 + "NA,3,1\n")
    with pytest.raises(DataError, match=r"Row 10 .* names no client"):
        from_table(path)
    path.write_text("hospital,x,disease\n" + "a,1,0\nb,2,1\n" * 5 + "b,3, ?\n")
    with pytest.raises(DataError, match="Client 'b': 1 rows have no target"):
        from_table(path)


GOOD = ("hospital,age,disease\n" + "lyon,50,0\nlille,60,1\nlyon,70,1\nlille,80,0\n" * 5).encode()
BAD_FILES = {
    "ragged row": (
        "p.csv",
        GOOD + b"lyon,51\n",
        r"cannot be read as csv: .*Expected 3 columns, got 2: lyon,51.* as many",
    ),
    "long row": ("p.csv", GOOD + b"lyon,51,0,7\n", "Expected 3 columns, got 4: lyon,51,0,7"),
    "empty": ("p.csv", b"", "cannot be read as csv: Empty CSV file"),
    "header only": ("p.csv", GOOD[:21], "has no rows"),
    "latin 1": ("p.csv", GOOD + "Orléans,51,0\n".encode("latin-1"), "it is not UTF-8 text. Save it as UTF-8"),
    "latin 1 header": ("p.csv", GOOD.replace(b"age", b"\xe4ge"), "it is not UTF-8 text"),
    "utf-16": ("p.csv", GOOD.decode().encode("utf-16"), "it is not UTF-8 text"),
    "open quote": (
        "p.csv",
        GOOD + b'lyon,51,"0\nlyon,52,0\nlyon,53,1\n',
        r"a quote is opened before '0\\nlyon.*never closed",
    ),
    "truncated gz": ("p.csv.gz", gzip.compress(GOOD * 50)[:-9], "cannot be read as csv.gz: .*runcated"),
    "no gz": ("p.csv.gz", GOOD, "cannot be read as csv.gz: .*incorrect header check"),
    "not parquet": ("p.parquet", GOOD, "cannot be read as parquet: .*It may be cut off"),
    "empty parquet": ("p.parquet", b"", "cannot be read as parquet: .*size is 0 bytes"),
    "unknown suffix": ("p.xlsx", GOOD, r"ends in none of \.csv, .*\.parquet"),
    "no suffix": ("csv", GOOD, r"ends in none of \.csv"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_refused_by_path(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=re.escape(str(path)) + f"(?s:.*){message}"):
        from_table(path)


def test_a_value_with_newlines_at_the_end_is_no_open_quote(tmp_path):
    path = tmp_path / "p.csv"
    path.write_bytes(GOOD.replace(b",0\n", b',"no\nsign"\n').replace(b",1\n", b',"a\nsign"\n') + b"\n")
    assert read(path)[1].classes == ("a\nsign", "no\nsign")


@pytest.mark.parametrize("cut", [1, 8, 100, 1000])
def test_truncated_parquet_is_refused_and_keeps_its_cause(cut, tmp_path):
    path = as_parquet(patients(), tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(FileError, match=r"p\.parquet: cannot be read as parquet: .*cut off") as caught:
        from_table(path)
    assert isinstance(caught.value.__cause__, pa.ArrowInvalid | OSError)


def test_damaged_pages_with_checksums_are_refused(tmp_path):
    path = tmp_path / "p.parquet"
    table = pa.table({"hospital": ["a", "b"] * 500, "x": np.arange(1000.0), "disease": [0, 1] * 500})
    pa_parquet.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[content.find(np.float64(500).tobytes()) + 6] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match="could not verify page integrity"):
        from_table(path)


def test_parquet_text_that_is_not_utf8_is_refused(tmp_path):
    offsets, letters = pa.py_buffer(np.arange(61, dtype=np.int32)), pa.py_buffer(b"ab\xff" * 20)
    table = pa.Table.from_pandas(patients().drop(columns="job"))
    table = table.append_column("job", pa.Array.from_buffers(pa.string(), 60, [None, offsets, letters]))
    pa_parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(FileError, match=r"p\.parquet: cannot be read as parquet: .*Invalid UTF8"):
        from_table(tmp_path / "p.parquet")


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.parquet", "nowhere/p.csv", "nul\0.csv"])
def test_a_file_that_is_not_there_is_named(name, tmp_path):
    with pytest.raises(FileError, match=r"there is no such file. Check the path"):
        from_table(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "p.parquet").mkdir()
    with pytest.raises(FileError, match=r"p\.parquet: is a folder"):
        from_table(tmp_path / "p.parquet")


def test_errors_of_one_kind_are_caught_as_that_kind(tmp_path):
    with pytest.raises(OSError, match="no such file"):
        from_table(tmp_path / "p.csv")


def test_pyarrow_is_imported_for_tables_only():
    code = "import sys, lossgap.federation; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


# Damaged files end in an error that says what to do, or in a federation


def damaged_csv() -> bytes:
    return patients().to_csv(index=False).encode()


def damaged_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pa_parquet.write_table(pa.Table.from_pandas(patients()), sink)
    return sink.getvalue().to_pybytes()


@st.composite
def damages(draw, content: bytes, alphabet: list[int]):
    damaged = bytearray(content)
    places = st.integers(0, len(content) - 1) | st.integers(max(0, len(content) - 2000), len(content) - 1)
    for place in draw(st.lists(places, max_size=4)):
        damaged[place] = draw(st.sampled_from(alphabet))
    kind = draw(st.sampled_from(["whole", "whole", "whole", "cut", "gap", "twice"]))
    start = draw(st.integers(0, len(damaged)))
    if kind == "cut":
        return bytes(damaged[:start])
    if kind == "gap":
        return bytes(damaged[:start] + damaged[start + draw(st.integers(1, 40)) :])
    return bytes(damaged[:start] + damaged[:start]) if kind == "twice" else bytes(damaged)


def outcome(path: Path) -> Federation | LossgapError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return from_table(path)
    except LossgapError as error:
        return error


def ends_well(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    result = outcome(path)
    if isinstance(result, Federation):
        assert len(result.clients) > 1
        assert all(np.isfinite(a).all() for a in arrays(result))
    else:
        assert len(str(result)) > 30  # cause and fix


CSV, PARQUET = damaged_csv(), damaged_parquet()


@settings(max_examples=300, deadline=None, database=None)
@given(content=damages(CSV, [*b'\n\r,"?.-e:09ax \0', 0xC3, 0xFF]))
def test_damaged_csv_ends_well(content, tmp_path_factory):
    ends_well(tmp_path_factory.getbasetemp() / "damaged.csv", content)


@settings(max_examples=300, deadline=None, database=None)
@given(content=damages(PARQUET, list(range(256))))
def test_damaged_parquet_ends_well(content, tmp_path_factory):
    ends_well(tmp_path_factory.getbasetemp() / "damaged.parquet", content)


@settings(max_examples=100, deadline=None, database=None)
@given(content=damages(gzip.compress(CSV, mtime=0), list(range(256))))
def test_damaged_gz_ends_well(content, tmp_path_factory):
    ends_well(tmp_path_factory.getbasetemp() / "damaged.csv.gz", content)


# Size


def test_many_rows_and_clients_take_a_moment(tmp_path):
    rng = np.random.default_rng(0)
    rows = 100_000
    table = pa.table(
        {"hospital": rng.integers(0, 500, rows), "disease": rng.integers(0, 2, rows)}
        | {f"x{k}": rng.normal(size=rows) for k in range(6)}
        | {f"t{k}": rng.choice(["a", "b", "c"], rows) for k in range(2)}
    )
    pa_csv.write_csv(table, tmp_path / "big.csv")
    federation = from_table(tmp_path / "big.csv")
    assert len(federation.clients) == 500
    assert sum(federation.rows(name).sum() for name in ALL) == rows


# What a user should know


def notices(frame: pd.DataFrame, **settings) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(frame, **settings)
    return " ".join(str(warning.message) for warning in caught if warning.category is DataWarning)


def test_a_category_that_no_training_row_holds_is_told_with_its_client():
    frame = patients().assign(note=["common"] * 60)
    (row,) = numbers_in(split_rows(frame), "test")[:1]
    frame.loc[row, "note"] = "rare"
    said = notices(frame, features=["note"])
    assert "No training row holds 'rare' in column 'note', but 1 validation or test rows" in said
    assert repr(frame.loc[row, "hospital"]) in said


@pytest.mark.parametrize("column", ["age", "job"])
def test_a_client_that_lacks_a_whole_column_is_told(column):
    frame = patients()
    frame.loc[frame["hospital"] == "lille", column] = None
    assert f"Training rows of 'lille' have no value in column '{column}'" in notices(frame)


@pytest.mark.parametrize("column", ["age", "job"])
def test_a_column_without_values_is_told(column):
    assert f"Column '{column}' has no value in any training row" in notices(patients().assign(**{column: None}))


def test_many_notices_are_counted_not_listed():
    frame = patients().assign(**{f"empty {k}": None for k in range(9)})
    said = notices(frame)
    assert said.count("has no value") == 5
    assert "And 4 more of this kind." in said


def test_a_plain_table_is_read_without_a_word():
    assert not notices(patients())


@pytest.mark.parametrize("value", ["flu", 1, True])
def test_a_target_of_one_class_is_refused_by_its_value(value):
    with pytest.raises(DataError, match=f"'disease', is {value} in every row: there is nothing to tell apart"):
        from_table(patients().assign(disease=value))


def test_text_after_a_closing_quote_is_refused(tmp_path):
    """Pyarrow would take the rows up to the next quote into the value."""
    path = tmp_path / "p.csv"
    path.write_text('hospital,note,disease\nlyon,"a"b,flu\nlyon,c,none\nlille,"d",flu\nlille,e,none\n')
    with pytest.raises(FileError, match=r"p\.csv: .*in line \d+, text follows a closing quote"):
        read(path)
