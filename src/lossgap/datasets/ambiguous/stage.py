"""Training that outlives its process: after each epoch the state lies on disk as a whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from lossgap.disk import leaves, read_tensors, whole_file, write_tensors

S = TypeVar("S")
AGAIN = "Delete it: what it holds is computed anew."


def trained(
    path: Path, start: S, epoch: Callable[[S, int], S], epochs: int, done: Callable[[int], None] = lambda epochs: None
) -> S:
    """The state after all epochs, from the last one on disk on.

    Args:
        path: where the state lies between epochs.
        start: before the first.
        epoch: the state after epoch 0, 1, …, given the one before.
        epochs: how many there are.
        done: called with how many are done.
    """
    state, first = read(path, start) if path.exists() else (start, 0)
    done(first)
    for number in range(first, epochs):
        state = epoch(state, number)
        write(path, state, number + 1)
        done(number + 1)
    return state


def write(path: Path, state: Any, epochs: int) -> None:
    with whole_file(path) as draft:
        write_tensors(draft, leaves(jax.device_get(state)), {"epochs": str(epochs)})


def read(path: Path, like: S) -> tuple[S, int]:
    """A state of the same shape as `like`, and the number of epochs that led to it."""
    tensors, about = read_tensors(path, AGAIN)
    state = jax.tree_util.tree_map_with_path(lambda at, _: jnp.asarray(tensors[jax.tree_util.keystr(at)]), like)
    return state, int(about["epochs"])
