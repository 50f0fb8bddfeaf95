"""All mixtures, judged one after another. Which of them are ambiguous lies on disk, piece by piece.

Mixtures are numbered: group · mixtures per group + place in it. The images themselves are decoded anew when needed.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.datasets.ambiguous import mixing, vae
from lossgap.datasets.ambiguous.crew import Done, side_by_side
from lossgap.datasets.ambiguous.digits import Digits
from lossgap.datasets.ambiguous.mixing import Scale
from lossgap.datasets.ambiguous.pixels import pixels
from lossgap.datasets.ambiguous.recipe import Recipe
from lossgap.datasets.ambiguous.stage import AGAIN
from lossgap.disk import read_tensors, whole_file, write_tensors

Params = Any

PIECE = 1024
"""Groups whose judgements share a file."""

AT_ONCE = 2
"""Groups that are decoded and judged together: the activations of more fall out of the processor's cache."""

ENCODED_AT_ONCE = 1000


class Source(NamedTuple):
    """What mixtures are drawn from."""

    params: Params  # the autoencoder's
    means: Array  # where the training images lie, [rows, latent]
    rows_of: Array  # [digits, most rows of a class]
    counts: Array  # [digits]
    key: Array


class Pool(NamedTuple):
    """The ambiguous mixtures among all."""

    number: np.ndarray
    entropy: np.ndarray


def source(params: Params, digits: Digits, key: Array) -> Source:
    """Encode the training images."""
    rows_of, counts = digits.by_class
    encode = jax.jit(lambda image: vae.encode(params, pixels(image[None]))[0][0])
    means = jax.lax.map(encode, jnp.asarray(digits.images), batch_size=ENCODED_AT_ONCE)
    return Source(params, means, jnp.asarray(rows_of), jnp.asarray(counts), key)


def judged(
    source: Source,
    scale: Scale,
    networks: list[Params],
    recipe: Recipe,
    folder: Path,
    done: Done = lambda groups: None,
) -> Pool:
    """The ambiguous mixtures among all of them; pieces that are on disk are not judged again."""

    def piece(first: int, done: Done) -> Pool:
        path = folder / f"mixtures-{first // PIECE:03}.safetensors"
        if not path.exists():
            found = _piece(source, scale, networks, recipe, first, done)
            with whole_file(path) as draft:
                write_tensors(draft, found._asdict())
        done(min(PIECE, recipe.groups - first))
        return Pool(**read_tensors(path, AGAIN)[0])

    pieces = side_by_side([partial(piece, first) for first in range(0, recipe.groups, PIECE)], done)
    return Pool(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def images(source: Source, scale: Scale, numbers: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The images of some mixtures, as bytes [rows, pixels]."""
    parts = []
    for rows in np.array_split(numbers, -(-len(numbers) // ENCODED_AT_ONCE)):
        places = divmod(jnp.asarray(rows), recipe.mixtures)
        parts.append(np.asarray(_bytes(source, scale, *places, mixtures=recipe.mixtures)))
    return np.concatenate(parts)


def groups_of(first: int, recipe: Recipe) -> Iterator[np.ndarray]:
    """The numbers of a piece's groups, a few at once."""
    last = min(first + PIECE, recipe.groups)
    return (np.arange(start, min(start + AT_ONCE, last)) for start in range(first, last, AT_ONCE))


def _piece(source: Source, scale: Scale, networks: list[Params], recipe: Recipe, first: int, done: Done) -> Pool:
    found = []
    for groups in groups_of(first, recipe):
        kept, entropy = map(np.asarray, judged_groups(source, scale, networks, groups, recipe=recipe))
        number = (groups[:, None] * recipe.mixtures + np.arange(recipe.mixtures)).ravel()
        found.append(Pool(number[kept], entropy[kept]))
        done(groups[0] - first)
    return Pool(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@partial(jax.jit, static_argnames="recipe")
def judged_groups(
    source: Source, scale: Scale, networks: list[Params], groups: Array, *, recipe: Recipe
) -> tuple[Array, Array]:
    """Which mixtures of some groups are ambiguous, and the entropy of each, [rows]."""
    x = mixing.rescaled(decoded(source, groups, mixtures=recipe.mixtures), scale)
    judgement = mixing.judged(mixing.predicted(networks, x))
    return mixing.kept(judgement, recipe), judgement.entropy


@partial(jax.jit, static_argnames="mixtures")
def decoded(source: Source, groups: Array, *, mixtures: int) -> Array:
    """The decoder's pixels of all mixtures of some groups, [rows, pixels]."""
    return vae.decode(source.params, _points(source, groups, mixtures).reshape(-1, source.means.shape[1]))


@partial(jax.jit, static_argnames="mixtures")
def _bytes(source: Source, scale: Scale, groups: Array, places: Array, *, mixtures: int) -> Array:
    chosen = _points(source, groups, mixtures)[jnp.arange(len(groups)), places]
    return jnp.round(255 * mixing.rescaled(vae.decode(source.params, chosen), scale)).astype(jnp.uint8)


def _points(source: Source, groups: Array, mixtures: int) -> Array:
    """[group, mixture, latent]."""

    def one(group: Array) -> Array:
        key = jax.random.fold_in(source.key, group)
        return mixing.points(source.means, source.rows_of, source.counts, key, mixtures=mixtures)

    return jax.vmap(one)(groups)
