"""Build Ambiguous-MNIST from MNIST by the published recipe, stage by stage.

    autoencoder  →  networks  →  mixtures, judged  →  some of them  →  labels

Each stage leaves what it has done on disk, after every epoch and every piece, in a folder of its own recipe. A build
that was interrupted, however roughly, goes on from there and ends with the same bytes.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import lossgap
from lossgap.datasets.ambiguous import calibration, lenet, mixing, pool, selection, stage, vae
from lossgap.datasets.ambiguous.built import DIGEST, FORMAT, VERSION
from lossgap.datasets.ambiguous.crew import Done, side_by_side
from lossgap.datasets.ambiguous.digits import Digits
from lossgap.datasets.ambiguous.figures import Figures, figures
from lossgap.datasets.ambiguous.pixels import WHITE, pixels
from lossgap.datasets.ambiguous.place import MANIFEST, SHEET, TENSORS
from lossgap.datasets.ambiguous.recipe import SIDE, Recipe
from lossgap.datasets.ambiguous.sheet import contact_sheet
from lossgap.disk import file_digest, whole_folder, write_json, write_tensors
from lossgap.progress import progress_bar

Params = Any
Say = Callable[[str], None]

AUTOENCODER, NETWORKS, MIXTURES, SELECTION, LABELS = range(5)
"""What a build draws from its seed: each stage from a stream of its own."""


@dataclass(frozen=True)
class Build:
    """A build on its way.

    Args:
        recipe: what to do.
        digits: MNIST.
        unfinished: where stages leave what they have done.
        progress: show progress bars; None shows them on a terminal only.
        say: told a line about each stage that has ended.
    """

    recipe: Recipe
    digits: Digits
    unfinished: Path
    progress: bool | None = None
    say: Say = lambda line: None

    def key(self, stage: int, part: int = 0) -> Array:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.recipe.seed), stage), part)

    @contextmanager
    def bar(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        with progress_bar(label, total, shown=self.progress) as update:
            yield update


def build(
    folder: Path,
    recipe: Recipe = Recipe(),
    *,
    digits: Digits | None = None,
    progress: bool | None = None,
    say: Say = lambda line: None,
) -> Figures:
    """Build the data set into a folder, which appears once it is complete.

    Args:
        folder: of the tensors and the manifest.
        recipe: the published one by default.
        digits: MNIST's own parts by default.
        progress, say: as for `Build`.
    """
    digits = digits or Digits.published()
    unfinished = folder.with_name(f"unfinished-{_hash(recipe, digits)}")
    on_its_way = Build(recipe, digits, unfinished, progress, say)
    params, networks = autoencoder(on_its_way), ensemble(on_its_way)
    tensors = ambiguous_images(on_its_way, params, networks)
    reached = figures(tensors["images"], digits.images, tensors["entropy"][recipe.images :])
    with whole_folder(folder) as draft:
        write_tensors(draft / TENSORS, tensors)
        (draft / SHEET).write_bytes(contact_sheet(tensors["images"], tensors["entropy"]))
        write_json(draft / MANIFEST, _manifest(on_its_way, reached, file_digest(draft / TENSORS)))
    shutil.rmtree(unfinished)
    return reached


def autoencoder(build: Build) -> Params:
    """The trained autoencoder's parameters."""
    recipe, images = build.recipe, jnp.asarray(build.digits.images)

    def epoch(state: vae.Training, number: int) -> vae.Training:
        key, step_size = build.key(AUTOENCODER, number + 1), vae.step_size(recipe, number)
        return vae.epoch(state, images, key, step_size, batch=recipe.batch)

    start = vae.start(recipe, build.key(AUTOENCODER))
    with build.bar("autoencoder", recipe.epochs) as done:
        state = stage.trained(build.unfinished / "autoencoder.safetensors", start, epoch, recipe.epochs, done)
    build.say(f"autoencoder: loss {float(state.loss):.2f} per image in the last of {recipe.epochs} epochs")
    return state.adam.params


def ensemble(build: Build) -> list[Params]:
    """Each network's parameters, of the epoch with the best test loss."""
    with build.bar("networks", build.recipe.networks * build.recipe.network_epochs) as done:
        states = side_by_side([partial(_network, build, number) for number in range(build.recipe.networks)], done)
    for number, state in enumerate(states):
        build.say(f"network {number + 1}: test loss {float(state.best_loss):.4f} in the best epoch")
    return [state.best for state in states]


def ambiguous_images(build: Build, params: Params, networks: list[Params]) -> dict[str, np.ndarray]:
    """Images, labels and what the ensemble says of them: the training part, then the test part."""
    recipe = build.recipe
    source = pool.source(params, build.digits, build.key(MIXTURES))
    scale = calibration.scale(source, networks, recipe)
    with build.bar("mixtures, group by group", recipe.groups) as done:
        found = pool.judged(source, scale, networks, recipe, build.unfinished, done)
    build.say(f"mixtures: {len(found.number):,} of {recipe.groups * recipe.mixtures:,} are ambiguous")
    numbers = selection.chosen(found, recipe, np.random.default_rng([recipe.seed, SELECTION]))
    images = pool.images(source, scale, numbers, recipe)
    return _labelled(images, networks, recipe, build.key(LABELS)) | {"group": numbers // recipe.mixtures}


def _network(build: Build, number: int, done: Done) -> lenet.Training:
    recipe, digits = build.recipe, build.digits
    train = jnp.asarray(digits.images), jnp.asarray(digits.labels)
    test = jnp.asarray(digits.test_images), jnp.asarray(digits.test_labels)
    key = build.key(NETWORKS, number)

    def epoch(state: lenet.Training, epoch: int) -> lenet.Training:
        fresh = jax.random.fold_in(key, epoch + 1)
        return lenet.epoch(state, train, test, fresh, recipe.step_size, batch=recipe.batch)

    start = lenet.start(jax.random.fold_in(key, 0))
    return stage.trained(build.unfinished / f"network-{number}.safetensors", start, epoch, recipe.network_epochs, done)


def _labelled(images: np.ndarray, networks: list[Params], recipe: Recipe, key: Array) -> dict[str, np.ndarray]:
    """Labels are drawn from the networks' mean prediction for the image as it is kept."""
    predict = jax.jit(lambda x: mixing.predicted(networks, pixels(x)))
    parts = [predict(part) for part in np.array_split(images, -(-len(images) // pool.ENCODED_AT_ONCE))]
    probabilities = jnp.concatenate(parts, axis=1)
    mean, judgement = probabilities.mean(axis=0), mixing.judged(probabilities)
    labels = jax.random.categorical(key, jnp.log(mean)[:, None], shape=(len(images), recipe.labels))
    return {
        "images": images.reshape(-1, SIDE, SIDE),
        "labels": np.asarray(labels, np.uint8),
        "probabilities": np.asarray(mean),
        "entropy": np.asarray(judgement.entropy),
        "disagreement": np.asarray(judgement.disagreement),
    }


def _manifest(build: Build, reached: Figures, digest: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "lossgap": lossgap.__version__,
        "recipe": asdict(build.recipe),
        "mnist sha256": build.digits.digest,
        DIGEST: digest,
        "white": WHITE,
        "figures": asdict(reached),
    }


def _hash(recipe: Recipe, digits: Digits) -> str:
    content = json.dumps([VERSION, asdict(recipe), digits.digest], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]
