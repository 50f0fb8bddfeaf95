"""Which of the ambiguous mixtures become the data set: all degrees of ambiguity are there, clearer ones more often."""

import numpy as np

from lossgap.datasets.ambiguous.pool import Pool
from lossgap.datasets.ambiguous.recipe import Recipe
from lossgap.errors import require


def bin_of(entropy: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The number of each entropy's bin; −1 beyond the last."""
    low, high = recipe.binned
    number = np.floor((entropy - low) / (high - low) * recipe.bins).astype(int)
    return np.where((entropy >= low) & (entropy < high), number, -1)


def weights(entropy: np.ndarray, recipe: Recipe) -> np.ndarray:
    """How much each mixture counts: a bin with n of them counts n^evenness in all."""
    bins = bin_of(entropy, recipe)
    counts = np.bincount(bins[bins >= 0], minlength=recipe.bins)
    share = np.where(counts > 0, np.maximum(counts, 1) ** (recipe.evenness - 1.0), 0)
    return np.where(bins >= 0, share[bins], 0)


def chosen(pool: Pool, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """The numbers of as many mixtures as both parts need, in random order: one of a group at most, so that no image of
    the set is a near twin of another.

    Mixtures queue by exponential variates that are divided by their weights: then the first of those that wait is drawn
    with a probability proportional to its weight.
    """
    weight = weights(pool.entropy, recipe)
    with np.errstate(divide="ignore"):
        queue = np.argsort(rng.exponential(size=len(weight)) / weight, kind="stable")
    queue = queue[weight[queue] > 0]
    _, first = np.unique(pool.number[queue] // recipe.mixtures, return_index=True)
    wanted = 2 * recipe.images
    require(
        len(first) >= wanted,
        f"Ambiguous-MNIST: {len(first)} of {recipe.groups} groups gave an ambiguous mixture, and {wanted} are needed.",
        "Use a recipe with more groups, fewer images or longer training.",
    )
    return rng.permutation(pool.number[queue[np.sort(first)[:wanted]]])
