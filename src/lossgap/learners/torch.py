"""PyTorch modules as learners."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from lossgap.algorithms.base import LocalRule, Params
from lossgap.engine.local import is_plain, steered
from lossgap.errors import SettingError, require
from lossgap.federation import SplitName
from lossgap.training import Training

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise SettingError("TorchLearner needs PyTorch. Install it with: pip install 'lossgap[torch]'") from None

Batches = Iterable[tuple[Any, Any]]
"""Features and targets of each batch, as a `DataLoader` gives them. `[(x, y)]` is one full batch."""


class Linear(nn.Module):
    """x · kernel + bias, with the parameters of `lossgap.models.linear()`: both kinds of sites can train one model."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(features, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.kernel + self.bias


@dataclass(frozen=True, kw_only=True)
class TorchLearner:
    """One site with a PyTorch module and its own rows.

    A round takes plain gradient steps  θ_k ← θ_k − η w_k ∇L_k(θ_k),  η and their number as `training` says. The
    multiplier w_k scales the gradient, not the rate: it may be negative. What the module's layers are called and
    shaped must be the same at every site.

    Args:
        name: of the site.
        module: what is trained; it stays on its device and in its precision.
        train, validation, test: batches, such as a `DataLoader` each. They decide the batch size, and
            `training.batch_size` stays None.
        training: the step size, and `local_steps` or `local_epochs` per round.
        criterion: `criterion(outputs, targets)` gives the mean loss of a batch.
        seed: of whatever the loader and the module draw (order of rows, dropout), which follows from it, the site's
            name and the round.
    """

    name: str
    module: nn.Module
    train: Batches
    validation: Batches
    test: Batches
    training: Training
    criterion: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy
    seed: int = 0

    def __post_init__(self) -> None:
        require(
            self.training.batch_size is None,
            f"TorchLearner {self.name!r}: training.batch_size is {self.training.batch_size}.",
            "Give the batch size to the loaders and leave it out of Training.",
        )
        kept = [name for name, buffer in self.module.named_buffers() if buffer.is_floating_point()]
        require(
            not kept,
            f"TorchLearner {self.name!r}: {kept and kept[0]} is a running statistic, which no gradient trains and no "
            "multiplier scales.",
            "Use layers without one, such as GroupNorm or LayerNorm in place of BatchNorm.",
        )

    @property
    def params(self) -> Params:
        """The module's own parameters: a place to start from."""
        return {name: _array(p) for name, p in self._trained}

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(y) for _, y in self.train]

    @property
    def rows(self) -> int:
        return sum(self._sizes)

    @property
    def steps(self) -> int:
        training = self.training
        return training.local_steps if training.local_epochs is None else training.local_epochs * len(self._sizes)

    def fit(self, params: Params, multiplier: Any, *, round: int, rule: LocalRule) -> Params:
        momentum = None if rule.local_momentum is None else float(rule.local_momentum)
        with self._holding(params), _seeded(self.seed, self.name, round):
            velocity: Any = None
            for x, y in islice(self._endless(), self.steps):
                gradient = [float(multiplier) * g for g in self._gradient(x, y, rule, params)]
                if momentum is not None:
                    gradient = velocity = [
                        momentum * v + g for v, g in zip(velocity or [0] * len(gradient), gradient, strict=True)
                    ]
                with torch.no_grad():
                    for (_, p), g in zip(self._trained, gradient, strict=True):
                        p.sub_(self.training.step_size * g)
            return {name: np.asarray(params[name]) - _array(p) for name, p in self._trained}

    def loss(self, params: Params, split: SplitName) -> float:
        return self._mean(params, split, lambda outputs, y: float(self.criterion(outputs, y)))

    def accuracy(self, params: Params, split: SplitName) -> float:
        def right(outputs: Tensor, y: Tensor) -> float:
            return float("nan") if y.is_floating_point() else float((outputs.argmax(-1) == y).double().mean())

        return self._mean(params, split, right)

    @property
    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]

    def _endless(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from (self._placed(x, y) for x, y in self.train)

    def _gradient(self, x: Tensor, y: Tensor, rule: LocalRule, start: Params) -> list[Tensor]:
        loss = self.criterion(self.module(x), y)
        gradient = list(torch.autograd.grad(loss, [p for _, p in self._trained]))
        if is_plain(rule):
            return gradient
        names = [name for name, _ in self._trained]
        own = dict(zip(names, map(_array, gradient), strict=True))
        turned = steered(rule, float(loss.detach()), own, self.params, {name: start[name] for name in names})
        return [torch.as_tensor(np.array(turned[name])).to(g) for name, g in zip(names, gradient, strict=True)]

    def _mean(self, params: Params, split: SplitName, of_batch: Callable[[Tensor, Tensor], float]) -> float:
        """The mean over rows of what `of_batch(outputs, targets)` says of each batch."""
        with self._holding(params), torch.no_grad(), _seeded(self.seed, self.name, 0):
            self.module.eval()
            batches = (self._placed(x, y) for x, y in getattr(self, split))
            means, sizes = zip(*((of_batch(self.module(x), y), len(y)) for x, y in batches), strict=True)
        return float(np.average(means, weights=sizes))

    @contextmanager
    def _holding(self, params: Params) -> Iterator[None]:
        """The module with these parameters, ready to train; afterwards it holds its own again."""
        own, mode = [p.detach().clone() for _, p in self._trained], self.module.training
        self.module.train()
        try:
            with torch.no_grad():
                for name, p in self._trained:
                    p.copy_(torch.as_tensor(np.array(params[name])))
            yield
        finally:
            with torch.no_grad():
                for (_, p), before in zip(self._trained, own, strict=True):
                    p.copy_(before)
            self.module.train(mode)

    def _placed(self, x: Any, y: Any) -> tuple[Tensor, Tensor]:
        """A batch where the module is, features in its precision, classes as PyTorch wants them."""
        place = self._trained[0][1]
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        return (
            x.to(place) if x.is_floating_point() else x.to(place.device),
            y.to(place) if y.is_floating_point() else y.to(place.device, torch.long),
        )


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()


@contextmanager
def _seeded(seed: int, name: str, round: int) -> Iterator[None]:
    """PyTorch's random numbers follow from these, and go on afterwards as if nothing had been drawn."""
    entropy = np.random.SeedSequence([seed, zlib.crc32(name.encode()), round]).generate_state(1, np.uint64)
    with torch.random.fork_rng():
        torch.manual_seed(int(entropy[0] >> np.uint64(1)))
        yield
