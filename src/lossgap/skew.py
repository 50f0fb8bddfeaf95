"""Ways in which clients differ on purpose: which rows they hold, how their features are turned, how they mislabel.

    lg.datasets.digits(clients=10, skew=lg.Skew(classes_each=2))     # every client knows two digits
    lg.datasets.digits(clients=10, skew=lg.Skew(size_alpha=0.5))     # large and small clients
    lg.datasets.digits(clients=4, alpha=1000, skew=lg.Skew(rotation=90, label_noise=0.3))

`rotated` and `mislabelled` do the same to a federation of one's own rows.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lossgap import partition
from lossgap.errors import is_positive, require, require_data
from lossgap.federation import SPLITS, Client, Federation, Split, SplitName
from lossgap.partition import Owners


@dataclass(frozen=True, kw_only=True)
class Skew:
    """How clients differ from each other, beyond what Dirichlet(α) does to their labels.

    Args:
        classes_each: in place of α: every client holds rows of exactly this many classes.
        size_alpha: in place of α: clients hold the same mixture, and Dirichlet(size_alpha) says how much of it.
        rotation: degrees by which the last client's features are turned; the first one's stay, the others lie evenly
            between. Images turn around their centre, rows of two features around the origin.
        label_noise: the share of the last client's labels that are wrong, in all its splits; the first one's are
            right, the others lie evenly between.
    """

    classes_each: int | None = None
    size_alpha: float | None = None
    rotation: float = 0.0
    label_noise: float = 0.0

    def __post_init__(self) -> None:
        require(
            self.classes_each is None or self.size_alpha is None,
            "Skew: both classes_each and size_alpha are given.",
            "Give one of them.",
        )
        require(
            self.size_alpha is None or is_positive(self.size_alpha),
            f"Skew: size_alpha is {self.size_alpha}.",
            "Use a positive number: 0.1 is very uneven, 1000 nearly even.",
        )
        _check_noise([self.label_noise])

    def owners(self, labels: np.ndarray, clients: int, alpha: float, *, seed: int, min_rows: int = 1) -> Owners:
        """The row numbers of every client; α counts where neither `classes_each` nor `size_alpha` is given."""
        if self.classes_each is not None:
            return partition.shards(labels, clients, self.classes_each, seed=seed, min_rows=min_rows)
        if self.size_alpha is not None:
            return partition.quantity(len(labels), clients, self.size_alpha, seed=seed, min_rows=min_rows)
        return partition.dirichlet(labels, clients, alpha, seed=seed, min_rows=min_rows)

    def shifted(self, federation: Federation, *, seed: int) -> Federation:
        """The clients with turned features and wrong labels."""
        evenly = np.linspace(0, 1, len(federation.clients))
        if self.rotation:
            federation = rotated(federation, (self.rotation * evenly).tolist())
        if self.label_noise:
            federation = mislabelled(federation, (self.label_noise * evenly).tolist(), seed=seed)
        return federation


def rotated(federation: Federation, degrees: Sequence[float]) -> Federation:
    """Every client's features turned counterclockwise by an angle of its own, one per client.

    Images [height, width] or [height, width, channels] turn around their centre, with bilinear interpolation and
    zeros from outside; a quarter turn of a square image moves pixels and changes none. Rows of two features turn around
    the origin. Images that are kept as bytes stay bytes.
    """
    _check_one_each(federation, degrees, "degrees", "angle")
    planar, images = federation.features == (2,), len(federation.features) in (2, 3)
    require_data(
        planar or images,
        f"rotated: rows of shape {federation.features} cannot be turned.",
        "Rotation is for images [height, width] or [height, width, channels] and for rows of two features.",
    )
    turn = _turned_points if planar else _turned_images

    def turned(k: int, _: SplitName, split: Split) -> Split:
        return replace(split, kept=turn(np.asarray(split.kept), degrees[k] % 360)) if degrees[k] % 360 else split

    return _changed(federation, turned)


def mislabelled(
    federation: Federation, shares: Sequence[float], *, seed: int, splits: Sequence[SplitName] = SPLITS
) -> Federation:
    """A share of every client's labels, one share per client, replaced by other classes, each as likely as the others.

    Exactly this share of each split, rounded, is wrong. Another client's share or rows do not change the draw.

    Args:
        federation: of classes.
        shares: per client, from 0 to 1.
        seed: of which labels are wrong, and what they become.
        splits: where; without "test", say, accuracies are measured on right labels.
    """
    _check_one_each(federation, shares, "shares", "share")
    _check_noise(shares)
    classes = federation.classes
    require_data(classes is not None, "mislabelled: targets are numbers, not labels.", "Use a federation of classes.")
    assert classes is not None

    def noisy(k: int, name: SplitName, split: Split) -> Split:
        if name not in splits:
            return split
        rng = np.random.default_rng([seed, zlib.crc32(federation.names[k].encode()), SPLITS.index(name)])
        wrong = rng.permutation(len(split))[: round(shares[k] * len(split))]
        y = split.y.copy()
        y[wrong] = (y[wrong] + rng.integers(1, classes, len(wrong))) % classes
        return replace(split, y=y)

    return _changed(federation, noisy)


def _changed(federation: Federation, change: Callable[[int, SplitName, Split], Split]) -> Federation:
    clients = [
        Client(client.name, *(change(k, name, split) for name, split in client.splits))
        for k, client in enumerate(federation.clients)
    ]
    return replace(federation, clients=tuple(clients))


def _turned_points(x: np.ndarray, degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (x @ turn.T).astype(np.result_type(x.dtype, np.float32))


def _turned_images(x: np.ndarray, degrees: float) -> np.ndarray:
    if degrees % 90 == 0 and (degrees % 180 == 0 or x.shape[1] == x.shape[2]):
        return np.ascontiguousarray(np.rot90(x, int(degrees // 90), axes=(1, 2)))
    from scipy import ndimage  # imported late: most federations are not turned

    turned = ndimage.rotate(x.astype(np.float32), degrees, axes=(2, 1), reshape=False, order=1)
    return (turned if x.dtype.kind == "f" else np.rint(turned)).astype(x.dtype)


def _check_one_each(federation: Federation, values: Sequence[float], name: str, what: str) -> None:
    require(
        len(values) == len(federation.clients) and all(np.isfinite(values)),
        f"{name} is {values} for {len(federation.clients)} clients.",
        f"Give one {what} per client, in the order of federation.names.",
    )


def _check_noise(shares: Sequence[float]) -> None:
    bad = [share for share in shares if not 0 <= share <= 1]
    require(not bad, f"label noise is {bad and bad[0]}.", "Use shares from 0 (all labels right) to 1 (all wrong).")
