"""DirtyMNIST as clients, and Ambiguous-MNIST built by its recipe: on tiny instances, never the whole build."""

import gzip
import hashlib
import json
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.stats import wasserstein_distance

import lossgap as lg
from lossgap import disk
from lossgap.cli import main
from lossgap.datasets import catalogue, fetch, home, images
from lossgap.datasets.ambiguous import adam, built, figures, lenet, mixing, place, pool, selection, sheet, stage, vae
from lossgap.datasets.ambiguous.build import build
from lossgap.datasets.ambiguous.digits import Digits
from lossgap.datasets.ambiguous.pool import Pool
from lossgap.datasets.ambiguous.recipe import Recipe
from lossgap.datasets.dirty_mnist import dealt

TINY = Recipe(
    hidden=(32, 16),
    latent=4,
    epochs=2,
    drops=(1,),
    batch=50,
    networks=2,
    network_epochs=2,
    groups=60,
    mixtures=8,
    most_disagreement=1.0,
    binned=(0.05, 2.4),
    images=20,
)
IMAGES = 12_000
LABELS = 10


@dataclass(frozen=True)
class Tensors:
    """Where files like the published ones lie, and the labels in them."""

    folder: Path
    labels: np.ndarray


@pytest.fixture(scope="module")
def few(real_data) -> Digits:
    """A few hundred of MNIST's images."""
    digits = Digits.published()
    return Digits(digits.images[:300], digits.labels[:300], digits.test_images[:100], digits.test_labels[:100])


@pytest.fixture(scope="module")
def tiny(few, tmp_path_factory) -> Path:
    """A built set of forty images."""
    folder = tmp_path_factory.mktemp("data") / "ambiguous-mnist" / "built"
    build(folder, TINY, digits=few)
    return folder


@pytest.fixture(scope="module")
def mnist(real_data, tmp_path_factory) -> Path:
    """MNIST's files, unpacked once for all tests."""
    folder = tmp_path_factory.mktemp("mnist")
    for path in (real_data / "mnist").iterdir():
        content = path.read_bytes()
        (folder / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(content) if path.suffix else content)
    return folder


@pytest.fixture
def elsewhere(mnist, tmp_path, monkeypatch) -> Path:
    """A folder of data sets that holds MNIST and nothing else."""
    monkeypatch.setenv("LOSSGAP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist").symlink_to(mnist)
    return tmp_path / "data"


@pytest.fixture(scope="module")
def tensors(tmp_path_factory) -> Tensors:
    """Files like the published ones. Every image names itself, whatever noise is added."""
    samples = np.zeros((IMAGES, 1, 28, 28), np.float32)
    samples[:, 0, 0, :14] = 10 + np.arange(IMAGES)[:, None] / 16384
    labels = np.random.default_rng(3).integers(0, 10, (IMAGES, LABELS))
    folder = tmp_path_factory.mktemp("published")
    for name, content in (("amnist_samples.pt", samples), ("amnist_labels.pt", labels)):
        torch.save(torch.tensor(content), folder / name)
    return Tensors(folder, labels)


@pytest.fixture
def published(tensors, elsewhere, monkeypatch) -> Tensors:
    """Those files among the data sets, with checksums of their own in the catalogue."""
    (elsewhere / place.NAME).mkdir()
    files = []
    for path in tensors.folder.iterdir():
        (elsewhere / place.NAME / path.name).symlink_to(path)
        checksum = catalogue.md5(hashlib.md5(path.read_bytes()).hexdigest())
        files.append(catalogue.File(name=path.name, unpacked=checksum))
    original = fetch.named(place.NAME)
    monkeypatch.setattr(fetch, "named", lambda name: replace(original, files=tuple(files)))
    return tensors


def names_of(x: np.ndarray) -> np.ndarray:
    """Which of the published images each row shows; −1 for MNIST's."""
    own = x[:, 0, :14].mean(axis=1)
    return np.where(own > 5, np.round((own - 10) * 16384), -1).astype(int)


class TestTwins:
    def test_twins_stay_together_and_shares_are_kept(self):
        rng = np.random.default_rng(0)
        twins = rng.integers(0, 300, 2_000)
        owners = dealt(twins, np.array([0.2, 0.5]), rng)
        assert sorted(np.concatenate(owners)) == list(range(2_000))
        held = [set(twins[own].tolist()) for own in owners]
        assert not held[0] & held[1]
        assert not held[1] & held[2]
        assert [len(own) / 2_000 for own in owners] == pytest.approx([0.2, 0.3, 0.5], abs=0.01)


class TestClients:
    def test_from_none_to_all_ambiguous(self, published):
        federation = lg.datasets.dirty_mnist(noise=0)
        assert federation.names == tuple(f"client {k}" for k in range(5))
        assert (federation.classes, federation.features) == (10, (28, 28))
        held = [np.concatenate([split.x for _, split in client.splits]) for client in federation.clients]
        assert [len(x) for x in held] == [1600] * 5
        assert [(names_of(x) >= 0).mean() for x in held] == [0, 0.25, 0.5, 0.75, 1]

    @pytest.mark.parametrize(("clients", "rows"), [(2, 2000), (3, 1000), (7, 3001)])
    def test_any_number_of_clients_and_rows(self, published, clients, rows):
        federation = lg.datasets.dirty_mnist(clients=clients, rows=rows, noise=0)
        assert sum(federation.rows(split).sum() for split in ("train", "validation", "test")) == rows
        for k, client in enumerate(federation.clients):
            ambiguous = np.concatenate([names_of(split.x) >= 0 for _, split in client.splits])
            assert abs(ambiguous.sum() - len(ambiguous) * k / (clients - 1)) <= 0.5

    @pytest.mark.parametrize("rows", [8_000, 60_000])  # of 60,000, most images are there several times
    def test_copies_of_an_image_stay_together(self, published, rows):
        federation = lg.datasets.dirty_mnist(rows=rows, noise=0, seed=4)
        homes = [
            {(client.name, name): set(names_of(split.x).tolist()) - {-1} for name, split in client.splits}
            for client in federation.clients
        ]
        seen = Counter(image for of_client in homes for shown in of_client.values() for image in shown)
        assert max(seen.values()) == 1
        ambiguous = sum((names_of(split.x) >= 0).sum() for client in federation.clients for _, split in client.splits)
        assert ambiguous > len(seen)  # some images do have copies

    def test_labels_are_the_images_own_and_none_is_used_twice(self, published):
        federation = lg.datasets.dirty_mnist(rows=60_000, noise=0)
        used = Counter()
        for client in federation.clients:
            for _, split in client.splits:
                shown = names_of(split.x)
                used.update(zip(shown[shown >= 0].tolist(), split.y[shown >= 0].tolist(), strict=True))
        for (image, label), count in used.items():
            assert count <= (published.labels[image] == label).sum()

    def test_clear_rows_are_mnists(self, published):
        mnist = images.read(images.MNIST, rows=None, seed=0)
        known = {image.tobytes(): label for image, label in zip(mnist.kept, mnist.y.tolist(), strict=True)}
        federation = lg.datasets.dirty_mnist(noise=0)
        seen = set()
        for client in federation.clients:
            for _, split in client.splits:
                clear = names_of(split.x) < 0
                for image, label in zip(split.x[clear], split.y[clear], strict=True):
                    kept = np.round(255 * image).astype(np.uint8).tobytes()
                    assert known[kept] == label
                    seen.add(kept)
        assert len(seen) > 3990  # none is dealt twice; MNIST itself holds a few twins

    def test_splits_are_fractions_of_the_images_class_by_class(self, published):
        federation = lg.datasets.dirty_mnist(fractions=(0.5, 0.3, 0.2))
        for client in federation.clients:
            sizes = np.array([len(split) for _, split in client.splits])
            assert np.allclose(sizes / sizes.sum(), (0.5, 0.3, 0.2), atol=0.02)
        clear = federation.clients[0]
        shares = [np.bincount(split.y, minlength=10) / len(split) for _, split in clear.splits]
        assert np.allclose(shares[0], shares[1], atol=0.01)

    def test_noise_is_normal_and_differs_between_copies(self, published):
        quiet, noisy = (lg.datasets.dirty_mnist(noise=noise, seed=2) for noise in (0, 0.05))
        added = np.concatenate(
            [
                (b.x - a.x).ravel()
                for one, other in zip(quiet.clients, noisy.clients, strict=True)
                for (_, a), (_, b) in zip(one.splits, other.splits, strict=True)
            ]
        )
        assert added.mean() == pytest.approx(0, abs=1e-4)
        assert added.std() == pytest.approx(0.05, abs=1e-4)
        assert np.abs(np.corrcoef(added[:784_000].reshape(1000, 784)) - np.eye(1000)).max() < 0.3

    def test_parts_are_the_publishers_own(self, published):
        for part, low, high in (("train", 0, 6000), ("test", 6000, 12_000)):
            federation = lg.datasets.dirty_mnist(rows=2000, parts=(part,), noise=0)
            shown = np.concatenate([names_of(split.x) for client in federation.clients for _, split in client.splits])
            assert shown[shown >= 0].min() >= low
            assert shown.max() < high

    def test_same_seed_same_rows(self, published):
        one, two, other = (lg.datasets.dirty_mnist(rows=1000, seed=seed) for seed in (5, 5, 6))
        for a, b in zip(one.clients, two.clients, strict=True):
            assert all(np.array_equal(x.kept, y.kept) for (_, x), (_, y) in zip(a.splits, b.splits, strict=True))
        assert not np.array_equal(one.clients[0].test.x, other.clients[0].test.x)

    @pytest.mark.parametrize(
        ("wrong", "problem"),
        [
            ({"clients": 1}, "clients is 1"),
            ({"rows": 40}, "rows is 40 for 5 clients"),
            ({"rows": 500_000}, "mnist: rows is 250000"),
            ({"noise": -1}, "noise is -1"),
            ({"source": "mine"}, "source is 'mine'"),
            ({"parts": "train"}, "parts is 'train'"),
        ],
    )
    def test_wrong_settings(self, published, wrong, problem):
        with pytest.raises(lg.SettingError, match=problem):
            lg.datasets.dirty_mnist(**wrong)

    def test_other_bytes_than_were_published_are_refused(self, published, elsewhere):
        path = elsewhere / place.NAME / "amnist_labels.pt"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink()
        path.write_bytes(content)
        with pytest.raises(lg.FileError, match=r"amnist_labels\.pt.*lossgap data fetch ambiguous-mnist"):
            lg.datasets.dirty_mnist()


class TestWhatIsThere:
    def test_nothing(self, elsewhere):
        with pytest.raises(lg.FileError, match=r"fetch ambiguous-mnist.*lossgap data build ambiguous-mnist"):
            lg.datasets.dirty_mnist()

    def test_a_built_set_among_the_data_or_in_the_cache(self, elsewhere, tiny):
        for folder in (elsewhere, home.user_cache() / "data"):
            there = folder / place.NAME / "built"
            there.parent.mkdir(parents=True)
            there.symlink_to(tiny)
            federation = lg.datasets.dirty_mnist(clients=2, rows=100)
            assert federation.rows().sum() > 50
            assert lg.datasets.dirty_mnist(clients=2, rows=100, source="built").names == federation.names
            with pytest.raises(lg.FileError, match="as published is not on this machine"):
                lg.datasets.dirty_mnist(source="published")
            there.unlink()

    def test_more_rows_than_there_are(self, elsewhere, tiny):
        (elsewhere / place.NAME).mkdir()
        (elsewhere / place.NAME / "built").symlink_to(tiny)
        assert len(lg.datasets.dirty_mnist(clients=2, rows=800).clients) == 2
        with pytest.raises(lg.SettingError, match="401 ambiguous rows are asked for, and there are 40 images with 10"):
            lg.datasets.dirty_mnist(clients=2, rows=802)

    def test_a_folder_that_is_marked_read_only_is_not_written_into(self, elsewhere):
        assert place.room() == elsewhere / place.NAME / "built"
        elsewhere.chmod(0o555)
        assert place.room() == home.user_cache() / "data" / place.NAME / "built"
        elsewhere.chmod(0o755)

    def test_a_changed_file_is_refused(self, tiny, tmp_path):
        for name, content in ((place.TENSORS, b"x"), (place.MANIFEST, b"{")):
            copy = tmp_path / name
            copy.mkdir()
            for path in tiny.iterdir():
                (copy / path.name).write_bytes(path.read_bytes())
            assert built.read(copy).recipe["seed"] == 0
            changed = bytearray((copy / name).read_bytes())
            changed[-1:] = content
            (copy / name).write_bytes(changed)
            with pytest.raises(lg.FileError, match="lossgap data build ambiguous-mnist"):
                built.read(copy)

    def test_the_command_builds_where_it_will_be_found(self, elsewhere, tiny, monkeypatch):
        def building(folder: Path, recipe: Recipe, *, say: object) -> figures.Figures:
            folder.parent.mkdir(parents=True)
            folder.symlink_to(tiny)
            assert recipe == Recipe(seed=7)
            return built.read(folder).figures

        monkeypatch.setattr("lossgap.datasets.ambiguous.build.build", building)
        shown = CliRunner().invoke(main, ["data", "build", "ambiguous-mnist", "--seed", "7"])
        assert shown.exit_code == 0, shown.output
        assert str(place.found()) in shown.output
        assert "published" in shown.output

    def test_the_command_shows_a_set_that_is_there(self, elsewhere, tiny):
        (elsewhere / place.NAME).mkdir()
        (elsewhere / place.NAME / "built").symlink_to(tiny)
        shown = CliRunner().invoke(main, ["data", "build", "ambiguous-mnist"])
        assert shown.exit_code == 0
        assert "mean pixel" in shown.output
        assert "1025" in shown.output
        other = CliRunner().invoke(main, ["data", "build", "ambiguous-mnist", "--seed", "1"])
        assert other.exit_code == 1
        assert "built with seed 0" in other.output


class TestBuild:
    def test_what_a_build_leaves(self, tiny, few):
        found = built.read(tiny)
        assert found.images.shape == (40, 28, 28)
        assert found.labels.shape == (40, 10)
        assert found.labels.max() < 10
        manifest = json.loads((tiny / place.MANIFEST).read_text())
        assert manifest["recipe"]["groups"] == TINY.groups
        assert manifest["mnist sha256"] == few.digest
        assert found.figures.mean_pixel == pytest.approx(found.images.mean() / 255)
        assert sorted(path.name for path in tiny.parent.iterdir()) == ["built"]  # nothing unfinished stays

    def test_no_group_is_in_both_parts(self, tiny):
        tensors, _ = disk.read_tensors(tiny / place.TENSORS, "")
        train, test = (set(part.tolist()) for part in np.split(tensors["group"], 2))
        assert not train & test

    def test_labels_follow_the_mean_prediction(self, tiny):
        tensors, _ = disk.read_tensors(tiny / place.TENSORS, "")
        p = tensors["probabilities"].astype(float)
        assert np.allclose(p.sum(axis=1), 1, atol=1e-5)
        assert np.allclose(-(p * np.log(p)).sum(axis=1), tensors["entropy"], atol=1e-4)
        shares = np.bincount(tensors["labels"].ravel(), minlength=10) / tensors["labels"].size
        assert np.allclose(shares, p.mean(axis=0), atol=4 * np.sqrt(0.25 / 400))

    @pytest.mark.slow
    def test_a_build_that_is_killed_goes_on_and_ends_with_the_same_bytes(self, tiny, few, tmp_path):
        np.savez(tmp_path / "few.npz", *(few.images, few.labels, few.test_images, few.test_labels))
        code = (
            "import sys, numpy as np\n"
            "from pathlib import Path\n"
            "from lossgap.datasets.ambiguous.build import build\n"
            "from lossgap.datasets.ambiguous.digits import Digits\n"
            "from lossgap.datasets.ambiguous.recipe import Recipe\n"
            f"build(Path('built'), {TINY!r}, digits=Digits(*np.load('few.npz').values()))\n"
        )
        kills = 0
        for wanted in ("autoencoder", "network-0", "network-1", None):
            worker = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
            while worker.poll() is None and not (wanted and list(tmp_path.glob(f"unfinished-*/{wanted}*"))):
                time.sleep(0.01)
            if wanted and worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
                kills += 1
            worker.wait()
        assert kills == 3
        for name in (place.TENSORS, place.MANIFEST, place.SHEET):
            assert (tmp_path / "built" / name).read_bytes() == (tiny / name).read_bytes()

    def test_interrupted_after_any_stage_it_ends_with_the_same_bytes(self, tiny, few, tmp_path, monkeypatch):
        """Each write may be the last: the build is stopped after every one of them, and started again."""

        class Stopped(Exception): ...

        def writes_then_stops(path: Path, state: object, epochs: int) -> None:
            original(path, state, epochs)
            raise Stopped

        original, stops = stage.write, 0
        monkeypatch.setattr(stage, "write", writes_then_stops)
        while not (tmp_path / "built").exists():
            try:
                build(tmp_path / "built", TINY, digits=few)
            except Stopped:
                stops += 1
        assert TINY.epochs + TINY.network_epochs <= stops <= TINY.epochs + TINY.networks * TINY.network_epochs
        assert (tmp_path / "built" / place.TENSORS).read_bytes() == (tiny / place.TENSORS).read_bytes()

    def test_another_recipe_does_not_go_on_from_this_one(self, few, tmp_path, monkeypatch):
        monkeypatch.setattr(pool, "judged", lambda *_: 1 / 0)
        for seed in (0, 1):
            with pytest.raises(ZeroDivisionError):
                build(tmp_path / "built", replace(TINY, seed=seed, epochs=1, networks=1, network_epochs=1), digits=few)
        assert len(list(tmp_path.glob("unfinished-*"))) == 2

    def test_too_few_ambiguous_mixtures(self):
        numbers = np.arange(20)
        with pytest.raises(lg.SettingError, match="2 of 60 groups"):
            selection.chosen(Pool(numbers, np.full(20, 1.0)), TINY, np.random.default_rng(0))

    def test_digits_that_lack_a_class(self, few):
        with pytest.raises(lg.DataError, match=r"\[3\]"):
            Digits(few.images[few.labels != 3], few.labels[few.labels != 3], few.test_images, few.test_labels)


class TestAutoencoder:
    def test_loss_by_hand(self):
        """With all weights 0 the decoder says ½ everywhere and the encoder the prior: 784 ln 2 nats."""
        params = jax.tree.map(jnp.zeros_like, vae.start(TINY, jax.random.key(0)).adam.params)
        x = jnp.asarray(np.random.default_rng(0).random((3, 784)), jnp.float32)
        assert np.allclose(vae.loss(params, x, jnp.ones((3, 4))), 784 * np.log(2))
        params["encoder"][-1]["bias"] = jnp.array([2.0, 0, 0, 0, np.log(4), 0, 0, 0])
        divergence = (4 + 4 - 1 - np.log(4)) / 2  # of N(2, 4) from N(0, 1)
        assert np.allclose(vae.loss(params, x, jnp.ones((3, 4))), 784 * np.log(2) + divergence)

    def test_it_has_the_published_sizes(self):
        params = vae.start(Recipe(), jax.random.key(0)).adam.params
        shapes = {part: [layer["kernel"].shape for layer in layers] for part, layers in params.items()}
        assert shapes == {
            "encoder": [(784, 512), (512, 256), (256, 64)],
            "decoder": [(32, 256), (256, 512), (512, 784)],
        }

    def test_step_sizes(self):
        sizes = {epoch: vae.step_size(Recipe(), epoch) for epoch in (0, 24, 25, 49, 50, 64, 65, 73)}
        assert np.allclose(list(sizes.values()), [1e-3, 1e-3, 2e-4, 2e-4, 4e-5, 4e-5, 8e-6, 8e-6])

    def test_adam_is_pytorchs(self):
        rng = np.random.default_rng(0)
        start, gradients = rng.normal(size=5), rng.normal(size=(20, 5))
        theirs = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
        optimiser = torch.optim.Adam([theirs], lr=0.1)
        ours = adam.start(jnp.asarray(start, jnp.float32))
        for gradient in gradients:
            theirs.grad = torch.tensor(gradient, dtype=torch.float32)
            optimiser.step()
            ours = adam.step(ours, jnp.asarray(gradient, jnp.float32), 0.1)
        assert np.allclose(ours.params, theirs.detach().numpy(), atol=1e-5)


class TestLeNet:
    def test_the_network_is_pytorchs(self):
        params = lenet.init(jax.random.key(1))
        x = np.random.default_rng(1).random((4, 784)).astype(np.float32)
        theirs = torch.tensor((x - 0.1307) / 0.3081).reshape(4, 1, 28, 28)
        for name in ("first", "second"):
            kernel = torch.tensor(np.array(params[name]["kernel"])).permute(3, 2, 0, 1)
            bias = torch.tensor(np.array(params[name]["bias"]))
            theirs = torch.max_pool2d(torch.relu(torch.conv2d(theirs, kernel, bias)), 2)
        theirs = theirs.permute(0, 2, 3, 1).reshape(4, -1)
        for number, layer in enumerate(params["dense"]):
            theirs = theirs @ torch.tensor(np.array(layer["kernel"])) + torch.tensor(np.array(layer["bias"]))
            theirs = torch.relu(theirs) if number < 2 else theirs
        assert np.allclose(lenet.apply(params, jnp.asarray(x)), theirs.numpy(), atol=1e-4)
        sizes = [layer["kernel"].shape for layer in params["dense"]]
        assert sizes == [(256, 120), (120, 84), (84, 10)]


class TestMixtures:
    def test_entropy_and_mutual_information_by_hand(self):
        certain, other, even = [1.0, 0, 0], [0, 1.0, 0], [0.5, 0.5, 0]
        networks = jnp.array([[certain, certain, even], [certain, other, even]])  # [network, image, class]
        judgement = mixing.judged(networks)
        assert np.allclose(judgement.entropy, [0, np.log(2), np.log(2)], atol=1e-6)
        assert np.allclose(judgement.disagreement, [0, np.log(2), 0], atol=1e-6)
        # Two networks that differ and two that are unsure alike have the same entropy; the latter's image is ambiguous.
        assert mixing.kept(judgement, Recipe()).tolist() == [False, False, True]

    def test_limits_of_what_is_kept(self):
        recipe = replace(Recipe(), entropies=(0.5, 1.0), most_disagreement=0.25)
        entropy = jnp.array([0.49, 0.5, 0.99, 1.0, 0.7, 0.7])
        disagreement = jnp.array([0, 0, 0, 0, 0.25, 0.26])
        kept = mixing.kept(mixing.Judgement(entropy, disagreement), recipe)
        assert kept.tolist() == [False, True, True, False, True, False]

    def test_groups_are_two_to_four_images_of_different_classes(self):
        """Each image lies on an axis of its own, so that a mixture tells its weights."""
        rows = 50
        labels = np.arange(rows) % 10
        digits = Digits(np.zeros((rows, 784), np.uint8), labels, np.zeros((1, 784), np.uint8), np.zeros(1, int))
        rows_of, counts = map(jnp.asarray, digits.by_class)
        keys = jax.random.split(jax.random.key(0), 600)
        draw = jax.vmap(lambda key: mixing.points(jnp.eye(rows), rows_of, counts, key, mixtures=5))
        weights = np.asarray(draw(keys))  # [group, mixture, image]
        assert np.allclose(weights.sum(axis=-1), 1, atol=1e-5)
        assert weights.min() >= 0
        used = (weights > 0).any(axis=1)
        assert (used == (weights > 0).all(axis=1)).all()  # all mixtures of a group are of the same images
        sizes = np.bincount(used.sum(axis=1), minlength=6)
        assert sizes[[0, 1, 5]].sum() == 0
        assert (sizes[2:5] > 150).all()
        for group in used:
            assert len(set(labels[group])) == group.sum()
        assert used.any(axis=0).all()  # every image is drawn some time
        pairs = weights[used.sum(axis=1) == 2].max(axis=-1)  # of two, the larger weight is uniform on [½, 1]
        assert pairs.mean() == pytest.approx(0.75, abs=0.02)

    def test_decoded_pixels_get_mnists_mean_and_deviation(self):
        rng = np.random.default_rng(0)
        x = rng.normal(0.4, 0.01, 100_000)
        scale = mixing.Scale(jnp.float32(x.mean()), jnp.float32(x.std()))
        low, middle, high = mixing.rescaled(jnp.array([x.mean() - x.std(), x.mean(), x.mean() + x.std()]), scale)
        assert low == 0
        assert middle == pytest.approx(1.2 * 0.1307 - 0.15, abs=1e-4)
        assert high == pytest.approx(1.2 * (0.1307 + 0.3081) - 0.15, abs=1e-4)


class TestSelection:
    def test_bins(self):
        recipe = Recipe()
        entropy = np.array([0.049, 0.05, 0.0809, 0.0811, 1.5999, 1.6, 2.2])
        assert selection.bin_of(entropy, recipe).tolist() == [-1, 0, 0, 1, 49, -1, -1]

    def test_a_bins_weight_is_a_power_of_its_count(self):
        recipe = replace(Recipe(), bins=3, binned=(0.0, 3.0), evenness=0.2)
        entropy = np.repeat([0.5, 1.5, 2.5, 3.5], [32, 1, 0, 7])
        weight = selection.weights(entropy, recipe)
        assert weight[:32].sum() == pytest.approx(32**0.2)
        assert weight[32] == pytest.approx(1)
        assert weight[33:].tolist() == [0] * 7

    def test_drawn_bins_follow_the_weights(self):
        """Drawn in the proportions  count^0.2  while there are plenty of all."""
        recipe = replace(Recipe(), bins=2, binned=(0.0, 2.0), groups=110_000, mixtures=1, images=500)
        entropy = np.repeat([0.5, 1.5], [100_000, 10_000])
        numbers = selection.chosen(Pool(np.arange(110_000), entropy), recipe, np.random.default_rng(0))
        share = (numbers < 100_000).mean()
        expected = 10**0.2 / (1 + 10**0.2)
        assert share == pytest.approx(expected, abs=3 * np.sqrt(expected * (1 - expected) / 1000))

    def test_rare_mixtures_are_drawn_again(self):
        recipe = replace(Recipe(), bins=2, binned=(0.0, 2.0), groups=1_000, mixtures=4, images=500)
        entropy = np.repeat([0.5, 1.5], [3_992, 8])
        numbers = selection.chosen(Pool(np.arange(4_000), entropy), recipe, np.random.default_rng(0))
        assert (numbers >= 3_992).mean() == pytest.approx(8**0.2 / (8**0.2 + 3_992**0.2), abs=0.06)

    def test_parts_share_no_group_and_are_alike(self):
        recipe = replace(Recipe(), groups=50, mixtures=10, images=200)
        pool = Pool(np.arange(500), np.random.default_rng(0).uniform(0.05, 1.6, 500))
        parts = np.split(selection.chosen(pool, recipe, np.random.default_rng(1)), 2)
        groups = [set((part // 10).tolist()) for part in parts]
        assert not groups[0] & groups[1]
        assert min(map(len, groups)) > 15
        means = [pool.entropy[part].mean() for part in parts]
        assert means[0] == pytest.approx(means[1], abs=0.15)


class TestFigures:
    def test_distance_is_scipys(self):
        rng = np.random.default_rng(0)
        a, b = rng.integers(0, 256, 500).astype(np.uint8), rng.integers(100, 200, 300).astype(np.uint8)
        assert figures.distance(a, b) == pytest.approx(wasserstein_distance(a / 255, b / 255))

    def test_table_holds_both(self):
        own = figures.figures(np.full((2, 28, 28), 51, np.uint8), np.zeros((1, 784), np.uint8), np.array([0.1, 1.59]))
        assert (own.mean_pixel, own.distance) == (pytest.approx(0.2), pytest.approx(0.2))
        assert own.entropies == (1, *[0] * 14, 1)
        assert len(own.table().rows) == 18

    def test_a_contact_sheet_is_a_picture_of_the_images(self):
        rng = np.random.default_rng(0)
        images, entropy = rng.integers(0, 256, (300, 28, 28)).astype(np.uint8), rng.random(300)
        content = sheet.contact_sheet(images, entropy)
        width, height = np.frombuffer(content[16:24], ">u4")
        packed = content[content.index(b"IDAT") + 4 : content.index(b"IEND") - 8]
        picture = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width)[:, 1:]
        assert np.array_equal(picture[2:30, 2:30], 255 - images[entropy.argmin()])
        assert np.array_equal(picture[-28:, -28:], 255 - images[entropy.argmax()])
