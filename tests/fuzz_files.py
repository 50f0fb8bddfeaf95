"""A process of its own that reads hundreds of damaged files: a crash or a hang would take it down.

    python fuzz_files.py FOLDER COUNT

What may happen to a damaged file, judged without lossgap's readers:

- It is refused with a message that names it.
- What it holds does not differ from the undamaged file: the damage hit a date, a checksum of statistics and the like.
- It is still a valid file, of other contents, which is what then must be loaded. That is so for a changed pixel of a
  raw IDX file and a changed letter of a csv file, which hold no checksums: a strict parser of a few lines says what
  they hold.
- Parquet has checksums of its pages, but none of its footer, where the names of columns stand: a column may be renamed.
"""

import csv
import gzip
import io
import json
import signal
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

import lossgap as lg
from lossgap.datasets import idx
from lossgap.tabular.files import load

SECONDS = 10
MISSING = ("?", "", "NA", "NaN", "null")
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 5, 4)).astype(np.uint8)
LABELS = np.random.default_rng(1).integers(0, 10, 60).astype(np.uint8)

Content = Any
Read = Callable[[Path], Content]
Judge = Callable[[bytes], Content]
"""What the bytes hold by a strict parser; None if they are no valid file."""


def table() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "hospital": [f"site {k % 3}" for k in range(40)],
            "age": rng.integers(20, 90, 40),
            "pressure": np.round(rng.normal(120, 10, 40), 2),
            "note, short": [["calm", "löud", 'a "quote"', "two, things"][k % 4] for k in range(40)],
            "ill": [["yes", "no"][k] for k in rng.integers(0, 2, 40)],
        }
    )


def idx_bytes(rows: np.ndarray) -> bytes:
    return bytes([0, 0, 8, rows.ndim]) + struct.pack(f">{rows.ndim}I", *rows.shape) + rows.tobytes()


def idx_judge(dimensions: int) -> Judge:
    def judge(content: bytes) -> Content:
        head = 4 + 4 * dimensions
        if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
            return None
        sizes = struct.unpack(f">{dimensions}I", content[4:head])
        if 0 in sizes or np.prod([float(size) for size in sizes]) != len(content) - head:
            return None
        return [list(sizes), content[head:].hex()]

    return judge


def idx_content(rows: np.ndarray) -> Content:
    return [list(rows.shape), rows.tobytes().hex()]


def csv_bytes() -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table().column_names)
    writer.writerows(zip(*table().to_pydict().values(), strict=True))
    return text.getvalue().encode()


def csv_judge(content: bytes) -> Content:
    try:
        text = content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error):
        return None
    if len(rows) < 2 or len({len(row) for row in rows}) > 1 or len(set(rows[0])) < len(rows[0]):
        return None
    return [rows[0], [[cell(each) for each in row] for row in rows[1:]]]


def cell(text: str) -> str | float | None:
    text = text.strip()
    return None if text in MISSING else text


def table_content(rows: pa.Table) -> Content:
    return [rows.column_names, [list(row.values()) for row in rows.to_pylist()]]


def read_table(path: Path) -> Content:
    rows = load(path, "hospital")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(lg.LossgapError):
            lg.Federation.from_table(path, client="hospital", target="ill")
    return table_content(rows)


def same(loaded: Content, expected: Content) -> bool:
    """Numbers as they are written, text as it stands."""
    if isinstance(loaded, list) and isinstance(expected, list):
        return len(loaded) == len(expected) and all(map(same, loaded, expected))
    if isinstance(loaded, bool) and isinstance(expected, str):
        return str(loaded).lower() == expected.lower()
    if isinstance(loaded, int | float) and isinstance(expected, str):
        return float(expected) == loaded or (loaded != loaded and expected.lower() in ("nan", "-nan", "+nan"))
    if isinstance(loaded, float) and isinstance(expected, float):
        return loaded == expected or (loaded != loaded and expected != expected)
    return bool(loaded == expected)


def parquet_bytes() -> bytes:
    file = io.BytesIO()
    pa_parquet.write_table(table(), file, write_page_checksum=True, row_group_size=15)
    return file.getvalue()


def intact(content: bytes, judged: Judge) -> Judge:
    """A file with checksums: whatever loads is what was packed."""
    return lambda damaged: judged(content)


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut off, a bit turned, bytes overwritten, cut out, put in, or doubled."""
    start = int(rng.integers(0, len(content)))
    length = int(rng.integers(1, 1 + min(30, len(content) - start)))
    noise = rng.bytes(length)
    return [
        lambda: content[:start],
        lambda: content[:start] + bytes([content[start] ^ (1 << int(rng.integers(0, 8)))]) + content[start + 1 :],
        lambda: content[:start] + noise + content[start + length :],
        lambda: content[:start] + bytes([int(rng.choice([0, 255]))]) * length + content[start + length :],
        lambda: content[:start] + content[start + length :],
        lambda: content[:start] + noise + content[start:],
        lambda: content[: start + length] + content[start:],
    ][int(rng.integers(0, 7))]()


def kinds() -> dict[str, tuple[bytes, Read, Judge]]:
    """By file name: the undamaged bytes, the reader, the judge."""
    images, labels, text, parquet = idx_bytes(IMAGES), idx_bytes(LABELS), csv_bytes(), parquet_bytes()
    read_images: Read = lambda path: idx_content(idx.images(path))  # noqa: E731
    read_labels: Read = lambda path: idx_content(idx.labels(path))  # noqa: E731
    return {
        "images-idx3": (images, read_images, idx_judge(3)),
        "labels-idx1": (labels, read_labels, idx_judge(1)),
        "images-idx3.gz": (gzip.compress(images, mtime=0), read_images, intact(images, idx_judge(3))),
        "table.csv": (text, read_table, csv_judge),
        "table.csv.gz": (gzip.compress(text, mtime=0), read_table, intact(text, csv_judge)),
        "table.parquet": (parquet, read_table, lambda _: table_content(table())),
    }


def outcome(path: Path, content: bytes, read: Read, judge: Judge) -> str:
    path.write_bytes(content)
    expected = judge(content)
    try:
        loaded = read(path)
    except lg.LossgapError as refusal:
        named = path.name in str(refusal) or "column" in str(refusal).lower()
        return "refused" if named and len(str(refusal)) < 2000 else f"unclear: {refusal}"
    if path.suffix == ".parquet" and loaded[0] != expected[0]:
        return "renamed" if same(loaded[1], expected[1]) else f"WRONG: {str(loaded)[:300]}"
    if expected is None:
        return f"WRONG: loaded what is no valid file: {str(loaded)[:300]}"
    return "loaded" if same(loaded, expected) else f"WRONG: {str(loaded)[:300]} for {str(expected)[:300]}"


def main(folder: Path, count: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a hang ends the process
    found: dict[str, Counter[str]] = {}
    complaints = []
    for number, (name, (content, read, judge)) in enumerate(kinds().items()):
        path, rng = folder / name, np.random.default_rng([7, number])
        assert outcome(path, content, read, judge) == "loaded", f"{name}: the undamaged file is refused"
        found[name] = Counter()
        for trial in range(count):
            bad = damaged(content, rng)
            signal.alarm(SECONDS)
            try:
                said = outcome(path, bad, read, judge)
            except Exception as escaped:  # anything but a LossgapError
                said = f"ESCAPED: {type(escaped).__name__}: {escaped}"
            signal.alarm(0)
            found[name][said.split(":")[0]] += 1
            if said not in ("refused", "loaded", "renamed"):
                complaints.append(f"{name}, trial {trial}: {said}")
    print(json.dumps({"found": found, "complaints": complaints}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
