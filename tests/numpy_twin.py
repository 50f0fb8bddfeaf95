"""The methods once more, the way their papers print them: loops, NumPy, double precision.

Nothing here comes from lossgap, so a mistake would have to be made twice to go unnoticed. θ is one matrix
[features + 1, outputs] whose last row is the bias.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Theta = np.ndarray
Rows = tuple[np.ndarray, np.ndarray]
"""Features [rows, features] and targets [rows]."""


def softmax_loss(theta: Theta, x: np.ndarray, y: np.ndarray) -> float:
    """The mean of −log softmax(xθ)[y]."""
    scores = np.exp(with_bias(x) @ theta)
    return float(-np.log(scores[np.arange(len(y)), y] / scores.sum(axis=1)).mean())


def softmax_gradient(theta: Theta, x: np.ndarray, y: np.ndarray) -> Theta:
    scores = np.exp(with_bias(x) @ theta)
    error = scores / scores.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    return with_bias(x).T @ error / len(y)


def squared_loss(theta: Theta, x: np.ndarray, y: np.ndarray) -> float:
    """The mean of ½ (xθ − y)²."""
    return float((((with_bias(x) @ theta)[:, 0] - y) ** 2).mean() / 2)


def squared_gradient(theta: Theta, x: np.ndarray, y: np.ndarray) -> Theta:
    error = (with_bias(x) @ theta)[:, 0] - y
    return with_bias(x).T @ error[:, None] / len(y)


def with_bias(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))])


@dataclass(frozen=True)
class Task:
    """K clients, and what each does in a round."""

    clients: Sequence[Mapping[str, Rows]]  # "train" and "validation"
    solo: Sequence[float]  # L_k*
    step_size: float  # η
    steps: Callable[[int, int], Sequence[np.ndarray]]  # steps(k, t): client k's row numbers at each step of round t
    loss: Callable[[Theta, np.ndarray, np.ndarray], float] = softmax_loss
    gradient: Callable[[Theta, np.ndarray, np.ndarray], Theta] = softmax_gradient
    gap_split: str = "validation"

    @property
    def K(self) -> int:  # noqa: N802
        return len(self.clients)

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(client["train"][1]) for client in self.clients])

    def losses(self, theta: Theta, split: str = "train") -> np.ndarray:
        return np.array([self.loss(theta, *client[split]) for client in self.clients])

    def gradients(self, theta: Theta) -> list[Theta]:
        """∇L_k(θ) on all training rows of each client."""
        return [self.gradient(theta, *client["train"]) for client in self.clients]

    def gaps(self, theta: Theta) -> np.ndarray:
        return self.losses(theta, self.gap_split) - np.array(self.solo)

    def local_models(self, theta: Theta, t: int, multipliers: Sequence[float] | None = None) -> list[Theta]:
        """θ_k of each client after its steps of round t."""
        return [self._local(theta, k, t, 1.0 if multipliers is None else multipliers[k]) for k in range(self.K)]

    def _local(self, theta: Theta, k: int, t: int, multiplier: float) -> Theta:
        x, y = self.clients[k]["train"]
        for rows in self.steps(k, t):
            theta = theta - self.step_size * multiplier * self.gradient(theta, x[rows], y[rows])
        return theta


@dataclass
class Trace:
    """θ⁰, θ¹, …, and what each round saw at its start."""

    theta: list[Theta]
    gaps: list[np.ndarray] = field(default_factory=list)
    multipliers: list[np.ndarray] = field(default_factory=list)

    def look(self, task: Task, multipliers: np.ndarray | None = None) -> None:
        self.gaps.append(task.gaps(self.theta[-1]))
        self.multipliers.append(np.ones(task.K) if multipliers is None else multipliers)


def fedavg(task: Task, theta: Theta, rounds: int, *, weighting: str = "uniform") -> Trace:
    """θ ← Σ p_k θ_k with p_k = 1/K or n_k/n."""
    p = task.sizes / task.sizes.sum() if weighting == "size" else np.full(task.K, 1 / task.K)
    trace = Trace([theta])
    for t in range(rounds):
        trace.look(task)
        theta = sum(p[k] * model for k, model in enumerate(task.local_models(theta, t)))
        trace.theta.append(theta)
    trace.look(task)
    return trace


def eagle(
    task: Task,
    theta: Theta,
    rounds: int,
    *,
    gap_penalty: float,
    normalize: str | None = "unit",
    lag: int = 1,
    multiplier_range: tuple[float, float] | None = None,
) -> Trace:
    """Algorithm 1: round t trains with the multipliers of θ^{t−lag}, and w⁰ = 1."""
    trace, w = Trace([theta]), np.ones(task.K)
    for t in range(rounds + 1):
        if lag == 0:
            w = eagle_multipliers(task.gaps(theta), gap_penalty)
        used = normalised(w, normalize)
        if multiplier_range is not None:
            used = np.minimum(np.maximum(used, multiplier_range[0]), multiplier_range[1])
        trace.look(task, used)
        if t < rounds:
            w = eagle_multipliers(task.gaps(theta), gap_penalty)
            theta = sum(task.local_models(theta, t, used)) / task.K
            trace.theta.append(theta)
    return trace


def eagle_multipliers(gaps: Sequence[float], gap_penalty: float) -> np.ndarray:
    """w_k = 1 + 4λ/(K−1) Σ_k' (r_k − r_k'), sum by sum."""
    K = len(gaps)
    return np.array([1 + 4 * gap_penalty / (K - 1) * sum(mine - other for other in gaps) for mine in gaps])


def normalised(w: np.ndarray, rule: str | None) -> np.ndarray:
    norm = {"unit": 1.0, "sqrt-k": np.sqrt(len(w)), None: np.linalg.norm(w)}[rule]
    return norm * w / np.linalg.norm(w)


def eagle_objective(task: Task, theta: Theta, gap_penalty: float) -> float:
    """F(θ) = mean_k L_k + 2λ Var(r), the variance as the mean of (r_k − r_k')² / 2 over all pairs of two clients."""
    gaps, K = task.gaps(theta), task.K
    variance = sum((a - b) ** 2 for a in gaps for b in gaps) / (2 * K * (K - 1))
    return float(task.losses(theta).mean() + 2 * gap_penalty * variance)


def qffl(task: Task, theta: Theta, rounds: int, *, q: float) -> Trace:
    """θ ← θ − Σ Δ̃_k / Σ h_k."""
    trace, eta = Trace([theta]), task.step_size
    for t in range(rounds):
        trace.look(task)
        F, models = task.losses(theta) + 1e-10, task.local_models(theta, t)
        delta, h = np.zeros_like(theta), 0.0
        for k in range(task.K):
            scaled = (theta - models[k]) / eta
            delta = delta + F[k] ** q * scaled
            h += q * F[k] ** (q - 1) * np.sum(scaled**2) + F[k] ** q / eta
        theta = theta - delta / h
        trace.theta.append(theta)
    trace.look(task)
    return trace


def afl(task: Task, theta: Theta, rounds: int, *, mixture_step: float) -> Trace:
    """θ ← Σ μ_k θ_k, then μ ← Proj(μ + γF) with F at the θ the round began with."""
    trace, mixture = Trace([theta]), np.full(task.K, 1 / task.K)
    for t in range(rounds):
        trace.look(task)
        F, models = task.losses(theta), task.local_models(theta, t)
        theta = sum(mixture[k] * models[k] for k in range(task.K))
        mixture = closest_on_simplex(mixture + mixture_step * F)
        trace.theta.append(theta)
    trace.look(task)
    return trace


def closest_on_simplex(y: np.ndarray) -> np.ndarray:
    """max(y − τ, 0) with the τ at which it sums to one, found by halving: no sorting, no counting."""
    low, high = y.max() - 1, y.max()  # sums to at least one, sums to nothing
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if np.maximum(y - middle, 0).sum() >= 1 else (low, middle)
    return np.maximum(y - low, 0)
