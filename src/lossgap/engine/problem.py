"""A federation as the arrays of a compiled run, shared out among devices.

Rows lie one after another, each with its client's number, so that one product serves every client and nobody is padded.
Where clients hold parameters of their own, each device has whole clients and walks through them one by one; otherwise
every device has as many rows as any other, whoever they belong to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from lossgap.engine.columns import Columns
from lossgap.engine.devices import AXIS, EVERYWHERE, HERE, dealt, everywhere, mesh_for, spread
from lossgap.engine.local import TILE
from lossgap.federation import Federation, Split, SplitName
from lossgap.models import Model, Params
from lossgap.training import Training, client_keys

GAP_SPLITS: tuple[SplitName, SplitName] = ("train", "validation")
"""The splits that training reads."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shards:
    """Rows of all clients [device, row, ...], and where each client's begin."""

    x: Array
    y: Array
    share: Array  # 1/n_k for a row of client k, 0 for padding: Σ share·loss is the client's mean loss
    client: Array  # [device, row]
    owner: Array  # [device, slot] the clients that a device holds as a whole
    first: Array  # [device, slot] where their rows begin
    count: Array  # [device, slot] how many they are; 0 for a slot without a client


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Problem:
    """Everything a run reads and never writes."""

    train: Shards
    validation: Shards
    rows: Array  # [client] training rows
    keys: Array  # [client] what each draws its batches from
    solo_losses: Array  # [client]
    place: Array  # [client] among all devices' slots, one device after another
    gap_split: SplitName = field(metadata={"static": True})
    tile: int = field(metadata={"static": True})  # rows of one client that are taken at once
    mesh: Mesh | None = field(metadata={"static": True})

    @property
    def clients(self) -> int:
        return self.rows.shape[0]


def client_losses(model: Model, params: Params, shards: Shards, clients: int, mesh: Mesh | None) -> Array:
    """L_k(θ) of every client at one shared θ, [client]."""

    def on_device(params: Params, *rows: Array) -> Array:
        x, y, share, client = (a[0] for a in rows)
        return jax.ops.segment_sum(share * model.row_losses(params, x, y), client, clients)

    rows = shards.x, shards.y, shards.share, shards.client
    if mesh is None:
        return on_device(params, *rows)
    flat, unravel = ravel_pytree(params)

    def summed(flat: Array, *rows: Array) -> Array:
        # Each device works with a copy of its own, so that a gradient is summed over devices once, as a whole.
        own = jax.lax.pcast(flat, AXIS, to="varying")
        total: Array = jax.lax.psum(on_device(unravel(own), *rows), AXIS)  # type: ignore[no-untyped-call]
        return total

    specs = (EVERYWHERE, HERE, HERE, HERE, HERE)
    losses: Array = jax.shard_map(summed, mesh=mesh, in_specs=specs, out_specs=EVERYWHERE)(flat, *rows)
    return losses


def problem_of(
    federation: Federation,
    model: Model,
    training: Training,
    columns: Columns,
    *,
    params: int,
    solo_losses: np.ndarray,
    key: Array,
    whole_clients: bool,
    spread_out: bool,
) -> Problem:
    """The arrays of a run of a model with so many parameters.

    Args:
        whole_clients: clients hold parameters of their own.
        spread_out: several devices may be used.
    """
    dtype, rows = np.dtype(training.precision), federation.rows()
    mesh = mesh_for(int(rows.sum()) * params) if spread_out else None
    devices, tile = 1 if mesh is None else mesh.size, tile_for(model, int(rows.max()))
    train, validation = ([columns.split(each) for each in federation.splits(name)] for name in GAP_SPLITS)
    hands = dealt(rows.tolist(), devices) if whole_clients else None
    everyone = everywhere(
        {
            "rows": jnp.asarray(rows, jnp.int32),
            "keys": client_keys(key, federation.names),
            "solo_losses": jnp.asarray(solo_losses, dtype),
            "place": jnp.asarray(places(hands, len(rows)), jnp.int32),
        },
        mesh,
    )
    return Problem(
        train=spread(_even(train, dtype, devices) if hands is None else on_devices(train, dtype, hands, tile), mesh),
        validation=spread(_even(validation, dtype, devices), mesh),
        gap_split=training.gap_split,
        tile=tile,
        mesh=mesh,
        **everyone,
    )


def tile_for(model: Model, most: int) -> int:
    """How many rows of a client pass through a model together, if none has more than so many."""
    return model.rows_at_once or min(TILE, most)


def _even(splits: Sequence[Split], dtype: np.dtype, devices: int) -> Shards:
    """All rows in client order, cut into as many parts of equal length as there are devices."""
    sizes = [len(split) for split in splits]
    length = -(-sum(sizes) // devices)
    places = np.arange(sum(sizes))
    none = np.zeros((devices, 0), np.int32)
    return _shards(splits, dtype, np.divmod(places, length), (devices, length), owner=none, first=none, count=none)


def on_devices(splits: Sequence[Split], dtype: np.dtype, hands: Sequence[Sequence[int]], tile: int) -> Shards:
    """Whole clients on every device, and behind the last one a tile to read over the end."""
    sizes = np.array([len(split) for split in splits])
    slots = max(map(len, hands))
    owner, first, count = (np.zeros((len(hands), slots), np.int32) for _ in range(3))
    device_of, start_of = np.zeros(len(sizes), int), np.zeros(len(sizes), int)
    for device, hand in enumerate(hands):
        starts = np.cumsum([0, *sizes[hand]])[:-1]
        owner[device, : len(hand)], first[device, : len(hand)], count[device, : len(hand)] = hand, starts, sizes[hand]
        device_of[hand], start_of[hand] = device, starts
    within = np.concatenate([np.arange(n) for n in sizes])
    place = np.repeat(device_of, sizes), np.repeat(start_of, sizes) + within
    length = max(int(sizes[hand].sum()) for hand in hands) + tile
    return _shards(splits, dtype, place, (len(hands), length), owner=owner, first=first, count=count)


def _shards(
    splits: Sequence[Split],
    dtype: np.dtype,
    place: tuple[np.ndarray, np.ndarray],
    shape: tuple[int, int],
    **slots: np.ndarray,
) -> Shards:
    """Rows put into their places [device, row]; what is left over repeats a real row and counts for nothing."""
    sizes = [len(split) for split in splits]
    labels = np.int32 if np.issubdtype(splits[0].y.dtype, np.integer) else dtype
    # Repeats of a real row, not zeros: a loss that is infinite at zero would turn 0 · ∞ into NaN.
    x = np.broadcast_to(splits[0].x[:1].astype(dtype), (*shape, *splits[0].x.shape[1:])).copy()
    y = np.full(shape, splits[0].y[0], labels)
    share, client = np.zeros(shape, dtype), np.zeros(shape, np.int32)
    ends = np.cumsum(sizes)
    for k, (split, end) in enumerate(zip(splits, ends, strict=True)):
        own = place[0][end - len(split) : end], place[1][end - len(split) : end]
        x[own], y[own], share[own], client[own] = split.x, split.y, 1 / len(split), k
    return Shards(*map(jnp.asarray, (x, y, share, client)), **{name: jnp.asarray(a) for name, a in slots.items()})


def places(hands: Sequence[Sequence[int]] | None, clients: int) -> np.ndarray:
    """Each client's slot, counted over all devices."""
    if hands is None:
        return np.arange(clients)
    slots, place = max(map(len, hands)), np.zeros(clients, int)
    for device, hand in enumerate(hands):
        place[hand] = device * slots + np.arange(len(hand))
    return place
