"""AFL: agnostic federated learning (Mohri, Sivek and Suresh, ICML 2019)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Params, Replies, State
from lossgap.algorithms.value import static, value
from lossgap.errors import require


def project_to_simplex(y: Array) -> Array:
    """The point of {μ ≥ 0, Σ μ = 1} closest to y.

    u = y sorted downwards,  ρ = max{j : u_j + (1 − Σ_{i≤j} u_i)/j > 0},  τ = (1 − Σ_{i≤ρ} u_i)/ρ
    μ = max(y + τ, 0)
    """
    y = y - y.max()  # what all entries share changes nothing but the rounding: losses may be in the millions
    u = jnp.sort(y, descending=True)
    j = jnp.arange(1, len(y) + 1)
    shift = (1 - jnp.cumsum(u)) / j
    rho = jnp.sum(u + shift > 0)  # the condition holds for the first ρ and no others
    return jnp.maximum(y + shift[rho - 1], 0)


@value
class AFL(Algorithm):
    """Minimise the worst mixture of the clients' training losses:  min_θ max_μ Σ_k μ_k F_k(θ)  over the simplex.

        θ ← Σ_k μ_k θ_k
        μ ← Proj(μ + γ F)           F at θ before local work

    Args:
        mixture_step: γ. It decides how fast the mixture moves: tune it on validation rows.
        average: evaluate the mean of all iterates instead of the last one.
    """

    mixture_step: float = 0.1
    average: bool = static(default=False)

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global"})

    def __post_init__(self) -> None:
        require(self.mixture_step >= 0, f"AFL: mixture_step is {self.mixture_step}.", "Use a number ≥ 0 such as 0.1.")

    @property
    def needs_everyone(self) -> bool:
        return True

    def init(self, params: Params, clients: int) -> State:
        mixture = jnp.full(clients, 1 / clients)
        return (mixture, jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)) if self.average else (mixture,)

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        mixture, *averaged = state
        return mixture, (project_to_simplex(mixture + self.mixture_step * replies.loss_at_global), *averaged)

    def server_step(self, params: Params, state: State, replies: Replies) -> tuple[Params, State]:
        params, state = super().server_step(params, state, replies)
        return params, _with_iterate(state, params) if self.average else state

    def evaluated(self, params: Params, state: State) -> Params:
        return state[2] if self.average else params


def _with_iterate(state: State, params: Params) -> State:
    mixture, count, mean = state
    count = count + 1
    return mixture, count, jax.tree.map(lambda m, p: m + (p - m) / count, mean, params)
