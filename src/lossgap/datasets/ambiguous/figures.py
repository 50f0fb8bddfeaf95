"""How near a built Ambiguous-MNIST comes to the published one, and to MNIST."""

from dataclasses import dataclass

import numpy as np

from lossgap.datasets.ambiguous.pixels import WHITE
from lossgap.table import Table

ENTROPY_RANGE = 0.05, 1.6
MEAN_PIXEL = 0.13
DISTANCE = 0.0025
ENTROPIES = (1025, 877, 709, 596, 490, 405, 396, 317, 264, 214, 180, 160, 131, 104, 89, 67)
"""Of the published test images, in equal bins."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What to compare.

    Args:
        mean_pixel: from 0 to 1.
        distance: Wasserstein distance of the images' pixel values to those of MNIST.
        entropies: how many test images have which predictive entropy, in 16 equal bins from 0.05 to 1.6.
    """

    mean_pixel: float
    distance: float
    entropies: tuple[int, ...]

    def table(self) -> Table:
        """Beside the published figures."""
        edges = np.linspace(*ENTROPY_RANGE, len(ENTROPIES) + 1)
        rows = [
            ("mean pixel", f"{self.mean_pixel:.4f}", f"{MEAN_PIXEL}"),
            ("distance of pixels to MNIST's", f"{self.distance:.4f}", f"{DISTANCE}"),
            *(
                (f"test images, entropy {low:.2f} to {high:.2f}", f"{own}", f"{published}")
                for low, high, own, published in zip(edges[:-1], edges[1:], self.entropies, ENTROPIES, strict=True)
            ),
        ]
        return Table(("", "built", "published"), tuple(rows))


def figures(images: np.ndarray, mnist: np.ndarray, test_entropy: np.ndarray) -> Figures:
    """Of images and MNIST's images, both as bytes, and the test images' entropies."""
    counts, _ = np.histogram(test_entropy, len(ENTROPIES), ENTROPY_RANGE)
    return Figures(
        mean_pixel=float(images.mean() / WHITE),
        distance=distance(images, mnist),
        entropies=tuple(counts.tolist()),
    )


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """∫ |F_a − F_b| of the distributions of two sets of bytes, on a scale from 0 to 1."""
    shares = [np.cumsum(np.bincount(each.ravel(), minlength=WHITE + 1)) / each.size for each in (a, b)]
    return float(np.abs(shares[0] - shares[1]).sum() / WHITE)
