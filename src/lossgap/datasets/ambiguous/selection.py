"""Which of the ambiguous mixtures become the data set: all degrees of ambiguity are there, clearer ones more often."""

import numpy as np

from lossgap.datasets.ambiguous.pool import Pool
from lossgap.datasets.ambiguous.recipe import Recipe
from lossgap.errors import require

FEWEST = 10
"""Images that a group gives on average, at most."""


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
    """The numbers of the training part's mixtures, then of the test part's; both draw with replacement.

    Mixtures that are very ambiguous are so rare that without replacement there would not be enough of them. No group
    gives images to both parts, so that no image of one has a twin, or a near one, in the other.
    """
    weight, group = weights(pool.entropy, recipe), pool.number // recipe.mixtures
    halves = _halves(pool.entropy[weight > 0], group[weight > 0], rng)
    require(
        all(FEWEST * len(half) >= recipe.images for half in halves),
        f"Ambiguous-MNIST: {sum(map(len, halves))} of {recipe.groups} groups gave an ambiguous mixture, too few for "
        f"{2 * recipe.images} images.",
        "Use a recipe with more groups, fewer images or longer training.",
    )
    return np.concatenate([_drawn(pool.number, weight * np.isin(group, half), recipe.images, rng) for half in halves])


def _halves(entropy: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The groups, dealt to both parts like to like: of two that are about as ambiguous, each part gets one."""
    order = np.argsort(-entropy, kind="stable")
    groups, first = np.unique(group[order], return_index=True)
    ranked = groups[np.argsort(first)]
    pairs = ranked[: len(ranked) // 2 * 2].reshape(-1, 2)
    dealt = rng.permuted(pairs, axis=1)
    return dealt[:, 0], dealt[:, 1]


def _drawn(numbers: np.ndarray, weight: np.ndarray, images: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(numbers, images, p=weight / weight.sum())
