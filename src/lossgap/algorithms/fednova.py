"""FedNova (Wang et al., NeurIPS 2020): clients that take more steps do not count for more."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Replies, State, uniform_weights
from lossgap.algorithms.value import static, value
from lossgap.errors import require


@value
class FedNova(Algorithm):
    """Average what clients move per step, then take the steps of an average client.

        a_k = τ_k                                            plain steps, τ_k of them
        a_k = (τ_k − ρ (1 − ρ^τ_k)/(1 − ρ)) / (1 − ρ)        with momentum ρ
        τ_eff = Σ_k p_k a_k
        θ ← θ − τ_eff Σ_k p_k Δ_k / a_k

    The weights p_k τ_eff / a_k do not sum to one. With equal numbers of steps they are FedAvg's.

    Args:
        momentum: ρ of the clients' steps.
        weighting: p_k, as for FedAvg: "uniform" or "size".
    """

    momentum: float = 0.0
    weighting: Literal["uniform", "size"] = static(default="uniform")

    def __post_init__(self) -> None:
        require(0 <= self.momentum < 1, f"FedNova: momentum is {self.momentum}.", "Use a number from 0 to below 1.")
        require(
            self.weighting in ("uniform", "size"),
            f"FedNova: weighting is {self.weighting!r}.",
            'Use "uniform" or "size".',
        )

    @property
    def local_momentum(self) -> Array | float:
        return self.momentum

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        p = uniform_weights(replies) if self.weighting == "uniform" else replies.rows / replies.rows.sum()
        rho, tau = jnp.asarray(self.momentum, p.dtype), replies.steps.astype(p.dtype)
        a = (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        return p * (p * a).sum() / a, state
