"""Every client trained by itself, all at once, in blocks of clients of similar size."""

from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.engine.curvature import safe_steps
from lossgap.engine.local import OwnRows
from lossgap.engine.rows import Rows, blocked_rows, similar_sizes
from lossgap.engine.run import Watch, paced
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
) -> list[Found]:
    """Train until the training loss is flat or the epochs are used up; keep the last model, or the best one."""
    dtype, groups = np.dtype(training.precision), similar_sizes(federation.rows().tolist())
    blocks = (blocked_rows(federation.splits(split), dtype, groups) for split in ("train", "validation"))
    found: dict[int, Found] = {}
    with progress_bar("solo models", epochs * len(groups), shown=progress) as report:
        for number, (members, train, validation) in enumerate(zip(groups, *blocks, strict=True)):
            watch = _watch(federation, model, training, start, members)
            keys = client_keys(key, [federation.names[k] for k in members])
            party = Party(_arrays(train), _arrays(validation), jnp.array(train.sizes), keys, train.sizes)
            walk = _beginning(start, len(members))
            for first, count in paced(epochs + 1, every=1, most=MOST_EPOCHS_AT_ONCE):
                walk = _epochs(model, training.local_work, keep_best, walk, party, training.step, count, epochs)
                watch(np.asarray(walk.epoch[:1]), np.asarray(walk.loss)[None], np.ones((1, len(members))))
                report(number * epochs + first + count - 1)
                if walk.flat.all():
                    break
            found |= dict(zip(members, _found(walk), strict=True))
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
    one_epoch = LocalWork(local_steps=1, local_epochs=1, batch_size=work.batch_size)

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


def _beginning(start: Params, clients: int) -> Walk:
    dtype = jnp.result_type(*jax.tree.leaves(start))
    never, zero = jnp.array(jnp.inf, dtype), jnp.array(0, jnp.int32)
    # An infinite past is not flat: no client stops before it has taken `WINDOW` epochs.
    one = Walk(start, start, never, zero, zero, never, jnp.full(WINDOW, never), jnp.array(False))
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (clients, *jnp.shape(a))), one)


def _found(walk: Walk) -> list[Found]:
    walk = jax.tree.map(np.asarray, walk)
    return [
        Found(jax.tree.map(lambda a: a[i], walk.kept), int(walk.kept_epoch[i]), bool(walk.flat[i]))  # noqa: B023
        for i in range(len(walk.flat))
    ]


def _where(condition: Array, yes: Params, no: Params) -> Params:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _arrays(rows: Rows) -> Batch:
    return rows.x, rows.y, rows.share


def _watch(federation: Federation, model: Model, training: Training, start: Params, members: list[int]) -> Watch:
    names = [federation.names[k] for k in members]
    safe_step = safe_steps(federation, model, start)
    return Watch(names, training.step, safe_step, label="Training alone", unit="epoch")
