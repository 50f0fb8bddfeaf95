"""Every client trained by itself, all at once, in blocks of clients of similar size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.engine.checkpoint import Checkpoint, Standing, saving
from lossgap.engine.curvature import safe_steps
from lossgap.engine.local import OwnRows
from lossgap.engine.rows import Rows, blocked_rows, similar_sizes
from lossgap.engine.run import SafeStep, Watch, paced
from lossgap.federation import Federation
from lossgap.models import Model, Params
from lossgap.progress import progress_bar
from lossgap.training import Batch, LocalWork, Training, client_keys, local_update

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
class Party:
    """What one client brings; stacked [client, ...] for a block."""

    train: Batch  # x, y and each row's share
    validation: Batch
    rows: Array
    key: Array
    sizes: tuple[int, ...] = field(metadata={"static": True})  # of all clients of the block


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Walk:
    """How far one client has come; stacked [client, ...] for a block."""

    params: Params
    kept: Params  # the model it keeps if nothing better comes
    kept_loss: Array
    kept_epoch: Array
    epoch: Array
    loss: Array  # training loss at the last look
    recent: Array  # [window] training losses
    flat: Array


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
    dtype, groups = np.dtype(training.precision), similar_sizes(federation.rows().tolist())
    train, validation = (blocked_rows(federation.splits(split), dtype, groups) for split in ("train", "validation"))
    looks = epochs + 1  # of each group; what is done counts on from one group to the next
    begun = Standing(0, tuple(_beginning(start, len(members)) for members in groups), dict)
    stands = (checkpoint.read(begun.tree) if checkpoint else None) or begun
    with progress_bar("solo models", looks * len(groups), shown=progress) as report, saving(checkpoint) as saved:
        for number in range(stands.done // looks, len(groups)):
            names = [federation.names[k] for k in groups[number]]
            party = _party(train[number], validation[number], client_keys(key, names))
            watch = _watch(names, training, safe_steps(federation, model, start))
            if stands.done % looks:
                watch.start = stands.notes()["start"]
            for first, count in paced(looks, every=1, most=MOST_EPOCHS_AT_ONCE, done=stands.done % looks):
                walk = stands.tree[number]
                walk = _epochs(model, training.local_work, keep_best, walk, party, training.step, count, epochs)
                watch(np.asarray(walk.epoch[:1]), np.asarray(walk.loss)[None], np.ones((1, len(names))))
                done = number * looks + (looks if walk.flat.all() else first + count)
                walks = (*stands.tree[:number], walk, *stands.tree[number + 1 :])
                stands = Standing(done, walks, partial(dict, start=watch.start))
                saved(stands)
                report(done)
                if done == (number + 1) * looks:
                    break
    found = {k: each for members, walk in zip(groups, stands.tree, strict=True) for k, each in _found(members, walk)}
    return [found[k] for k in range(len(federation.clients))]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _epochs(
    model: Model,
    work: LocalWork,
    keep_best: bool,
    walk: Walk,
    party: Party,
    step_size: Array | float,
    count: int,
    last: int,
) -> Walk:
    """`count` looks at where each client stands, and an epoch after each for those who go on."""
    one_epoch = LocalWork(local_steps=1, local_epochs=1, batch_size=work.batch_size, shuffle=work.shuffle)

    def look(walk: Walk, party: Party) -> Walk:
        loss = model.batch_loss(walk.params, *party.train)
        judged = model.batch_loss(walk.params, *party.validation) if keep_best else loss
        better = judged < walk.kept_loss if keep_best else jnp.array(True)
        slot = walk.epoch % WINDOW
        return Walk(
            params=walk.params,
            kept=_where(better, walk.params, walk.kept),
            kept_loss=jnp.where(better, judged, walk.kept_loss),
            kept_epoch=jnp.where(better, walk.epoch, walk.kept_epoch),
            epoch=walk.epoch,
            loss=loss,
            recent=walk.recent.at[slot].set(loss),
            flat=walk.recent[slot] - loss < FLAT,
        )

    def step(walk: Walk, party: Party) -> Params:
        own = OwnRows(*party.train[:2], first=0, count=party.rows, tile=None)
        key = jax.random.fold_in(party.key, walk.epoch)

        def slope(params: Params, step: Array) -> Params:
            whole = one_epoch.batch_size is None
            batch = party.train if whole else own.picked(one_epoch.batch(key, party.rows, step))
            return jax.grad(model.batch_loss)(params, *batch)

        one, steps = jnp.ones((), walk.loss.dtype), one_epoch.steps(party.rows)
        update = local_update(slope, walk.params, one, step_size=step_size, steps=steps)
        return jax.tree.map(jnp.subtract, walk.params, update)

    def advance(walk: Walk, party: Party) -> Walk:
        looked = look(walk, party)
        goes_on = ~looked.flat & (looked.epoch < last)
        onward = replace(looked, params=_where(goes_on, step(looked, party), looked.params))
        onward = replace(onward, epoch=looked.epoch + goes_on)
        return _where(walk.flat, walk, onward)

    return jax.lax.fori_loop(0, count, lambda _, walk: jax.vmap(advance)(walk, party), walk)


def _party(train: Rows, validation: Rows, keys: Array) -> Party:
    return Party(_batch(train), _batch(validation), jnp.array(train.sizes), keys, train.sizes)


def _batch(rows: Rows) -> Batch:
    return rows.x, rows.y, rows.share


def _watch(names: Sequence[str], training: Training, safe_step: SafeStep) -> Watch:
    return Watch(names, training.step, safe_step, label="Training alone", unit="epoch")


def _beginning(start: Params, clients: int) -> Walk:
    dtype = jnp.result_type(*jax.tree.leaves(start))
    never, zero = jnp.array(jnp.inf, dtype), jnp.array(0, jnp.int32)
    # An infinite past is not flat: no client stops before it has taken `WINDOW` epochs.
    one = Walk(start, start, never, zero, zero, never, jnp.full(WINDOW, never), jnp.array(False))
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (clients, *jnp.shape(a))), one)


def _found(members: Sequence[int], walk: Walk) -> Iterator[tuple[int, Found]]:
    walk = jax.tree.map(np.asarray, walk)
    for i, k in enumerate(members):
        kept = jax.tree.map(lambda a: a[i], walk.kept)  # noqa: B023 - used before i moves on
        yield k, Found(kept, int(walk.kept_epoch[i]), bool(walk.flat[i]))


def _where(condition: Array, yes: Params, no: Params) -> Params:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
