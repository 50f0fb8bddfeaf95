"""The scale on which decoded images have MNIST's mean and deviation."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lossgap.datasets.ambiguous import pool, selection
from lossgap.datasets.ambiguous.mixing import Scale
from lossgap.datasets.ambiguous.pool import Source
from lossgap.datasets.ambiguous.recipe import Recipe

Params = Any


def scale(source: Source, networks: list[Params], recipe: Recipe) -> Scale:
    """Mean and deviation of the decoder's pixels, from the mixtures of the first piece.

    It is the images that will be drawn which are to look like MNIST's. So all mixtures give a first scale; on it they
    are judged, and then each counts as much as in the draw.
    """
    means, squares = _moments(source, recipe)
    first = _weighted(means, squares, np.ones_like(means))
    kept, entropy = _judged(source, first, networks, recipe)
    weights = np.zeros_like(means)
    weights[kept] = selection.weights(entropy[kept], recipe)
    return _weighted(means, squares, weights) if weights.any() else first


def _moments(source: Source, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Each mixture's mean pixel, and its pixels' mean square."""
    images = (
        np.asarray(pool.decoded(source, groups, mixtures=recipe.mixtures), np.float64)
        for groups in pool.groups_of(0, recipe)
    )
    means, squares = zip(*((x.mean(axis=1), np.square(x).mean(axis=1)) for x in images), strict=True)
    return np.concatenate(means), np.concatenate(squares)


def _judged(source: Source, scale: Scale, networks: list[Params], recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    judgements = [
        pool.judged_groups(source, scale, networks, groups, recipe=recipe) for groups in pool.groups_of(0, recipe)
    ]
    kept, entropy = (np.concatenate([np.asarray(a) for a in each]) for each in zip(*judgements, strict=True))
    return kept, entropy


def _weighted(means: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> Scale:
    mean, square = (np.average(each, weights=weights) for each in (means, squares))
    return Scale(jnp.float32(mean), jnp.float32(np.sqrt(square - mean**2)))
