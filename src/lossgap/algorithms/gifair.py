"""GIFAIR-FL (Yue, Nouiehed and Al Kontar, INFORMS Journal on Data Science 2023)."""

from collections.abc import Hashable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from lossgap.algorithms.base import Algorithm, Measurement, Params, Replies, State, uniform_weights
from lossgap.algorithms.value import static, value
from lossgap.errors import require


@value
class Gifair(Algorithm):
    """Count the groups whose loss is smaller, minus those whose loss is larger, and weigh clients by it.

        ρ_k = Σ_j sign(L_A(k) − L_Aj)                    over the d groups A; alone, each client is a group
        multiplier of client k = 1 + λ ρ_k / (p_k |A_k|),    p_k = 1/K

    A group's loss is the mean of its clients' training losses at θ of the previous round. All multipliers are positive
    as long as λ < min_k p_k |A_k| / (d − 1).

    Args:
        strength: λ as a fraction of that bound.
        groups: the group of each client, in client order; None makes each client a group.
    """

    strength: float = 0.5
    groups: tuple[Hashable, ...] | None = static(default=None)

    needs: ClassVar[frozenset[Measurement]] = frozenset({"loss_at_global"})

    def __post_init__(self) -> None:
        require(
            0 <= self.strength < 1,
            f"Gifair: strength is {self.strength}. From 1 on some multipliers would not be positive.",
            "Use a number from 0 (FedAvg) to below 1.",
        )
        require(
            self.groups is None or len(set(self.groups)) > 1,
            f"Gifair: groups {self.groups} are one group only.",
            "Name at least two, or leave groups out to compare clients.",
        )

    @property
    def needs_everyone(self) -> bool:
        return True

    def init(self, params: Params, clients: int) -> State:
        require(
            self.groups is None or len(self.groups) == clients,
            f"Gifair: {len(self.groups or ())} groups are given for {clients} clients.",
            "Give the group of each client, in client order.",
        )
        return jnp.ones(clients)

    def multipliers(self, state: State) -> Array:
        return state

    def weights(self, state: State, replies: Replies) -> tuple[Array, State]:
        return uniform_weights(replies), self._multipliers(replies.loss_at_global)

    def _multipliers(self, losses: Array) -> Array:
        K, member = len(losses), self._membership(len(losses))
        size = member.sum(axis=1)
        group_losses = member @ losses / size
        rank = jnp.sign(group_losses[:, None] - group_losses[None, :]).sum(axis=1)
        scale = size / K  # p_k |A_k|
        bound = scale.min() / (len(member) - 1)
        return member.T @ (1 + self.strength * bound * rank / scale)

    def _membership(self, clients: int) -> np.ndarray:
        """[group, client]: 1 where a client belongs to a group."""
        groups = self.groups or tuple(range(clients))
        kinds = list(dict.fromkeys(groups))
        return np.array([[group == kind for group in groups] for kind in kinds], dtype=float)
