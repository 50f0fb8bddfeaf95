"""UCI Adult: who earns more than 50,000 dollars, for people with a doctorate and for everybody else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lossgap.datasets import home
from lossgap.datasets.parts import PARTS, Part, chosen
from lossgap.federation import Federation, Fractions

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "age", "workclass", "weight", "education", "years of education", "marital status", "occupation", "relationship",
    "race", "sex", "capital gain", "capital loss", "hours per week", "country", "income",
)  # fmt: skip
NUMBERS = ("age", "weight", "years of education", "capital gain", "capital loss", "hours per week")
FILES = {"train": "adult.data", "test": "adult.test"}
ROWS = {"train": 32_561, "test": 16_281}
LINES_BEFORE = {"train": 0, "test": 1}


def adult(*, seed: int = 0, parts: Sequence[Part] | None = None, fractions: Fractions = (0.6, 0.2, 0.2)) -> Federation:
    """Incomes of the 1994 census: one client is everybody with a doctorate (594 people), the other the 48,248 others.

    This is the division of the fairness literature: a small group whose incomes follow other rules than those of the
    large one. All 14 columns are features, encoded as `lossgap.tabular.read` states.

    Args:
        seed: of each client's split.
        parts: the publisher's "train" and "test" rows are pooled, since every client splits its own; name one to use
            it alone, such as ("train",), whose clients hold 413 and 32,148 rows.
        fractions: of training, validation and test rows.
    """
    from lossgap import tabular  # imported late, as pyarrow is

    table = people(chosen("adult", parts, there=PARTS))
    federation, _ = tabular.read(table, client="group", target="income", fractions=fractions, seed=seed)
    return federation


def people(parts: Sequence[Part] = PARTS) -> "pa.Table":
    """All people as published, with nulls where a value is missing and the group that each belongs to."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.concat_tables([_of(part) for part in parts])
    group = pc.if_else(pc.equal(table["education"], "Doctorate"), "doctorate", "others")
    income = pc.utf8_rtrim(table["income"], ".")  # test rows end in a full stop
    return table.set_column(table.num_columns - 1, "income", income).append_column("group", group)


def _of(part: Part) -> "pa.Table":
    import pyarrow as pa

    from lossgap.tabular.files import without_header

    path = home.need("adult", FILES[part], name="adult")
    types = {name: pa.int64() if name in NUMBERS else pa.string() for name in COLUMNS}
    return without_header(path, types, count=ROWS[part], skip=LINES_BEFORE[part])
