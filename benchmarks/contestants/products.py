"""Rates of the bare matrix products that a round is made of: what the machine can do at all. Needs NumPy alone."""

import json
from collections.abc import Callable
from time import perf_counter

import numpy as np

Multiply = Callable[[np.ndarray, np.ndarray, bool], Callable[[], object]]
"""`multiply(a, b, transposed)` loads both and gives a function that computes a b (or aᵀ b) and waits for it."""

# a's shape, b's columns, whether a is transposed: a large square, the linear workload's logits and its gradient
PRODUCTS = {
    "4096³": ((4096, 4096), 4096, False),
    "8000×784×62": ((8000, 784), 62, False),
    "784×8000×62": ((8000, 784), 62, True),
}


def main(multiply: Multiply) -> None:
    """Print GFLOP/s of each product as one JSON line."""
    rng = np.random.default_rng(0)
    print(json.dumps({name: rate(multiply, rng, *shape) for name, shape in PRODUCTS.items()}))


def rate(multiply: Multiply, rng: np.random.Generator, shape: tuple[int, int], columns: int, transposed: bool) -> float:
    a = rng.normal(size=shape).astype(np.float32)
    b = rng.normal(size=(shape[0 if transposed else 1], columns)).astype(np.float32)
    run = multiply(a, b, transposed)
    run()  # may compile
    return 2e-9 * a.size * columns / min(seconds(run) for _ in range(5))


def seconds(run: Callable[[], object]) -> float:
    """Per call, over about half a second of calls."""
    start = perf_counter()
    calls = 0
    while perf_counter() - start < 0.5:
        run()
        calls += 1
    return (perf_counter() - start) / calls
