"""A federation as arrays: the layouts in which the compiled engine holds ragged clients.

Flat: all rows one after another, each with its client's number. One product serves every client, and nobody is padded.
Blocks: clients of similar size stacked [client, row, ...], for work in which clients hold different parameters.
Rows are padded to the largest client of their block only; clients of one block are at most a fifth apart in size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.federation import Split
from lossgap.models import Model, Params

BLOCK_SPREAD = 1.2
"""The largest client of a block has at most this many times the rows of its smallest."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Rows of several clients, either flat [row, ...] or as a block [client, row, ...]."""

    x: Array
    y: Array
    share: Array  # 1/n_k for a row of client k, 0 for padding: Σ share·loss is the client's mean loss
    client: Array  # flat: [row] the client of each row; block: [client] the clients in it
    sizes: tuple[int, ...] = field(default=(), metadata={"static": True})  # block: rows of each client in it

    @property
    def flat(self) -> "Rows":
        """A block seen as flat rows; padding counts for nothing, since its share is 0."""
        if self.share.ndim == 1:
            return self
        clients, rows = self.share.shape
        x, y = (a.reshape(clients * rows, *a.shape[2:]) for a in (self.x, self.y))
        return Rows(x, y, self.share.reshape(-1), jnp.repeat(self.client, rows))


def client_losses(model: Model, params: Params, rows: tuple[Rows, ...], clients: int) -> Array:
    """L_k(θ) of every client at one shared θ, [client]."""
    total = jnp.zeros(clients)
    for flat in (r.flat for r in rows):
        losses = flat.share * model.row_losses(params, flat.x, flat.y)
        total += jax.ops.segment_sum(losses, flat.client, clients)
    return total


def flat_rows(splits: Sequence[Split], dtype: np.dtype) -> Rows:
    """Clients' rows, one client after another."""
    sizes = [len(s) for s in splits]
    return Rows(
        x=jnp.asarray(np.concatenate([s.x for s in splits]), dtype),
        y=_targets(np.concatenate([s.y for s in splits]), dtype),
        share=jnp.asarray(np.repeat([1 / n for n in sizes], sizes), dtype),
        client=jnp.asarray(np.repeat(np.arange(len(sizes)), sizes), jnp.int32),
    )


def blocked_rows(splits: Sequence[Split], dtype: np.dtype, groups: Sequence[Sequence[int]]) -> tuple[Rows, ...]:
    """Clients' rows, one block per group of clients."""
    return tuple(_block(splits, members, dtype) for members in groups)


def similar_sizes(sizes: Sequence[int]) -> list[list[int]]:
    """Clients by size, cut wherever a group would spread further than `BLOCK_SPREAD`."""
    order = sorted(range(len(sizes)), key=lambda k: sizes[k])
    cuts, smallest = [0], sizes[order[0]]
    for position, k in enumerate(order):
        if sizes[k] > BLOCK_SPREAD * smallest:
            cuts.append(position)
            smallest = sizes[k]
    return [order[a:b] for a, b in pairwise([*cuts, len(order)])]


def _block(splits: Sequence[Split], members: Sequence[int], dtype: np.dtype) -> Rows:
    sizes = tuple(len(splits[k]) for k in members)
    shares = np.zeros((len(members), max(sizes)))
    for share, size in zip(shares, sizes, strict=True):
        share[:size] = 1 / size
    return Rows(
        x=jnp.asarray(np.stack([_padded(splits[k].x, max(sizes)) for k in members]), dtype),
        y=_targets(np.stack([_padded(splits[k].y, max(sizes)) for k in members]), dtype),
        share=jnp.asarray(shares, dtype),
        client=jnp.asarray(members, jnp.int32),
        sizes=sizes,
    )


def _padded(a: np.ndarray, rows: int) -> np.ndarray:
    # Repeats of a real row, not zeros: a loss that is infinite at zero would turn 0 · ∞ into NaN.
    return np.concatenate([a, np.repeat(a[:1], rows - len(a), axis=0)])


def _targets(y: np.ndarray, dtype: np.dtype) -> Array:
    return jnp.asarray(y, jnp.int32 if np.issubdtype(y.dtype, np.integer) else dtype)
