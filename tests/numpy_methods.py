"""More methods the way their papers print them, beside those of `numpy_twin`: loops, NumPy, double precision.

Nothing here comes from lossgap. Where it uses a closed form or an iteration, a sum or a search of all cases is here.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from numpy_twin import Rows, Task, Theta, Trace

Weigh = Callable[[np.ndarray, np.ndarray, list[Theta]], np.ndarray]
"""Weights of the updates, from losses and gaps at θ and the updates themselves."""


def weighted(task: Task, theta: Theta, rounds: int, weigh: Weigh) -> Trace:
    """θ ← θ − Σ weight_k Δ_k."""
    trace = Trace([theta])
    for t in range(rounds):
        trace.look(task)
        updates = [theta - model for model in task.local_models(theta, t)]
        weights = weigh(task.losses(theta), task.gaps(theta), updates)
        theta = theta - sum(w * update for w, update in zip(weights, updates, strict=True))
        trace.theta.append(theta)
    trace.look(task)
    return trace


# --- weights ---


def term(task: Task, theta: Theta, rounds: int, *, tilt: float) -> Trace:
    """Weights ∝ exp(tF)."""
    return weighted(task, theta, rounds, lambda F, gaps, updates: np.exp(tilt * F) / np.exp(tilt * F).sum())


def maxfl(task: Task, theta: Theta, rounds: int, *, server_step_size: float) -> Trace:
    """q = s(1 − s) with s = 1/(1 + exp(−gap)); weights η_g q/(Σq + ε)."""

    def weigh(F, gaps, updates):
        s = 1 / (1 + np.exp(-gaps))
        return server_step_size * s * (1 - s) / ((s * (1 - s)).sum() + 1e-8)

    return weighted(task, theta, rounds, weigh)


def udj(task: Task, theta: Theta, rounds: int, *, power: float, desert: Sequence[float] | None) -> Trace:
    """Δ̃_k = γ p F^(p−1) Δ/η;  h_k = γ p (F^(p−1)/η + (p−1) F^(p−2) ‖Δ/η‖²)."""
    p, eta = power, task.step_size
    gamma = np.ones(task.K) if desert is None else np.array(desert)

    def weigh(F, gaps, updates):
        F = F + 1e-10
        squares = np.array([np.sum((update / eta) ** 2) for update in updates])
        h = gamma * p * (F ** (p - 1) / eta + (p - 1) * F ** (p - 2) * squares)
        return gamma * p * F ** (p - 1) / eta / h.sum()

    return weighted(task, theta, rounds, weigh)


def fedmgda(task: Task, theta: Theta, rounds: int, *, radius: float) -> Trace:
    """θ ← θ − mean‖Δ‖ Σ λ_k Δ_k/‖Δ_k‖ with the shortest such mixture near uniform."""

    def weigh(F, gaps, updates):
        norms = np.array([np.linalg.norm(update) for update in updates])
        units = np.array([update.ravel() / norm for update, norm in zip(updates, norms, strict=True)])
        return norms.mean() * shortest(units @ units.T, radius) / norms

    return weighted(task, theta, rounds, weigh)


def shortest(products: np.ndarray, radius: float) -> np.ndarray:
    """argmin λᵀGλ with Σλ = 1 and bounds, by trying each way in which every λ_k may be at a bound or free."""
    K = len(products)
    low, high = max(0.0, 1 / K - radius), min(1.0, 1 / K + radius)
    best, least = np.full(K, 1 / K), np.inf
    for case in product((low, high, None), repeat=K):
        free = [k for k in range(K) if case[k] is None]
        held = np.array([0.0 if each is None else each for each in case])
        mixture = held.copy()
        if free:  # Gλ + ν = 0 on the free ones, and all sum to one
            n = len(free)
            system = np.zeros((n + 1, n + 1))
            system[:n, :n], system[:n, n], system[n, :n] = products[np.ix_(free, free)], 1, 1
            right = np.append(-(products @ held)[free], 1 - held.sum())
            mixture[free] = np.linalg.lstsq(system, right, rcond=None)[0][:n]
        inside = abs(mixture.sum() - 1) < 1e-9 and (mixture > low - 1e-12).all() and (mixture < high + 1e-12).all()
        if inside and mixture @ products @ mixture < least - 1e-15:
            best, least = mixture, mixture @ products @ mixture
    return best


def fedfv(task: Task, theta: Theta, rounds: int, *, alpha: float) -> Trace:
    """Every update but those of the worst-off clients is projected off the updates it conflicts with, in turn."""
    trace = Trace([theta])
    for t in range(rounds):
        trace.look(task)
        updates = [(theta - model).ravel() for model in task.local_models(theta, t)]
        order = sorted(range(task.K), key=lambda k: task.losses(theta)[k])
        spared = order[task.K - int(np.ceil(alpha * task.K)) :]
        projected = []
        for k in range(task.K):
            g = updates[k].copy()
            for j in order:
                if k not in spared and j != k and g @ updates[j] < 0:
                    g -= (g @ updates[j]) / (updates[j] @ updates[j]) * updates[j]
            projected.append(g)
        mean, plain = np.mean(projected, axis=0), np.mean(updates, axis=0)
        theta = theta - (np.linalg.norm(plain) / np.linalg.norm(mean) * mean).reshape(theta.shape)
        trace.theta.append(theta)
    trace.look(task)
    return trace


def feddgga(task: Task, theta: Theta, rounds: int, *, step: float) -> Trace:
    """a_k ← a_k + d (G_k − Ḡ)/max|G − Ḡ| with G_k = F_k(θ) − F_k(what k had trained before θ was made)."""
    trace, a, before = Trace([theta]), np.full(task.K, 1 / task.K), None
    for t in range(rounds):
        trace.look(task)
        if before is not None:
            G = task.losses(theta) - before
            a = a + step * (G - G.mean()) / abs(G - G.mean()).max()
            a = np.where(a < 0, 0, a)
            a = a / a.sum()
        models = task.local_models(theta, t)
        before = np.array([task.loss(model, *task.clients[k]["train"]) for k, model in enumerate(models)])
        theta = sum(a[k] * models[k] for k in range(task.K))
        trace.theta.append(theta)
    trace.look(task)
    return trace


# --- multipliers ---


def gifair(task: Task, theta: Theta, rounds: int, *, strength: float, groups: Sequence[object] | None) -> Trace:
    """Multipliers 1 + λ ρ_k/(p_k |A_k|) from the losses of the round before, λ a fraction of its bound."""
    groups = list(range(task.K)) if groups is None else list(groups)
    trace, multipliers = Trace([theta]), np.ones(task.K)
    for t in range(rounds):
        trace.look(task, multipliers)
        F = task.losses(theta)
        theta = sum(task.local_models(theta, t, multipliers)) / task.K
        multipliers = gifair_multipliers(F, strength, groups)
        trace.theta.append(theta)
    trace.look(task, multipliers)
    return trace


def gifair_multipliers(F: np.ndarray, strength: float, groups: Sequence[object]) -> np.ndarray:
    K, kinds = len(F), sorted(set(groups), key=str)
    mean = {kind: np.mean([F[k] for k in range(K) if groups[k] == kind]) for kind in kinds}
    size = {kind: list(groups).count(kind) for kind in kinds}
    penalty = strength * min(size[kind] / K for kind in kinds) / (len(kinds) - 1)
    rank = {a: sum(int(mean[a] > mean[b]) - int(mean[a] < mean[b]) for b in kinds) for a in kinds}
    return np.array([1 + penalty * rank[kind] / (size[kind] / K) for kind in groups])


# --- local work ---


def walked(task: Task, start: Theta, k: int, t: int, direction: Callable[[Theta, Rows], Theta]) -> Theta:
    """Client k's steps of round t against a direction of its own choice."""
    x, y = task.clients[k]["train"]
    for rows in task.steps(k, t):
        start = start - task.step_size * direction(start, (x[rows], y[rows]))
    return start


def averaged(task: Task, theta: Theta, rounds: int, local: Callable[[Theta, int, int], Theta]) -> Trace:
    """θ ← mean_k of what each client makes of θ."""
    trace = Trace([theta])
    for t in range(rounds):
        trace.look(task)
        theta = sum(local(theta, k, t) for k in range(task.K)) / task.K
        trace.theta.append(theta)
    trace.look(task)
    return trace


def fedprox(task: Task, theta: Theta, rounds: int, *, pull: float) -> Trace:
    """Steps along ∇F(θ_k) + ω (θ_k − θ)."""

    def local(theta, k, t):
        return walked(task, theta, k, t, lambda own, rows: task.gradient(own, *rows) + pull * (own - theta))

    return averaged(task, theta, rounds, local)


def propfair(task: Task, theta: Theta, rounds: int, *, ceiling: float) -> Trace:
    """Steps along ∇F · M/(M − F), and no steeper than within 0.2 of M."""

    def direction(own, rows):
        return task.gradient(own, *rows) * ceiling / max(ceiling - task.loss(own, *rows), 0.2)

    return averaged(task, theta, rounds, lambda theta, k, t: walked(task, theta, k, t, direction))


def fednova(task: Task, theta: Theta, rounds: int, *, momentum: float, weighting: str) -> Trace:
    """θ ← θ − τ_eff Σ p_k Δ_k/a_k, a_k the sum of the coefficients that Δ_k/η gives to its gradients."""
    p = task.sizes / task.sizes.sum() if weighting == "size" else np.full(task.K, 1 / task.K)
    trace = Trace([theta])
    for t in range(rounds):
        trace.look(task)
        updates, a = [], []
        for k in range(task.K):
            x, y = task.clients[k]["train"]
            own, velocity, steps = theta, np.zeros_like(theta), task.steps(k, t)
            for rows in steps:
                velocity = momentum * velocity + task.gradient(own, x[rows], y[rows])
                own = own - task.step_size * velocity
            updates.append(theta - own)
            a.append(sum(momentum**j for i in range(len(steps)) for j in range(len(steps) - i)))
        effective = sum(p[k] * a[k] for k in range(task.K))
        theta = theta - effective * sum(p[k] * updates[k] / a[k] for k in range(task.K))
        trace.theta.append(theta)
    trace.look(task)
    return trace


# --- several models ---


def ditto(task: Task, theta: Theta, rounds: int, *, pull: float) -> tuple[Trace, list[Theta]]:
    """FedAvg, and v_k ← v_k − η(∇F_k(v_k) + ω(v_k − θ)) with the θ that the round began with."""
    trace, own = Trace([theta]), [theta] * task.K
    for t in range(rounds):
        trace.look(task)

        def direction(v, rows, theta=theta):
            return task.gradient(v, *rows) + pull * (v - theta)

        own = [walked(task, own[k], k, t, direction) for k in range(task.K)]
        theta = sum(task.local_models(theta, t)) / task.K
        trace.theta.append(theta)
    trace.look(task)
    return trace, own


def focus(task: Task, models: Sequence[Theta], rounds: int) -> tuple[list[Theta], np.ndarray]:
    """π_km ∝ π_km exp(−L_k(θ_m)), then θ_m ← Σ_k π_km θ_km / Σ_k π_km."""
    models = list(models)
    mixture = np.full((task.K, len(models)), 1 / len(models))
    for t in range(rounds):
        for k in range(task.K):
            fit = [mixture[k, m] * np.exp(-task.losses(model)[k]) for m, model in enumerate(models)]
            mixture[k] = np.array(fit) / sum(fit)
        local = [task.local_models(model, t) for model in models]
        models = [
            sum(mixture[k, m] * local[m][k] for k in range(task.K)) / mixture[:, m].sum() for m in range(len(models))
        ]
    return models, mixture
