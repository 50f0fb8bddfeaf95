"""What a user should know of columns that are encoded all the same: values that lack, categories that are new."""

import warnings
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lossgap.errors import DataWarning
from lossgap.federation import Federation
from lossgap.tabular.columns import Category, Number, Values

SHOWN = 5


def warn_of_columns(drawn: Federation, columns: Mapping[str, Values], encoders: tuple[Number | Category, ...]) -> None:
    """One warning for all columns of which there is something to say; `drawn` holds row numbers as features."""
    notices = [notice for encoder in encoders for notice in _notices(drawn, columns[encoder.name], encoder)]
    if notices:
        more = f" And {len(notices) - SHOWN} more of this kind." if len(notices) > SHOWN else ""
        warnings.warn(" ".join(notices[:SHOWN]) + more, DataWarning, stacklevel=5)


def _notices(drawn: Federation, values: Values, encoder: Number | Category) -> list[str]:
    lacking = [client.name for client in drawn.clients if _missing(values, client.train.x[:, 0]).all()]
    if len(lacking) == len(drawn.clients):
        return [f"Column {encoder.name!r} has no value in any training row: it tells nothing. Leave it out."]
    found = []
    if lacking:
        found.append(
            f"Training rows of {_listed(lacking)} have no value in column {encoder.name!r}: it is filled by what the "
            "other clients' rows say, and its mark for missing values tells whose row it is."
        )
    return found + (_new_categories(drawn, values, encoder) if isinstance(encoder, Category) else [])


def _new_categories(drawn: Federation, values: pa.Array, encoder: Category) -> list[str]:
    known = pa.array(encoder.categories, values.type)
    new = pc.and_(values.is_valid(), pc.invert(pc.is_in(values, value_set=known))).to_numpy(zero_copy_only=False)
    if not new.any():
        return []
    owners = [c.name for c in drawn.clients if any(new[split.x[:, 0]].any() for _, split in c.splits)]
    names = values.filter(pa.array(new)).unique().to_pylist()
    return [
        f"No training row holds {_listed(names)} in column {encoder.name!r}, but {new.sum()} validation or test rows "
        f"of {_listed(owners)} do: all features of the column are 0 there."
    ]


def _missing(values: Values, rows: np.ndarray) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return np.isnan(values[rows])
    return values.take(pa.array(rows)).is_null().to_numpy(zero_copy_only=False)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
