"""The published recipe of Ambiguous-MNIST (Mukhoti et al. 2023), as numbers."""

from dataclasses import dataclass

MNIST_MEAN, MNIST_DEVIATION = 0.1307, 0.3081
"""Of the pixels of MNIST's training images, on a scale from 0 to 1."""

SIDE = 28
PIXELS = SIDE * SIDE
DIGITS = 10


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How Ambiguous-MNIST is made. The defaults are the published recipe; smaller ones serve to try the machinery.

    Args:
        seed: of everything that is drawn.
        hidden: widths of the encoder's hidden layers; the decoder has them in reverse.
        latent: numbers per image between encoder and decoder.
        epochs: of the autoencoder's training.
        drops: epochs after which its step size is multiplied by `drop`.
        drop: that factor.
        step_size: of Adam, for the autoencoder and for the networks.
        batch: images per step.
        networks: in the ensemble.
        network_epochs: of each network's training; the epoch with the best test loss is kept.
        groups: sets of two to four images that are mixed.
        mixtures: random mixtures of each group.
        most_disagreement: of the networks about a mixture, as mutual information in nats.
        entropies: of the ensemble's prediction for a mixture, from the first up to but not including the second.
        bins: of entropy, into which the mixtures are sorted before some are drawn.
        binned: the entropies from the first bin's lower edge to the last bin's upper edge.
        evenness: a bin with n mixtures counts n to this power: 1 leaves the mixtures as they come, 0 makes all
            entropies equally frequent.
        images: in the training part, and as many in the test part.
        labels: drawn for each image.
    """

    seed: int = 0
    hidden: tuple[int, int] = (512, 256)
    latent: int = 32
    epochs: int = 74
    drops: tuple[int, ...] = (25, 50, 65)
    drop: float = 0.2
    step_size: float = 1e-3
    batch: int = 128
    networks: int = 5
    network_epochs: int = 20
    groups: int = 1 << 16
    mixtures: int = 64
    most_disagreement: float = 0.05
    entropies: tuple[float, float] = (0.05, 3.0)
    bins: int = 50
    binned: tuple[float, float] = (0.05, 1.6)
    evenness: float = 0.2
    images: int = 6000
    labels: int = 10
