"""Each method is the formula of its paper: by hand, against plain NumPy, and by the properties that follow from it."""

import functools
from dataclasses import FrozenInstanceError, fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lossgap as lg
import numpy_twin as twin
from lossgap.algorithms.base import Measured, Replies
from lossgap.algorithms.eagle import gap_multipliers
from lossgap.engine.compiled import CompiledStepper
from lossgap.engine.updates import StackedUpdates
from lossgap.models import BATCHES
from lossgap.training import client_keys

pytestmark = pytest.mark.filterwarnings("ignore:Training rows of:lossgap.DataWarning")

ROUNDS = 50
SEED = 3
SOLO = (0.9, 0.4, 0.6)
SIZES = {"lyon": (9, 4, 2), "lille": (1, 3, 2), "brest": (8, 2, 3)}  # a one-row client; 9 and 8 share a padded block

ONE_STEP = lg.Training(rounds=ROUNDS, step_size=0.3, precision="float64")
THREE_STEPS = replace(ONE_STEP, local_steps=3)
MINIBATCHES = replace(ONE_STEP, local_epochs=2, batch_size=4)
WORKS = {"one step": ONE_STEP, "three steps": THREE_STEPS, "minibatches": MINIBATCHES}

METHODS = (lg.FedAvg(), lg.Eagle(gap_penalty=0.5), lg.QFFL(q=2.0), lg.AFL(mixture_step=0.1))
VARIANTS = (
    lg.FedAvg(weighting="size"),
    lg.Eagle(gap_penalty=0.5, normalize="sqrt-k"),
    lg.Eagle(gap_penalty=0.2, lag=0, normalize=None),
)
ONE_STEP_VARIANTS = (  # what they change happens on the server, after whatever clients do
    lg.Eagle(gap_penalty=0.2, normalize=None),
    lg.Eagle(gap_penalty=0.5, lag=0),
    lg.Eagle(gap_penalty=2.0, multiplier_range=(0.0, 0.7)),
    lg.AFL(mixture_step=1.0, average=True),
)
CASES = [
    *(("one step", algorithm) for algorithm in (*METHODS, *VARIANTS, *ONE_STEP_VARIANTS)),
    *(("three steps", algorithm) for algorithm in (*METHODS, *VARIANTS)),
    *(("minibatches", algorithm) for algorithm in METHODS),
]


# --- three ragged clients, as lossgap and as the twin see them ---


def three_clients(seed: int = 0) -> dict:
    """Rows of three classes; every client sees the classes in places of its own."""
    rng = np.random.default_rng(seed)

    def rows(centres, count):
        y = rng.integers(0, 3, count)
        return centres[y] + rng.normal(size=(count, 2)), y

    splits = {}
    for name, sizes in SIZES.items():
        centres = rng.normal(size=(3, 2))
        splits[name] = {
            split: rows(centres, n) for split, n in zip(("train", "validation", "test"), sizes, strict=True)
        }
    return splits


def federation_of(splits: dict) -> lg.Federation:
    return lg.Federation.from_splits(splits, classes=3)


def make_federation(*, seed: int) -> lg.Federation:
    return federation_of(three_clients(seed))


def some_theta(seed: int = 0) -> np.ndarray:
    return np.random.default_rng([7, seed]).normal(size=(3, 3))


def params_of(theta: np.ndarray) -> dict:
    return {"kernel": theta[:-1], "bias": theta[-1]}


def theta_of(params: dict) -> np.ndarray:
    return np.vstack([params["kernel"], params["bias"]])


def trained(algorithm, training, *, splits=None, solo=SOLO, theta=None) -> lg.Result:
    return lg.train(
        federation_of(splits or three_clients()),
        lg.models.linear(),
        algorithm,
        training,
        seed=SEED,
        solo=solo,
        initial_params=params_of(some_theta() if theta is None else theta),
        progress=False,
    )


@functools.cache
def batch_tables(training: lg.Training) -> dict[str, np.ndarray]:
    """The row numbers that lossgap draws for each client, [round, step, batch]; −1 where there is none."""
    sizes = tuple(train for train, _, _ in SIZES.values())

    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    @functools.partial(jax.vmap, in_axes=(None, None, 0))
    def draw(key, rows, t):
        return training.local_work.batches(jax.random.fold_in(key, t), rows, sizes)

    with jax.enable_x64(training.precision == "float64"):
        keys = client_keys(jax.random.fold_in(jax.random.key(SEED), BATCHES), list(SIZES))
        return dict(zip(SIZES, np.asarray(draw(keys, jnp.array(sizes), jnp.arange(ROUNDS))), strict=True))


def task_of(splits: dict, training: lg.Training, solo=SOLO, **settings) -> twin.Task:
    """The same clients for the twin, which takes lossgap's own draws of rows."""
    sizes = [len(client["train"][1]) for client in splits.values()]
    if training.batch_size is None:
        drawn = [[[np.arange(n)] * training.local_steps] * training.rounds for n in sizes]
    else:
        tables = [batch_tables(training)[name] for name in splits]
        drawn = [[[step[step >= 0] for step in of_round if max(step) >= 0] for of_round in table] for table in tables]
    return twin.Task(
        clients=list(splits.values()),
        solo=solo,
        step_size=training.step_size,
        steps=lambda k, t: drawn[k][t],
        gap_split=training.gap_split,
        **settings,
    )


def twin_trace(algorithm: lg.Algorithm, task: twin.Task, theta: np.ndarray, rounds: int = ROUNDS) -> twin.Trace:
    method = {lg.FedAvg: twin.fedavg, lg.Eagle: twin.eagle, lg.QFFL: twin.qffl, lg.AFL: twin.afl}[type(algorithm)]
    beyond = {"average", "target_variance", "penalty_step", "worst_gap_rise", "forget_after"}
    its_settings = {f.name: getattr(algorithm, f.name) for f in fields(algorithm) if f.name not in beyond}
    return method(task, theta, rounds, **its_settings)


def assert_same_run(result: lg.Result, trace: twin.Trace, *, average: bool = False) -> None:
    expected = np.mean(trace.theta[1:], axis=0) if average else trace.theta[-1]
    np.testing.assert_allclose(theta_of(result.params), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.history.gap, trace.gaps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.history.multiplier, trace.multipliers, rtol=0, atol=1e-9)


# --- every method against NumPy ---


@pytest.mark.parametrize(("work", "algorithm"), CASES, ids=[f"{algorithm}, {work}" for work, algorithm in CASES])
def test_rounds_match_the_numpy_version(work, algorithm):
    training = WORKS[work]
    trace = twin_trace(algorithm, task_of(three_clients(), training), some_theta())
    assert_same_run(trained(algorithm, training), trace, average=getattr(algorithm, "average", False))


def test_gaps_on_training_rows_match_the_numpy_version():
    training, algorithm = replace(ONE_STEP, gap_split="train"), lg.Eagle(gap_penalty=0.5)
    trace = twin_trace(algorithm, task_of(three_clients(), training), some_theta())
    assert_same_run(trained(algorithm, training), trace)


def test_least_squares_rounds_match_the_numpy_version():
    training, algorithm = replace(THREE_STEPS, step_size=0.05), lg.Eagle(gap_penalty=0.5)
    splits = {
        name: {split: (x, x @ [1.0, -2.0] + 0.1 * y) for split, (x, y) in client.items()}
        for name, client in three_clients().items()
    }
    task = task_of(splits, training, loss=twin.squared_loss, gradient=twin.squared_gradient)
    theta = some_theta()[:, :1]
    result = lg.train(
        lg.Federation.from_splits(splits),
        lg.models.linear(),
        algorithm,
        training,
        seed=SEED,
        solo=SOLO,
        initial_params=params_of(theta),
        progress=False,
    )
    assert_same_run(result, twin_trace(algorithm, task, theta))


@pytest.mark.parametrize(("name", "rows", "steps"), [("lyon", 9, 6), ("lille", 1, 2), ("brest", 8, 4)])
def test_each_epoch_of_minibatches_visits_every_row_once(name, rows, steps):
    for table in batch_tables(MINIBATCHES)[name]:
        visited = table[table >= 0]
        assert [sorted(epoch) for epoch in np.split(visited, 2)] == [list(range(rows))] * 2
        assert (table >= 0).any(axis=1).sum() == steps


def test_every_epoch_round_and_client_shuffles_anew():
    tables = batch_tables(MINIBATCHES)
    lyon, brest = (tables[name][tables[name] >= 0].reshape(2 * ROUNDS, n) for name, n in (("lyon", 9), ("brest", 8)))
    assert len(np.unique(lyon, axis=0)) > 1.9 * ROUNDS
    lyon_without_its_last_row = lyon[lyon < 8].reshape(2 * ROUNDS, 8)
    assert (lyon_without_its_last_row != brest).any(axis=1).mean() > 0.9


# --- one or two rounds by hand ---
#
# Client k holds rows (x, y) = (1, a_k) and (−1, −a_k): its loss at slope θ is ½(θ − a_k)², its gradient θ − a_k, and
# the bias never moves. a = (1, 3), θ = 0 and η = ½ give losses (0.5, 4.5), gradients (−1, −3), local models (0.5, 1.5)
# and updates Δ = (−0.5, −1.5). Solo losses are (0.5, 1.5): gaps (0, 3), their mean 1.5.

TWO_SOLO = (0.5, 1.5)
SLOPE_LEAST_SQUARES = lg.Training(rounds=1, step_size=0.5, precision="float64")


def two_slopes(copies: tuple[int, int] = (1, 1)) -> lg.Federation:
    def client(a, count):
        rows = np.tile([[1.0], [-1.0]], (count, 1)), np.tile([a, -a], count)
        return {"train": rows, "validation": rows, "test": rows}

    return lg.Federation.from_splits({"small": client(1.0, copies[0]), "large": client(3.0, copies[1])})


def slope_after(algorithm, rounds=1, *, federation=None, **settings) -> float:
    result = lg.train(
        federation or two_slopes(),
        lg.models.linear(),
        algorithm,
        replace(SLOPE_LEAST_SQUARES, rounds=rounds, **settings),
        solo=TWO_SOLO,
        initial_params={"kernel": np.zeros((1, 1)), "bias": np.zeros(1)},
        progress=False,
    )
    assert abs(result.params["bias"][0]) < 1e-15
    return float(result.params["kernel"][0, 0])


def test_fedavg_by_hand():
    # θ = (0.5 + 1.5)/2
    assert slope_after(lg.FedAvg()) == pytest.approx(1, abs=1e-12)


def test_fedavg_by_size_by_hand():
    # 2 and 6 rows: θ = ¼·0.5 + ¾·1.5
    size = lg.FedAvg(weighting="size")
    assert slope_after(size, federation=two_slopes((1, 3))) == pytest.approx(1.25, abs=1e-12)


@pytest.mark.parametrize(("normalize", "norm"), [(None, 1), ("unit", 6.5**0.5), ("sqrt-k", 3.25**0.5)])
def test_eagle_without_lag_by_hand(normalize, norm):
    # λ = 1/8, K = 2: w = 1 + 4/8·2/1·(r − 1.5) = 1 + (r − 1.5) = (−0.5, 2.5), of norm √6.5.
    # θ = −½·(−0.5·(−1) + 2.5·(−3))/2 = 1.75, divided by what w is divided by: √6.5 for "unit", √6.5/√2 for "sqrt-k".
    eagle = lg.Eagle(gap_penalty=1 / 8, lag=0, normalize=normalize)
    assert slope_after(eagle) == pytest.approx(1.75 / norm, abs=1e-12)


def test_eagle_with_lag_by_hand():
    # Round 1 runs with w = (1, 1): θ = 1. Round 2 runs with the gaps at θ = 0, w = (−0.5, 2.5), on the gradients
    # (0, −2): θ = 1 − ½·(0 + 2.5·(−2))/2 = 2.25. (The gaps at θ = 1 are (−0.5, 0.5) and would give 1.75.)
    assert slope_after(lg.Eagle(gap_penalty=1 / 8, normalize=None), rounds=2) == pytest.approx(2.25, abs=1e-12)


def test_first_multipliers_of_eagle_are_normalised_too():
    # Round 1 runs with w = (1, 1)/√2: θ = 1/√2. Round 2 with (−0.5, 2.5)/√6.5 on the gradients (θ − 1, θ − 3):
    # θ − ½·(−0.5·(θ − 1) + 2.5·(θ − 3))/2/√6.5 = θ − (θ − 3.5)/2/√6.5
    first = 1 / 2**0.5
    assert slope_after(lg.Eagle(gap_penalty=1 / 8), rounds=2) == pytest.approx(
        first - (first - 3.5) / 2 / 6.5**0.5, abs=1e-12
    )


def test_qffl_by_hand():
    # q = 1, Δ/η = (−1, −3): Δ̃ = F·Δ/η = (−0.5, −13.5); h = ‖Δ/η‖² + F/η = (1 + 1, 9 + 9); θ = 14/20
    assert slope_after(lg.QFFL(q=1.0)) == pytest.approx(14 / 20, abs=1e-9)


def test_qffl_takes_the_loss_before_local_work():
    # Three steps: local models (0.875, 2.625), Δ/η = (−1.75, −5.25), F = (0.5, 4.5) at θ = 0.
    # Δ̃ = (−0.875, −23.625); h = (3.0625 + 1, 27.5625 + 9); θ = 24.5/40.625 = 0.603.
    # The losses after the three steps, (1/128, 9/128), would give 0.0124, and F = 1 for everybody 6.13/34.6 = 0.20.
    assert slope_after(lg.QFFL(q=1.0), local_steps=3) == pytest.approx(24.5 / 40.625, abs=1e-9)


def test_afl_by_hand():
    # Round 1, μ = (½, ½): θ = 1. γ = 1/20: μ + γF = (0.525, 0.725), less 0.125 each: μ = (0.4, 0.6).
    # Round 2, gradients (0, −2), local models (1, 2): θ = 0.4·1 + 0.6·2
    assert slope_after(lg.AFL(mixture_step=1 / 20), rounds=2) == pytest.approx(1.6, abs=1e-12)


def test_averaged_afl_by_hand():
    # The iterates of `test_afl_by_hand` after rounds 1 and 2 are 1 and 1.6.
    assert slope_after(lg.AFL(mixture_step=1 / 20, average=True), rounds=2) == pytest.approx(1.3, abs=1e-12)


# --- EAGLE: the gradient and the multipliers ---


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_eagle_descends_the_gradient_of_its_objective(seed):
    training = replace(ONE_STEP, rounds=1, gap_split="train")
    task, theta, penalty = task_of(three_clients(seed), training), some_theta(seed), 0.7

    eagle = lg.Eagle(gap_penalty=penalty, normalize=None, lag=0)
    result = trained(eagle, training, splits=three_clients(seed), theta=theta)
    descended = (theta - theta_of(result.params)) / training.step_size

    w = result.history.multiplier[0]
    weighted = np.mean([w_k * gradient for w_k, gradient in zip(w, task.gradients(theta), strict=True)], axis=0)
    np.testing.assert_allclose(descended, weighted, rtol=0, atol=1e-12)

    h = 1e-5
    for i in np.ndindex(theta.shape):
        nudge = np.zeros_like(theta)
        nudge[i] = h
        above, below = (twin.eagle_objective(task, theta + sign * nudge, penalty) for sign in (1, -1))
        assert descended[i] == pytest.approx((above - below) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("work", ["one step", "three steps"])
def test_zero_penalty_is_fedavg(precision, work):
    training = replace(WORKS[work], precision=precision)
    eagle, fedavg = (trained(a, training) for a in (lg.Eagle(gap_penalty=0.0, normalize="sqrt-k"), lg.FedAvg()))
    assert np.array_equal(theta_of(eagle.params), theta_of(fedavg.params))
    assert np.array_equal(eagle.history.gap, fedavg.history.gap)
    assert (eagle.history.multiplier == 1).all()


@pytest.mark.parametrize("work", ["one step", "three steps"])
def test_zero_penalty_of_unit_norm_is_fedavg_with_smaller_steps(work):
    slow = replace(WORKS[work], step_size=WORKS[work].step_size / 3**0.5)
    eagle, fedavg = trained(lg.Eagle(gap_penalty=0.0), WORKS[work]), trained(lg.FedAvg(), slow)
    np.testing.assert_allclose(theta_of(eagle.params), theta_of(fedavg.params), rtol=0, atol=1e-12)


some_gaps = st.lists(st.floats(-10, 10), min_size=2, max_size=5)
penalties = st.floats(0, 10)
quickly = settings(max_examples=60, deadline=None)


def multipliers(gaps, penalty) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(gap_multipliers(jnp.asarray(gaps, float), penalty))


def observed(algorithm: lg.Eagle, gaps) -> np.ndarray:
    """The multipliers that follow from these gaps, normalised and clipped."""
    with jax.enable_x64(True):
        gaps = jnp.asarray(gaps, float)
        state = algorithm.observe(algorithm.init((), len(gaps)), Measured(gaps, gaps, gaps))
        return np.asarray(algorithm.multipliers(state))


@quickly
@given(some_gaps, penalties)
def test_multipliers_are_the_papers_double_sum(gaps, penalty):
    np.testing.assert_allclose(multipliers(gaps, penalty), twin.eagle_multipliers(gaps, penalty), rtol=0, atol=1e-10)


@quickly
@given(some_gaps, penalties)
def test_multipliers_sum_to_the_number_of_clients(gaps, penalty):
    assert observed(lg.Eagle(gap_penalty=penalty, normalize=None), gaps).sum() == pytest.approx(len(gaps), abs=1e-10)


@quickly
@given(some_gaps, penalties, st.floats(-100, 100))
def test_multipliers_ignore_a_shift_of_all_gaps(gaps, penalty, shift):
    shifted = multipliers([gap + shift for gap in gaps], penalty)
    np.testing.assert_allclose(shifted, multipliers(gaps, penalty), rtol=0, atol=1e-9)


@quickly
@given(some_gaps, penalties)
def test_multipliers_have_the_promised_norm(gaps, penalty):
    unit, root = (observed(lg.Eagle(gap_penalty=penalty, normalize=rule), gaps) for rule in ("unit", "sqrt-k"))
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-12)
    assert np.linalg.norm(root) == pytest.approx(len(gaps) ** 0.5, abs=1e-12)
    raw = multipliers(gaps, penalty)
    np.testing.assert_allclose(unit * np.linalg.norm(raw), raw, rtol=0, atol=1e-10)


@quickly
@given(some_gaps, st.floats(0.01, 10))
def test_multipliers_are_negative_exactly_far_below_the_mean_gap(gaps, penalty):
    K, below = len(gaps), np.mean(gaps) - np.array(gaps)
    threshold = (K - 1) / (4 * penalty * K)
    assume((np.abs(below - threshold) > 1e-9).all())
    assert np.array_equal(multipliers(gaps, penalty) < 0, below > threshold)


def test_multiplier_range_clips():
    # K = 3, λ = ½, gaps (0, 2, 4): w = 1 + 4·½·3/2·(−2, 0, 2) = 1 + (−6, 0, 6)
    free = lg.Eagle(gap_penalty=0.5, normalize=None)
    np.testing.assert_allclose(observed(free, [0, 2, 4]), [-5, 1, 7], atol=1e-12)
    clipped = replace(free, multiplier_range=(0.0, 3.0))
    np.testing.assert_allclose(observed(clipped, [0, 2, 4]), [0, 1, 3], atol=1e-12)


def test_multiplier_range_clips_after_normalising():
    # (−5, 1, 7) has the norm √75: (−0.577, 0.115, 0.808)
    clipped = lg.Eagle(gap_penalty=0.5, multiplier_range=(-0.5, 0.5))
    np.testing.assert_allclose(observed(clipped, [0, 2, 4]), [-0.5, 1 / 75**0.5, 0.5], atol=1e-12)


# --- aggregation weights on made-up replies ---


def replies_of(losses, gaps=None, updates=None, rows=None, *, step_size=0.5, dtype=np.float64) -> Replies:
    """What clients might say; updates are [client, number]."""
    losses = jnp.asarray(losses, dtype)
    K = len(losses)
    return Replies(
        updates=StackedUpdates({"kernel": jnp.asarray(np.ones((K, 1)) if updates is None else updates, dtype)}),
        measured=Measured(losses, losses, losses if gaps is None else jnp.asarray(gaps, dtype)),
        rows=jnp.asarray(np.ones(K) if rows is None else rows, jnp.int32),
        steps=jnp.ones(K, jnp.int32),
        step_size=jnp.asarray(step_size, dtype),
        loss_after=jnp.full(K, jnp.nan, dtype),
    )


def what_follows(algorithm: lg.Algorithm, replies: Replies) -> np.ndarray:
    """Weights of a first and a second round with these replies, and the multipliers of the second, [3, client]."""
    K = replies.answers
    state = algorithm.init({"kernel": jnp.zeros(1)}, K)
    first, state = algorithm.weights(state, replies)
    used = jnp.broadcast_to(algorithm.multipliers(state), K)
    second, _ = algorithm.weights(state, replies)
    return np.stack([first, second, used])


@pytest.mark.parametrize("algorithm", [*METHODS, lg.FedAvg(weighting="size")], ids=str)
def test_order_of_clients_means_nothing_to_the_server(algorithm):
    @settings(max_examples=25, deadline=None)
    @given(
        columns=st.lists(
            st.tuples(st.floats(0.01, 10), st.floats(-5, 5), st.floats(-3, 3), st.integers(1, 1000)),
            min_size=4,
            max_size=4,
        ),
        order=st.permutations(range(4)),
    )
    def holds(columns, order):
        losses, gaps, updates, rows = map(np.array, zip(*columns, strict=True))
        with jax.enable_x64(True):
            given_so = what_follows(algorithm, replies_of(losses, gaps, updates[:, None], rows))
            reordered = replies_of(losses[order], gaps[order], updates[order, None], rows[order])
            np.testing.assert_allclose(what_follows(algorithm, reordered), given_so[:, order], rtol=1e-9, atol=1e-12)

    holds()


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_order_of_clients_means_nothing_to_training(algorithm):
    """Minibatches included: what a client draws goes by its name."""
    splits, order = three_clients(), ("brest", "lyon", "lille")
    moved = [list(splits).index(name) for name in order]
    given_so = trained(algorithm, MINIBATCHES, splits=splits)
    reordered = trained(
        algorithm, MINIBATCHES, splits={name: splits[name] for name in order}, solo=[SOLO[k] for k in moved]
    )
    np.testing.assert_allclose(theta_of(reordered.params), theta_of(given_so.params), rtol=0, atol=1e-12)
    np.testing.assert_allclose(reordered.history.gap, given_so.history.gap[:, moved], rtol=0, atol=1e-12)
    np.testing.assert_allclose(reordered.history.multiplier, given_so.history.multiplier[:, moved], rtol=0, atol=1e-12)


def test_fedavg_weights_are_shares_of_rows():
    replies = replies_of([1.0, 1.0, 1.0], rows=[1, 5, 14], dtype=np.float32)
    np.testing.assert_allclose(lg.FedAvg(weighting="size").weights((), replies)[0], [0.05, 0.25, 0.7], rtol=1e-6)
    np.testing.assert_allclose(lg.FedAvg().weights((), replies)[0], [1 / 3] * 3, rtol=1e-6)


# --- q-FFL ---


@pytest.mark.parametrize("work", ["one step", "three steps", "minibatches"])
def test_zero_q_is_uniform_fedavg(work):
    qffl, fedavg = trained(lg.QFFL(q=0.0), WORKS[work]), trained(lg.FedAvg(), WORKS[work])
    np.testing.assert_allclose(theta_of(qffl.params), theta_of(fedavg.params), rtol=0, atol=1e-12)


def test_qffl_weights_are_not_renormalised():
    # The replies of `test_qffl_by_hand`: F/η/Σh = (1/20, 9/20)
    replies = replies_of([0.5, 4.5], updates=[[-0.5], [-1.5]], dtype=np.float32)
    weights, _ = lg.QFFL(q=1.0).weights((), replies)
    np.testing.assert_allclose(weights, [1 / 20, 9 / 20], rtol=1e-6)


@pytest.mark.parametrize("losses", [(1e-4, 3e-4, 2e-5), (1e-4, 3.0, 50.0), (0.0, 1e-3, 1e-3)])
def test_large_q_stays_finite_in_single_precision(losses):
    q, eta, updates = 10.0, 0.5, np.array([[0.3], [-0.2], [0.1]])
    weights, _ = lg.QFFL(q=q).weights((), replies_of(losses, updates=updates, step_size=eta, dtype=np.float32))
    assert weights.dtype == np.float32

    F = np.array(losses) + 1e-10  # the formula as it stands, in double precision: F^q down to 1e-100
    h = q * F ** (q - 1) * (updates[:, 0] / eta) ** 2 + F**q / eta
    np.testing.assert_allclose(weights, F**q / eta / h.sum(), rtol=1e-4, atol=1e-30)


# --- AFL ---


def test_mixture_stays_on_the_simplex():
    with jax.enable_x64(False):
        stepper = CompiledStepper.of(
            make_federation(seed=0),
            lg.models.linear(),
            lg.AFL(mixture_step=2.0),
            replace(ONE_STEP, precision="float32"),
            params=jax.tree.map(np.float32, params_of(some_theta())),
            solo_losses=np.zeros(3),
            key=jax.random.key(0),
        )
        carry, mixtures = stepper.start(), []
        for t in range(100):
            carry, _ = stepper.advance(carry, t, 1)
            mixtures.append(np.asarray(carry[1][0]))
    mixtures = np.array(mixtures)
    np.testing.assert_allclose(mixtures.sum(axis=1), 1, rtol=1e-6)
    assert (mixtures >= 0).all()
    assert (mixtures == 0).any(), "the run should also reach the edge of the simplex"
    assert np.ptp(mixtures, axis=0).max() > 0.5, "and move about in it"


@pytest.mark.parametrize("work", ["one step", "three steps"])
def test_zero_mixture_step_is_fedavg(work):
    afl, fedavg = trained(lg.AFL(mixture_step=0.0), WORKS[work]), trained(lg.FedAvg(), WORKS[work])
    np.testing.assert_allclose(theta_of(afl.params), theta_of(fedavg.params), rtol=0, atol=1e-12)


# --- methods as values ---


@pytest.mark.parametrize(
    ("algorithm", "label"),
    [
        (lg.FedAvg(), "FedAvg"),
        (lg.FedAvg(weighting="size"), "FedAvg(weighting=size)"),
        (lg.Eagle(gap_penalty=2), "Eagle(gap_penalty=2)"),
        (lg.Eagle(gap_penalty=2.0), "Eagle(gap_penalty=2)"),
        (lg.Eagle(gap_penalty=0.3, normalize=None, lag=0), "Eagle(gap_penalty=0.3, normalize=None, lag=0)"),
        (lg.QFFL(q=5.0), "QFFL(q=5)"),
        (lg.AFL(), "AFL"),
        (lg.AFL(mixture_step=0.01), "AFL(mixture_step=0.01)"),
    ],
)
def test_label_names_what_differs_from_the_defaults(algorithm, label):
    assert str(algorithm) == label


def test_methods_are_equal_by_content():
    assert lg.Eagle(gap_penalty=1) == lg.Eagle(gap_penalty=1.0, normalize="unit")
    assert lg.Eagle(gap_penalty=1) != lg.Eagle(gap_penalty=1, normalize=None)
    assert lg.QFFL(q=1.0) != lg.QFFL(q=2.0)
    assert lg.FedAvg() != lg.AFL()
    assert len({lg.FedAvg(), lg.FedAvg(weighting="uniform"), lg.FedAvg(weighting="size")}) == 2


@pytest.mark.parametrize("algorithm", [*METHODS, lg.FedAvg(weighting="size")], ids=str)
def test_methods_are_frozen(algorithm):
    name = fields(algorithm)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(algorithm, name, getattr(algorithm, name))


@pytest.mark.parametrize(("method", "setting"), [(lg.FedAvg, "size"), (lg.Eagle, 1.0), (lg.QFFL, 1.0), (lg.AFL, 0.1)])
def test_settings_are_given_by_name(method, setting):
    with pytest.raises(TypeError, match="positional"):
        method(setting)


def test_eagle_and_qffl_have_no_default_strength():
    for method, setting in ((lg.Eagle, "gap_penalty"), (lg.QFFL, "q")):
        with pytest.raises((TypeError, lg.SettingError), match=setting):
            method()


@pytest.mark.parametrize(
    ("method", "wrong", "cause", "fix"),
    [
        (lg.Eagle, {"gap_penalty": -0.1}, "gap_penalty is -0.1", "Use a number ≥ 0"),
        (lg.Eagle, {"gap_penalty": float("nan")}, "gap_penalty is nan", "Use a number ≥ 0"),
        (lg.Eagle, {"gap_penalty": 1.0, "normalize": "l2"}, "normalize is 'l2'", 'Use "unit", "sqrt-k" or None'),
        (lg.Eagle, {"gap_penalty": 1.0, "lag": 2}, "lag is 2", "Use 1 .* or 0"),
        (lg.Eagle, {"gap_penalty": 1.0, "multiplier_range": (3.0, 0.0)}, r"is \(3.0, 0.0\)", "low < high"),
        (lg.Eagle, {"gap_penalty": 1.0, "multiplier_range": (1.0, 1.0)}, r"is \(1.0, 1.0\)", "low < high"),
        (lg.QFFL, {"q": -1.0}, "q is -1.0", "Use a number ≥ 0"),
        (lg.AFL, {"mixture_step": -0.1}, "mixture_step is -0.1", "Use a number ≥ 0"),
        (lg.FedAvg, {"weighting": "rows"}, "weighting is 'rows'", 'Use "uniform" or "size"'),
    ],
)
def test_wrong_setting_is_refused_with_cause_and_fix(method, wrong, cause, fix):
    with pytest.raises(lg.SettingError, match=f"{method.__name__}: .*{cause}.*{fix}"):
        method(**wrong)


# --- a run depends on its own seed and on nothing else ---


def assert_identical(one: lg.Result, other: lg.Result) -> None:
    assert one.clients == other.clients
    for a, b in ((theta_of(one.params), theta_of(other.params)), (one.history.gap, other.history.gap)):
        assert np.array_equal(a, b)


def test_order_of_methods_means_nothing():
    seeds, methods = (0, 1), (lg.FedAvg(), lg.Eagle(gap_penalty=0.5))
    one, other = (
        lg.compare(make_federation, lg.models.linear(), order, MINIBATCHES, seeds=seeds, progress=False)
        for order in (methods, methods[::-1])
    )
    assert set(one.results) == set(other.results) == {"FedAvg", "Eagle(gap_penalty=0.5)"}
    for method in methods:
        for seed, mine, theirs in zip(seeds, one.results[str(method)], other.results[str(method)], strict=True):
            alone = lg.train(
                make_federation(seed=seed), lg.models.linear(), method, MINIBATCHES, seed=seed, progress=False
            )
            assert_identical(mine, theirs)
            assert_identical(mine, alone)
    assert not np.array_equal(*(theta_of(result.params) for result in one.results["FedAvg"]))


def test_what_ran_before_means_nothing():
    before = trained(lg.Eagle(gap_penalty=0.5), MINIBATCHES)
    trained(lg.QFFL(q=2.0), MINIBATCHES, splits=three_clients(seed=5))
    np.random.seed(1)  # somebody's global seed
    assert_identical(before, trained(lg.Eagle(gap_penalty=0.5), MINIBATCHES))
