"""Results that nobody trained: any number of clients in no time, with gaps that a test can choose."""

from collections.abc import Sequence

import numpy as np

import lossgap as lg
from lossgap.engine.run import History
from lossgap.metrics import ClientRow


def client(name: str, solo_loss: float, gap: float, *, rows: int = 50, accuracy: float = 0.8) -> ClientRow:
    loss = solo_loss + gap
    return ClientRow(
        name=name,
        rows=rows,
        train_loss=loss,
        validation_loss=loss,
        test_loss=loss,
        train_accuracy=accuracy,
        validation_accuracy=accuracy,
        test_accuracy=accuracy,
        solo_loss=solo_loss,
        gap=gap,
    )


def result(
    algorithm: lg.Algorithm,
    gaps: Sequence[float],
    *,
    solo: Sequence[float] | None = None,
    seed: int = 0,
    rounds: int = 200,
    accuracy: float = 0.8,
    names: Sequence[str] = (),
    classes: int = 10,
    **training: object,
) -> lg.Result:
    """A run that ends with these gaps."""
    end, count = np.array(gaps, float), len(gaps)
    solo = np.linspace(0.3, 0.9, count) if solo is None else np.array(solo, float)
    names = names or [f"hospital {k}" for k in range(count)]
    t = np.arange(rounds + 1)[:, None]
    gap = end + (2.3 - solo - end) * np.exp(-t / 30)
    penalty = getattr(algorithm, "gap_penalty", None) or 0
    multiplier = 1 + 4 * penalty * count / (count - 1) * (gap - gap.mean(axis=1, keepdims=True))
    return lg.Result(
        algorithm=algorithm,
        model=lg.models.linear(),
        training=lg.Training(rounds=rounds, **training),
        seed=seed,
        params={"kernel": np.zeros((4, classes), np.float32), "bias": np.zeros(classes, np.float32)},
        history=History(t[:, 0], solo + gap, solo + gap, gap, multiplier),
        clients=tuple(
            client(n, float(s), float(g), accuracy=accuracy) for n, s, g in zip(names, solo, end, strict=True)
        ),
        features=(4,),
        outputs=classes,
    )


def results(clients: int, seeds: Sequence[int] = (0,), penalties: Sequence[float] = (1.0,)) -> list[lg.Result]:
    """Four methods and more: the larger λ, the more even, and from λ = 2 on the worse for everybody."""
    made = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        ease = rng.normal(size=clients)
        settings = [(lg.FedAvg(), -0.05, 0.15), (lg.QFFL(q=1.0), 0.0, 0.2), (lg.AFL(), 0.05, 0.3)]
        settings += [(lg.Eagle(gap_penalty=p), 0.05 * max(0, p - 2) - 0.05, 0.1 / (1 + p)) for p in penalties]
        for algorithm, mean, spread in settings:
            gaps = mean + spread * (ease + 0.2 * rng.normal(size=clients))
            made.append(result(algorithm, gaps, seed=seed, accuracy=0.8 - abs(mean)))
    return made
