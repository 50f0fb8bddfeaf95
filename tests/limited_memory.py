"""A process of its own, whose memory is limited: trains on a file that is several times larger.

    python limited_memory.py FOLDER MEGABYTES

Linux counts all memory that a process may write to (heap, thread stacks, private maps; not pages of files) against
RLIMIT_DATA and refuses more than that.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np

import lossgap as lg

MEGABYTE = 1 << 20
TRAINING = lg.Training(rounds=3, step_size=0.05, local_steps=20, batch_size=256, record_every=3)


def federation(folder: Path) -> lg.Federation:
    """Two clients who hold one half of the file each."""
    x, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    half = len(y) // 2
    arrays = {"first": lg.Split(x[:half], y[:half]), "second": lg.Split(x[half:], y[half:])}
    return lg.Federation.from_arrays(arrays, classes=2)


def main(folder: Path, megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes * MEGABYTE,) * 2)
    rows = federation(folder)
    result = lg.train_streaming(rows, lg.models.linear(), lg.Eagle(gap_penalty=0.5), TRAINING, solo=[0.5, 0.5])
    try:
        np.array(np.load(folder / "x.npy", mmap_mode="r"))
        fits = True
    except MemoryError:
        fits = False
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    report = {
        "fits": fits,
        "kernel": result.params["kernel"].tolist(),
        "bias": result.params["bias"].tolist(),
        "loss": [client.train_loss for client in result.clients],
        "anonymous": int(status["RssAnon"].split()[0]) / 1024,
        "data": int(status["VmData"].split()[0]) / 1024,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
