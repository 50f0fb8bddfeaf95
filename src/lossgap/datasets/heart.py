"""UCI Heart Disease: patients of four hospitals, and whether they are ill."""

from typing import TYPE_CHECKING, Literal

from lossgap.datasets import home
from lossgap.errors import require
from lossgap.federation import Federation, Fractions

if TYPE_CHECKING:
    import pyarrow as pa

HOSPITALS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
"""Published rows of each."""

COLUMNS = (
    "age", "sex", "chest pain", "blood pressure", "cholesterol", "blood sugar", "ecg", "heart rate", "angina",
    "st depression", "st slope", "vessels", "thallium", "disease",
)  # fmt: skip
CODES = ("chest pain", "ecg", "st slope", "thallium")
"""Numbers that stand for kinds, not amounts."""

MOSTLY_MISSING = ("st slope", "vessels", "thallium")


def heart(
    *, seed: int = 0, missing: Literal["drop", "fill"] = "drop", fractions: Fractions = (0.6, 0.2, 0.2)
) -> Federation:
    """Heart disease in Cleveland, Hungary, Switzerland and a Veterans Affairs hospital: four clients as they are.

    The task is to tell patients with a narrowed artery (published classes 1 to 4) from those without (0). Kinds, such
    as that of chest pain, become 0/1 features and amounts are standardised, as `lossgap.tabular.read` states.

    Args:
        seed: of each client's split.
        missing: "drop" leaves out the three columns that three hospitals hardly recorded, then patients who lack a
            value: 303, 261, 46 and 130 remain. "fill" keeps all columns and all 303, 294, 123 and 200 patients, fills
            amounts with their median and marks what was missing.
        fractions: of training, validation and test rows.
    """
    require(missing in ("drop", "fill"), f"heart: missing is {missing!r}.", 'Use "drop" or "fill".')
    from lossgap import tabular  # imported late, as pyarrow is

    table = patients()
    if missing == "drop":
        table = table.drop_columns(list(MOSTLY_MISSING)).drop_null()
    federation, _ = tabular.read(table, client="hospital", target="disease", fractions=fractions, seed=seed)
    return federation


def patients() -> "pa.Table":
    """All patients as published, hospital by hospital, with nulls where a value is missing."""
    import pyarrow as pa

    return pa.concat_tables([_of(hospital, rows) for hospital, rows in HOSPITALS.items()])


def _of(hospital: str, rows: int) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from lossgap.tabular.files import without_header

    path = home.need("heart", f"processed.{hospital}.data", name="heart")
    table = without_header(path, dict.fromkeys(COLUMNS, pa.float64()), count=rows)
    columns = dict(zip(COLUMNS, table.columns, strict=True))
    columns |= {name: columns[name].cast(pa.int64()).cast(pa.string()).dictionary_encode() for name in CODES}
    columns["disease"] = pc.if_else(pc.greater(columns["disease"], 0), "ill", "healthy")
    return pa.table({"hospital": pa.repeat(hospital, rows), **columns})
