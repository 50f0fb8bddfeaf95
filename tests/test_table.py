"""A table says the same in every form."""

import csv
import io

import pytest

from lossgap.table import Table

TABLE = Table(
    ("method", "gap", "rows"),
    (("EAGLE λ=1", -0.125, 3), ("50 % & more_or|less", float("nan"), None)),
    bold=frozenset({(0, 1)}),
)


def test_text_keeps_columns_apart_and_marks_the_best():
    head, rule, first, second = str(TABLE).splitlines()
    assert first == "EAGLE λ=1             -0.125*    3"
    assert second.split()[-2:] == ["–", "–"]
    assert len(rule) >= len(head)


def test_text_without_bold_cells_has_no_room_for_marks():
    assert str(Table(("a", "b"), (("x", 1.0),))).splitlines()[-1] == "x  1.000"


def test_markdown_is_a_pipe_table():
    assert TABLE.markdown().splitlines() == [
        "| method | gap | rows |",
        "| --- | ---: | ---: |",
        "| EAGLE λ=1 | **-0.125** | 3 |",
        "| 50 % & more_or\\|less | – | – |",
    ]


def test_latex_escapes_what_it_would_not_print():
    lines = TABLE.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert r"EAGLE $\lambda$=1 & \textbf{-0.125} & 3 \\" in lines
    assert r"50 \% \& more\_or|less & -- & -- \\" in lines
    assert lines[-1] == r"\end{tabular}"


def test_csv_holds_the_values_in_full():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [["method", "gap", "rows"], ["EAGLE λ=1", "-0.125", "3"], ["50 % & more_or|less", "", ""]]


@pytest.mark.parametrize("form", [str, Table.markdown, Table.latex, Table.csv])
def test_a_table_without_rows_still_has_its_head(form):
    assert "method" in form(Table(("method", "gap"), ()))
