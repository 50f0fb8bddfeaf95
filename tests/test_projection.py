"""AFL's projection onto the simplex {μ ≥ 0, Σ μ = 1}."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lossgap.algorithms.afl import project_to_simplex
from numpy_twin import closest_on_simplex

vectors = hnp.arrays(float, st.integers(1, 12), elements=st.floats(-1e3, 1e3))
near_the_simplex = hnp.arrays(float, st.integers(1, 12), elements=st.floats(-0.5, 1.5))
often = settings(max_examples=150, deadline=None)

compiled = jax.jit(project_to_simplex)


def projected(y, dtype=np.float64) -> np.ndarray:
    with jax.enable_x64(dtype == np.float64):
        return np.asarray(compiled(jnp.asarray(y, dtype)))


@often
@given(vectors)
def test_projection_is_on_the_simplex(y):
    point = projected(y)
    assert point.sum() == pytest.approx(1, rel=1e-6)
    assert (point >= 0).all()


@often
@given(vectors | near_the_simplex, st.sampled_from([0.0, 1e3, 3e7]))
def test_projection_is_on_the_simplex_in_single_precision(y, shift):
    """Whatever the entries have in common: losses of targets that nobody rescaled can be in the millions."""
    point = projected(y + shift, np.float32)
    assert point.dtype == np.float32
    assert point.sum(dtype=float) == pytest.approx(1, rel=1e-6)
    assert (point >= 0).all()


@often
@given(vectors | near_the_simplex)
def test_projection_is_the_closest_point(y):
    np.testing.assert_allclose(projected(y), closest_on_simplex(y), rtol=0, atol=1e-9)


@often
@given(vectors | near_the_simplex, st.integers(0, 2**32 - 1))
def test_no_other_point_of_the_simplex_is_closer(y, seed):
    rng = np.random.default_rng(seed)
    distance = np.linalg.norm(y - projected(y))
    corners, inside = np.eye(len(y)), rng.dirichlet(np.full(len(y), rng.choice([0.1, 1.0])), 20)
    nearby = 0.99 * projected(y) + 0.01 * inside
    for other in (*corners, *inside, *nearby):
        assert distance <= np.linalg.norm(y - other) + 1e-9


@often
@given(vectors | near_the_simplex)
def test_projection_leaves_its_own_result_in_place(y):
    once = projected(y)
    np.testing.assert_allclose(projected(once), once, rtol=0, atol=1e-12)


@often
@given(hnp.arrays(float, st.integers(1, 12), elements=st.floats(0.01, 10)))
def test_projection_leaves_mixtures_in_place(y):
    mixture = y / y.sum()
    np.testing.assert_allclose(projected(mixture), mixture, rtol=0, atol=1e-12)


@often
@given(vectors | near_the_simplex, st.floats(-100, 100))
def test_projection_ignores_a_shift_of_all_entries(y, shift):
    np.testing.assert_allclose(projected(y + shift), projected(y), rtol=0, atol=1e-9)


@often
@given(vectors | near_the_simplex)
def test_projection_keeps_the_order(y):
    point = projected(y)
    assert (np.diff(point[np.argsort(y)]) >= 0).all()


@often
@given(hnp.arrays(float, st.integers(2, 6), elements=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0])))
def test_equal_entries_share_alike(y):
    point = projected(y)
    for entry in np.unique(y):
        assert np.ptp(point[y == entry]) == 0
    np.testing.assert_allclose(point, closest_on_simplex(y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("clients", [1, 2, 5])
@pytest.mark.parametrize("entry", [-7.0, 0.0, 0.5, 40.0])
def test_all_equal_is_the_uniform_mixture(clients, entry):
    np.testing.assert_allclose(projected([entry] * clients), [1 / clients] * clients, rtol=1e-12)


@pytest.mark.parametrize(("y", "closest"), [((1.4, 0.3), (1, 0)), ((0.3, 1.4), (0, 1)), ((0.0, -0.6), (0.8, 0.2))])
def test_projection_does_not_share_the_off_by_one_of_published_code(y, closest):
    """ρ = max{j : u_j + (1 − Σ_{i≤j} u_i)/j > 0}; public AFL code sums to j − 1 only.

    It finds ρ too large for (1.4, 0.3): 0.3 − 0.4/2 = 0.1 instead of 0.3 − 0.7/2 = −0.05, and returns (1.05, 0).
    It finds ρ too small for (0, −0.6): −0.6 + 1/2 = −0.1 instead of −0.6 + 1.6/2 = 0.2, and returns (1, 0.4).
    """
    np.testing.assert_allclose(projected(y), closest, rtol=0, atol=1e-12)


def test_projection_by_hand():
    # Two stay: (0.8 + 0.6 − 1)/2 = 0.2 comes off each, and −0.3 becomes 0.
    np.testing.assert_allclose(projected([0.6, -0.3, 0.8]), [0.4, 0, 0.6], rtol=0, atol=1e-12)
