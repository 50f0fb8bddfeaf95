"""Every client trained by itself: each device walks through clients of its own, one after another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from lossgap.engine.checkpoint import Checkpoint, Standing, saving
from lossgap.engine.columns import Columns
from lossgap.engine.compiled import program
from lossgap.engine.curvature import safe_steps
from lossgap.engine.devices import EVERYWHERE, HERE, dealt, is_small, mesh_for, spread
from lossgap.engine.local import OwnRows, own_loss
from lossgap.engine.problem import GAP_SPLITS, Shards, on_devices, places, tile_for
from lossgap.engine.run import Watch, paced
from lossgap.federation import Federation
from lossgap.models import Model, Params
from lossgap.progress import progress_bar
from lossgap.training import LocalWork, Training, client_keys, local_update

WINDOW = 50
FLAT = 1e-4
"""A training loss that fell by less than this many nats over the last `WINDOW` epochs is flat."""

MOST_EPOCHS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Found:
    """The model one client ended with."""

    params: Params
    epochs: int
    converged: bool
    gradient_norm: float | None = None
    attained: bool | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parties:
    """What the clients bring, [device, slot, ...]."""

    train: Shards
    validation: Shards
    keys: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Walk:
    """How far a client has come; of all clients [device, slot, ...]."""

    params: Params
    kept: Params  # the model it keeps if nothing better comes
    kept_loss: Array
    kept_epoch: Array
    epoch: Array
    loss: Array  # training loss at the last look
    recent: Array  # [window] training losses
    flat: Array


@dataclass(frozen=True)
class Alone:
    """The rule by which each client trains."""

    model: Model
    work: LocalWork
    keep_best: bool
    last: int  # epoch
    tile: int
    small: bool  # as of a problem

    @classmethod
    def of(cls, model: Model, training: Training, *, keep_best: bool, epochs: int, most_rows: int, small: bool) -> Self:
        given = training.local_work
        an_epoch = LocalWork(local_steps=1, local_epochs=1, batch_size=given.batch_size, shuffle=given.shuffle)
        return cls(model, an_epoch, keep_best, epochs, tile_for(model, most_rows), small)


def train_alone(
    federation: Federation,
    model: Model,
    training: Training,
    start: Params,
    *,
    keep_best: bool,
    epochs: int,
    key: Array,
    progress: bool | None,
    checkpoint: Checkpoint | None = None,
) -> list[Found]:
    """Train until the training loss is flat or the epochs are used up; keep the last model, or the best one.

    With a checkpoint, work that was cut off goes on where it was saved last.
    """
    sizes, columns = federation.rows(), Columns.of(federation, model)
    work = int(sizes.sum()) * sum(np.size(leaf) for leaf in jax.tree.leaves(start))
    mesh, most = mesh_for(work), int(sizes.max())
    alone = Alone.of(model, training, keep_best=keep_best, epochs=epochs, most_rows=most, small=is_small(work))
    hands = dealt(sizes.tolist(), 1 if mesh is None else mesh.size)
    parties = _parties(federation, alone, columns, hands, key, np.dtype(training.precision))
    parties, place = spread(parties, mesh), places(hands, len(sizes))

    begun = Standing(0, spread(_beginning(columns.narrow(start), parties.train), mesh), dict)
    stands = (checkpoint.read(begun.tree) if checkpoint else None) or begun
    watch = Watch(
        federation.names, training.step, safe_steps(federation, model, start), label="Training alone", unit="epoch"
    )
    if stands.done:
        watch.start = stands.notes()["start"]
    looks = epochs + 1
    with progress_bar("solo models", looks, shown=progress) as report, saving(checkpoint) as saved:
        for first, count in paced(looks, every=1, most=MOST_EPOCHS_AT_ONCE, done=stands.done):
            walk = _epochs(alone, mesh, stands.tree, parties, training.step, count)
            watch(np.array([first + count - 1]), _by_client(walk.loss, place)[None], np.ones((1, len(sizes))))
            done = looks if walk.flat.all() else first + count
            stands = Standing(done, walk, partial(dict, start=watch.start))
            saved(stands)
            report(done)
            if done == looks:
                break
    ended = jax.tree.map(lambda a: _by_client(a, place), stands.tree)
    return [_found(jax.tree.map(lambda a, k=k: a[k], ended), columns, start) for k in range(len(sizes))]


def _epochs(
    alone: Alone, mesh: Mesh | None, walk: Walk, parties: Parties, step_size: Array | float, count: int
) -> Walk:
    """`count` looks at where each client stands, and an epoch after each for those who go on."""
    step_size = jnp.asarray(step_size, walk.loss.dtype)
    walked = program(_on_devices, mesh, "alone", "mesh", small=alone.small)
    onward: Walk = walked(walk, parties, step_size, count, alone=alone, mesh=mesh)
    return onward


def _on_devices(
    walk: Walk, parties: Parties, step_size: Array, count: Array, *, alone: Alone, mesh: Mesh | None
) -> Walk:
    def on_device(walk: Walk, parties: Parties, step_size: Array, count: Array) -> Walk:
        walk, parties = jax.tree.map(lambda a: a[0], (walk, parties))

        def one(slot: tuple[Walk, Array, tuple[Array, Array], tuple[Array, Array]]) -> Walk:
            walk, key, *bounds = slot
            train, validation = (
                OwnRows(shards.x, shards.y, *own, alone.tile)
                for shards, own in zip((parties.train, parties.validation), bounds, strict=True)
            )
            return _onward(alone, walk, train, validation, step_size, key, count)

        bounds = [(shards.first, shards.count) for shards in (parties.train, parties.validation)]
        onward = jax.lax.map(one, (walk, parties.keys, *bounds))
        return jax.tree.map(lambda a: a[None], onward)

    if mesh is None:
        return on_device(walk, parties, step_size, count)
    specs = (HERE, HERE, EVERYWHERE, EVERYWHERE)
    spread_out = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=HERE, check_vma=False)
    return spread_out(walk, parties, step_size, count)


def _onward(
    alone: Alone, walk: Walk, train: OwnRows, validation: OwnRows, step_size: Array, key: Array, count: Array
) -> Walk:
    """`count` looks of one client, fewer if its loss is flat before."""
    model, work = alone.model, alone.work
    whole = work.batch_size is None

    def loss_and_gradient(params: Params) -> tuple[Array, Params]:
        return train.total(lambda batch: jax.value_and_grad(model.batch_loss)(params, *batch))

    def looked(walk: Walk, loss: Array) -> Walk:
        judged = own_loss(model, walk.params, validation) if alone.keep_best else loss
        better = judged < walk.kept_loss if alone.keep_best else jnp.array(True)
        slot = walk.epoch % WINDOW
        return Walk(
            params=walk.params,
            kept=jax.tree.map(partial(jnp.where, better), walk.params, walk.kept),
            kept_loss=jnp.where(better, judged, walk.kept_loss),
            kept_epoch=jnp.where(better, walk.epoch, walk.kept_epoch),
            epoch=walk.epoch,
            loss=loss,
            recent=walk.recent.at[slot].set(loss),
            flat=walk.recent[slot] - loss < FLAT,
        )

    def stepped(walk: Walk, gradient: Params) -> Walk:
        batches = jax.random.fold_in(key, walk.epoch)

        def slope(params: Params, step: Array) -> Params:
            if whole:
                return gradient
            return jax.grad(model.batch_loss)(params, *train.picked(work.batch(batches, train.count, step)))

        one, steps = jnp.ones((), walk.loss.dtype), work.steps(train.count)
        update = local_update(slope, walk.params, one, step_size=step_size, steps=steps)
        return replace(walk, params=jax.tree.map(jnp.subtract, walk.params, update), epoch=walk.epoch + 1)

    def advance(state: tuple[Array, Walk]) -> tuple[Array, Walk]:
        number, walk = state
        if whole:  # one pass gives both
            loss, gradient = loss_and_gradient(walk.params)
        else:
            loss, gradient = own_loss(model, walk.params, train), None
        walk = looked(walk, loss)
        steps_on = ~walk.flat & (walk.epoch < alone.last)
        return number + 1, jax.lax.cond(steps_on, stepped, lambda walk, _: walk, walk, gradient)

    def goes_on(state: tuple[Array, Walk]) -> Array:
        number, walk = state
        return (number < count) & ~walk.flat

    return jax.lax.while_loop(goes_on, advance, (jnp.zeros_like(count), walk))[1]


def _parties(
    federation: Federation,
    alone: Alone,
    columns: Columns,
    hands: Sequence[Sequence[int]],
    key: Array,
    dtype: np.dtype,
) -> Parties:
    train, validation = (
        on_devices([columns.split(each) for each in federation.splits(name)], dtype, hands, alone.tile)
        for name in GAP_SPLITS
    )
    return Parties(train, validation, client_keys(key, federation.names)[train.owner])


def _beginning(start: Params, train: Shards) -> Walk:
    dtype = jnp.result_type(*jax.tree.leaves(start))
    never, zero = jnp.array(jnp.inf, dtype), jnp.array(0, jnp.int32)
    # An infinite past is not flat: no client stops before it has taken `WINDOW` epochs.
    one = Walk(start, start, never, zero, zero, never, jnp.full(WINDOW, never), jnp.array(False))
    walk = jax.tree.map(lambda a: jnp.broadcast_to(a, (*train.owner.shape, *jnp.shape(a))), one)
    return replace(walk, flat=train.count == 0)  # a slot without a client has nothing to do


def _by_client(a: Array, place: np.ndarray) -> np.ndarray:
    """[device, slot, ...] as [client, ...]."""
    return np.asarray(a).reshape(-1, *a.shape[2:])[place]


def _found(walk: Walk, columns: Columns, start: Params) -> Found:
    return Found(columns.widen(walk.kept, start), int(walk.kept_epoch), bool(walk.flat))
