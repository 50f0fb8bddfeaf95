"""How each party trains: the settings, which rows make a batch, and the one client-side loop.

The compiled engine, its plain twin and a real site all run `local_update`.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.errors import SettingError, is_count, is_positive, require

PARTICIPATION = np.uint32(2**32 - 1)
"""Folded into a round's key where its epochs fold in 0, 1, …"""

Params = Any
Walk = tuple[Params, Params]
"""A client's parameters on their way, and their velocity (None without momentum)."""

Batch = tuple[Array, Array, Array]
"""Features, targets, and how much each row counts."""

Count = Any
"""A whole number, or an array of them: one for each client."""

Slope = Callable[[Params, Any], Params]
"""`slope(params, step)`: the gradient at `params` on the rows of one step."""

FEISTEL_ROUNDS = 6
"""Enough for an order without visible pattern, see `tests/test_shuffle.py`."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What happens between two exchanges with the server, and how often they exchange.

    Args:
        rounds: exchanges with the server.
        step_size: η of the clients' gradient steps; "safe" is worked out from the rows, the model and λ before
            training, see docs/theory.md: small, but it never diverges.
        local_steps: gradient steps per round.
        local_epochs: passes over a client's own rows per round, in place of `local_steps`: clients with more rows
            then take more steps.
        batch_size: rows per step; None is the full batch. The last batch of a pass may be smaller.
        shuffle: whether each pass goes through the rows in a new order; False keeps the order they came in.
        precision: "float32" or "float64".
        gap_split: the rows on which loss gaps are measured: "validation", as in the paper, or "train".
        record_every: rounds between two lines of the history.
        participation: the share of clients, drawn anew each round, who take part in it.
    """

    rounds: int = 1000
    step_size: float | Literal["safe"] = 0.1
    local_steps: int = 1
    local_epochs: int | None = None
    batch_size: int | None = None
    shuffle: bool = True
    precision: Literal["float32", "float64"] = "float32"
    gap_split: Literal["validation", "train"] = "validation"
    record_every: int = 1
    participation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rounds", "local_steps", "local_epochs", "batch_size", "record_every"):
            number = getattr(self, name)
            optional = name in ("local_epochs", "batch_size")
            require(
                is_count(number) or (number is None and optional),
                f"Training: {name} is {number}.",
                "Use a whole number of at least 1.",
            )
        require(
            self.local_epochs is None or self.local_steps == 1,
            f"Training: both local_steps={self.local_steps} and local_epochs={self.local_epochs} are given.",
            "Give one of them.",
        )
        require(
            self.step_size == "safe" or is_positive(self.step_size),
            f"Training: step_size is {self.step_size!r}.",
            'Use a positive number such as 0.1, or "safe".',
        )
        require(
            0 < self.participation <= 1,
            f"Training: participation is {self.participation}.",
            "Use a share above 0 and up to 1, such as 0.3; 1 is everybody.",
        )
        for name, choices in (("precision", ("float32", "float64")), ("gap_split", ("validation", "train"))):
            choice = getattr(self, name)
            require(
                choice in choices,
                f"Training: {name} is {choice!r}.",
                f'Use "{choices[0]}" or "{choices[1]}".',
            )

    @property
    def step(self) -> float:
        """η as a number."""
        if self.step_size == "safe":
            raise SettingError('step_size="safe" is worked out by lossgap.train, from rows and a model. Give a number.')
        return self.step_size

    @property
    def local_work(self) -> "LocalWork":
        return LocalWork(self.local_steps, self.local_epochs, self.batch_size, self.shuffle)

    def participants(self, clients: int) -> int | None:
        """How many of the clients take part in a round; None if everybody does."""
        some = max(1, round(self.participation * clients))
        return None if some == clients else some


@dataclass(frozen=True)
class LocalWork:
    """What one client does in one round, as far as it decides which program runs."""

    local_steps: int
    local_epochs: int | None
    batch_size: int | None
    shuffle: bool = True

    @property
    def one_full_step(self) -> bool:
        return self.batch_size is None and self.steps(1) == 1

    def steps(self, rows: Count) -> Count:
        """Gradient steps per round of a client with this many training rows."""
        return self.local_steps if self.local_epochs is None else self.local_epochs * self.steps_per_epoch(rows)

    def steps_per_epoch(self, rows: Count) -> Count:
        return 1 if self.batch_size is None else -(-rows // self.batch_size)

    def batch(self, key: Array, rows: Count, step: Count) -> Array:
        """The row numbers of one step of one round, [batch]; −1 where the last batch of a pass has none left."""
        assert self.batch_size is not None
        per_epoch = self.steps_per_epoch(rows)
        position = step % per_epoch * self.batch_size + jnp.arange(self.batch_size)
        row = position
        if self.shuffle:  # beyond the end, the search for a row might never meet one
            row = shuffled(jax.random.fold_in(key, step // per_epoch), jnp.minimum(position, rows - 1), rows)
        return jnp.where(position < rows, row, -1)

    def batches(self, key: Array, rows: Count, sizes: tuple[int, ...]) -> Array:
        """Every step of one round, [steps, batch]; −1 also where a whole step is missing.

        `rows` is the client's own number of rows, `sizes` those of all clients that share one program: its table has
        room for the one with the most steps, and what it holds for one client does not depend on the others.
        """
        step = jnp.arange(max(map(self.steps, sizes)))
        table = jax.vmap(lambda i: self.batch(key, rows, i))(step)
        return jnp.where((step < self.steps(rows))[:, None], table, -1)


def client_keys(key: Array, names: Sequence[str]) -> Array:
    """Each client's own stream of random numbers, [client]: other clients' names and number do not change it."""
    numbers = np.array([zlib.crc32(name.encode()) for name in names], np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)


def drawn(keys: Array, round: Array | int, participants: int) -> Array:
    """The numbers of those who take part in a round, in ascending order. Each client draws a lot of its own."""

    def lot(key: Array) -> Array:
        return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, round), PARTICIPATION), dtype=jnp.uint32)

    return jnp.sort(jnp.argsort(jax.vmap(lot)(keys))[:participants])


def shuffled(key: Array, position: Array, rows: Count) -> Array:
    """The rows that stand at these positions of a random order of 0 … rows − 1.

    A keyed Feistel network permutes 0 … 2^b − 1, the smallest such range that holds all rows; where it leads beyond the
    rows, it is walked on until it comes back to them. No order is ever written down, so that a batch costs what its
    own rows cost.
    """
    rows = jnp.asarray(rows, jnp.uint32)
    keys = jax.random.bits(key, (FEISTEL_ROUNDS,), jnp.uint32)
    bits = 32 - jax.lax.clz(rows - 1)

    def walked(place: Array) -> Array:
        return jnp.where(place >= rows, _feistel(keys, place, bits), place)

    first = _feistel(keys, position.astype(jnp.uint32), bits)
    return jax.lax.while_loop(lambda place: (place >= rows).any(), walked, first).astype(jnp.int32)


def _feistel(keys: Array, number: Array, bits: Array) -> Array:
    """A permutation of 0 … 2^bits − 1. The halves trade places after each round, and so do their widths."""
    width, other = bits // 2, bits - bits // 2
    left, right = number >> other, number & _ones(other)
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ key) & _ones(width))
        width, other = other, width
    return (left << other) | right


def _ones(width: Array) -> Array:
    return (jnp.uint32(1) << width) - 1


def _mixed(number: Array) -> Array:
    """A hash of 32 bits, in which every bit of the number moves every other."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        number = (number ^ (number >> shift)) * jnp.uint32(factor)
    return number ^ (number >> 16)


def even_share(present: Array, dtype: Any) -> Array:
    """1/n for each of the n rows that are present, 0 for the others."""
    return (present / jnp.maximum(present.sum(), 1)).astype(dtype)


def local_update(
    slope: Slope,
    params: Params,
    multiplier: Array,
    *,
    step_size: Array | float,
    steps: Count,
    momentum: Array | float | None = None,
) -> Params:
    """Δ_k = θ − θ_k after gradient steps  θ_k ← θ_k − η w_k ∇ℓ_k(θ_k).

    The multiplier scales the gradient, not the rate: it may be negative. With momentum, v ← ρ v + w_k ∇ℓ_k(θ_k) takes
    the gradient's place.

    Args:
        slope: `slope(θ_k, i)` is ∇ℓ_k(θ_k) on the rows of the client's i-th step.
        params: θ.
        multiplier: w_k.
        step_size: η.
        steps: how many the client takes.
        momentum: ρ; None takes plain steps.
    """

    def step(number: Array | int, walk: Walk) -> Walk:
        local, velocity = walk
        gradient = slope(local, number)
        if momentum is not None:
            gradient = velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradient)
        return jax.tree.map(lambda p, g: p - step_size * multiplier * g, local, gradient), velocity

    # Not `zeros_like`: θ may lie on several devices, of which a device's own walk must not know.
    at_rest = jax.tree.map(lambda p: jnp.zeros(jnp.shape(p), jnp.result_type(p)), params)
    walk: Walk = params, None if momentum is None else at_rest
    alone = isinstance(steps, int) and steps == 1
    walk = step(0, walk) if alone else jax.lax.fori_loop(0, steps, step, walk)
    return jax.tree.map(jnp.subtract, params, walk[0])
