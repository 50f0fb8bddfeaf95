"""A site's rows. They are read here, on the site's own machine, and go nowhere else."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import lossgap as lg
from my_federation.agreed import CLASSES, FEATURES, SEED, TARGET

SPLIT = "split"
"""A column that says "train", "validation" or "test" of each row. Without it rows are dealt out 60 : 20 : 20."""

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def read(path: Path, site: str) -> lg.Client:
    """The rows of a csv file whose first line names its columns."""
    if not path.exists():
        raise lg.DataError(f"Site {site!r}: {path} is not there. Set DATA in site/settings.sh to your table.")
    table = pa.csv.read_csv(path)
    missing = [name for name in (*FEATURES, TARGET) if name not in table.column_names]
    if missing:
        raise lg.DataError(f"Site {site!r}: {path} has no column {', '.join(missing)}, as was agreed in agreed.py.")
    x = np.column_stack([(_numbers(table, name, site) - centre) / scale for name, (centre, scale) in FEATURES.items()])
    y = _classes(table, site)
    parts = _parts(table)
    return lg.Client(site, *(lg.Split(x[parts == name].astype(np.float32), y[parts == name]) for name in SHARES))


def _numbers(table: pa.Table, name: str, site: str) -> np.ndarray:
    numbers = table[name].cast(pa.float64()).to_numpy()
    if not np.isfinite(numbers).all():
        raise lg.DataError(f"Site {site!r}: column {name} has missing values. Fill them or leave these rows out.")
    return numbers


def _classes(table: pa.Table, site: str) -> np.ndarray:
    names = [str(name) for name in table[TARGET].to_pylist()]
    strange = sorted(set(names) - set(CLASSES))
    if strange:
        raise lg.DataError(
            f"Site {site!r}: {TARGET} is {', '.join(strange)} in some rows, and not {' or '.join(CLASSES)}."
        )
    return np.array([CLASSES.index(name) for name in names], np.int32)


def _parts(table: pa.Table) -> np.ndarray:
    """To which part each row belongs."""
    if SPLIT in table.column_names:
        return np.array(table[SPLIT].to_pylist())
    rows = table.num_rows
    position = np.random.default_rng(SEED).permutation(rows) / rows
    ends = np.cumsum(list(SHARES.values()))
    return np.array(list(SHARES))[np.searchsorted(ends[:-1], position, side="right")]
