"""Parquet tables that are larger than memory: encoded batch by batch into a memory-mapped file.

One column is held at a time to fit its encoding, then some rows at a time to encode them. What is held for all rows is
their client, target and split.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from lossgap.errors import require
from lossgap.federation import Client, Federation, Split
from lossgap.mapped import chosen
from lossgap.tabular.columns import Category, Number, Values, decoded, numbers_of
from lossgap.tabular.files import telling

ROWS_AT_ONCE = 1 << 16


class ParquetTable:
    """A parquet file as columns that are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        require(
            path.name.lower().endswith(".parquet"),
            f"{path}: only parquet files can be read column by column.",
            "Convert it once, for example with polars.scan_csv(…).sink_parquet(…), or leave on_disk out.",
        )
        self.path = path
        with self._telling(), self._open() as file:
            self.column_names = list(file.schema_arrow.names)
            self.num_rows = int(file.metadata.num_rows)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        with self._telling(), self._open() as file:
            column = file.read([name])[name]
            column.validate(full=True)
        return column

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows in order, some at a time."""
        with self._telling(), self._open() as file:
            yield from file.iter_batches(ROWS_AT_ONCE, columns=list(names))

    def _open(self) -> pa_parquet.ParquetFile:
        return pa_parquet.ParquetFile(self.path, page_checksum_verification=True, memory_map=True)

    def _telling(self) -> AbstractContextManager[None]:
        return telling(self.path, "parquet", "It may be cut off: copy or write it again.")


class Columns(Mapping[str, Values]):
    """The feature columns of a file, each read and checked anew when it is asked for, none of them kept."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Values]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Values:
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def encoded(
    drawn: Federation, table: ParquetTable, encoders: Sequence[Number | Category], y: np.ndarray, path: Path
) -> Federation:
    """The federation with features in a file, [rows, features] in the table's order; `drawn` holds row numbers."""
    _write(table, encoders, path)
    features = np.load(path, mmap_mode="r")
    clients = []
    for client in drawn.clients:
        rows = (split.x[:, 0] for _, split in client.splits)
        clients.append(Client(client.name, *(Split(chosen(features, own), y[own]) for own in rows)))
    return Federation(tuple(clients), classes=drawn.classes)


def _write(table: ParquetTable, encoders: Sequence[Number | Category], path: Path) -> None:
    from lossgap.disk import whole_file  # imported late: it needs JAX

    width, done = sum(len(encoder.features) for encoder in encoders), 0
    with whole_file(path) as draft, draft.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (table.num_rows, width)}
        np.lib.format.write_array_header_1_0(file, header)
        for batch in table.batches([encoder.name for encoder in encoders]):
            block = np.hstack([encoder.encode(_values(batch[encoder.name], encoder)) for encoder in encoders])
            file.write(block.astype("<f4").tobytes())
            done += len(block)
    require(done == table.num_rows, f"{table.path}: {done} rows came of {table.num_rows}.", "Write the file again.")


def _values(column: pa.Array, encoder: Number | Category) -> Values:
    chunks = pa.chunked_array([column])
    return numbers_of(chunks) if isinstance(encoder, Number) else decoded(chunks).cast(pa.large_string())
