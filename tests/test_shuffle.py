"""Rows in a random order that is never written down."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lossgap.training import shuffled


def order(seed: int, rows: int) -> np.ndarray:
    return np.asarray(shuffled(jax.random.key(seed), jnp.arange(rows), rows))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 32, 33, 1000])
def test_every_row_comes_once(rows: int) -> None:
    for seed in range(5):
        assert sorted(order(seed, rows)) == list(range(rows))


def test_a_batch_does_not_depend_on_what_else_is_asked_for() -> None:
    key = jax.random.key(3)
    whole = np.asarray(shuffled(key, jnp.arange(50), 50))
    np.testing.assert_array_equal(np.asarray(shuffled(key, jnp.array([7, 31]), 50)), whole[[7, 31]])


def test_every_row_may_stand_anywhere() -> None:
    """Chi-squared of 2,000 orders of 20 rows: each row about equally often at each place."""
    keys = jax.random.split(jax.random.key(0), 2000)
    orders = np.asarray(jax.vmap(lambda key: shuffled(key, jnp.arange(20), 20))(keys))
    counts = np.stack([np.bincount(orders[:, place], minlength=20) for place in range(20)])
    statistic = ((counts - 100) ** 2 / 100).sum()
    assert statistic < 480  # 361 degrees of freedom: a fair shuffle stays below this with probability 0.99997


def test_neighbours_are_torn_apart() -> None:
    keys = jax.random.split(jax.random.key(1), 2000)
    orders = np.asarray(jax.vmap(lambda key: shuffled(key, jnp.arange(20), 20))(keys))
    still_next = (np.diff(orders, axis=1) == 1).sum(axis=1).mean()
    assert still_next == pytest.approx(19 * 19 / (20 * 19), abs=0.1)  # as many as in a fair shuffle


def test_all_orders_of_four_rows_occur() -> None:
    keys = jax.random.split(jax.random.key(2), 2000)
    orders = np.asarray(jax.vmap(lambda key: shuffled(key, jnp.arange(4), 4))(keys))
    kinds, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(kinds) == 24
    assert counts.min() > 2000 / 24 / 3
