"""Every method but the paper's four, which `test_algorithms` is about: its formula, its limits, its properties."""

from dataclasses import fields, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lossgap as lg
import numpy_methods as printed
from lossgap.algorithms.fedfv import worst_off
from lossgap.algorithms.fedmgda import project_to_boxed_simplex, shortest_mixture
from lossgap.engine.sequential import SequentialStepper
from test_algorithms import (
    MINIBATCHES,
    ONE_STEP,
    SOLO,
    THREE_STEPS,
    assert_same_run,
    make_federation,
    params_of,
    replies_of,
    some_theta,
    task_of,
    theta_of,
    three_clients,
    trained,
    what_follows,
)

pytestmark = pytest.mark.filterwarnings("ignore:Training rows of:lossgap.DataWarning")

ROUNDS = 20
WORKS = {"one step": ONE_STEP, "three steps": THREE_STEPS, "minibatches": MINIBATCHES}
WORKS = {name: replace(training, rounds=ROUNDS) for name, training in WORKS.items()}

PRINTED = {
    lg.Term: printed.term,
    lg.MaxFL: printed.maxfl,
    lg.Udj: printed.udj,
    lg.FedMGDA: printed.fedmgda,
    lg.FedFV: printed.fedfv,
    lg.FedDGGA: printed.feddgga,
    lg.Gifair: printed.gifair,
    lg.FedProx: printed.fedprox,
    lg.PropFair: printed.propfair,
    lg.FedNova: printed.fednova,
}
ON_CLIENTS = (  # what clients do differs, so that every kind of local work is looked at
    lg.Gifair(strength=0.7),
    lg.FedProx(pull=0.5),
    lg.PropFair(ceiling=2.0),
    lg.FedNova(momentum=0.6),
)
ON_THE_SERVER = (
    lg.Term(tilt=2.0),
    lg.MaxFL(server_step_size=1.5),
    lg.Udj(power=2.5),
    lg.FedMGDA(radius=0.2),
    lg.FedFV(alpha=0.3),
    lg.FedDGGA(step=0.2),
)
VARIANTS = (
    lg.Gifair(strength=0.9, groups=("north", "south", "north")),
    lg.FedNova(weighting="size"),
    lg.Udj(power=3.0, desert=(0.5, 2.0, 1.0)),
    lg.Term(tilt=-1.0),
    lg.FedMGDA(radius=1.0),
    lg.FedFV(alpha=0.0),
)
ONE_PASS = (*ON_CLIENTS, lg.Term(tilt=2.0), lg.MaxFL(server_step_size=1.5))  # one backward pass for all clients
CASES = [
    *(("minibatches", method) for method in (*ON_CLIENTS, *ON_THE_SERVER, *VARIANTS)),
    *(("three steps", method) for method in ON_CLIENTS[1:]),
    *(("one step", method) for method in ONE_PASS),
]

ALL = (
    lg.FedAvg(),
    lg.Eagle(gap_penalty=0.5),
    lg.QFFL(q=2.0),
    lg.AFL(),
    *ON_CLIENTS,
    *ON_THE_SERVER,
    lg.Focus(clusters=3),
    lg.Ditto(base=lg.Eagle(gap_penalty=0.5), pull=0.4),
    lg.Ditto(),
)


# --- the formula ---


@pytest.mark.parametrize(("work", "method"), CASES, ids=[f"{method}, {work}" for work, method in CASES])
def test_rounds_match_the_printed_formula(work: str, method: lg.Algorithm) -> None:
    training = WORKS[work]
    its_settings = {f.name: getattr(method, f.name) for f in fields(method)}
    trace = PRINTED[type(method)](task_of(three_clients(), training), some_theta(), ROUNDS, **its_settings)
    assert_same_run(trained(method, training), trace)


@pytest.mark.parametrize("work", ["three steps", "minibatches"])
def test_ditto_matches_the_printed_formula(work: str) -> None:
    training = WORKS[work]
    trace, own = printed.ditto(task_of(three_clients(), training), some_theta(), ROUNDS, pull=0.4)
    result = trained(lg.Ditto(pull=0.4), training)
    for k, model in enumerate(own):
        served = jax.tree.map(lambda p, k=k: p[k], result.params)
        np.testing.assert_allclose(theta_of(served), model, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.history.gap, trace.gaps, rtol=0, atol=1e-9)


@pytest.mark.parametrize("work", ["one step", "minibatches"])
def test_focus_matches_the_printed_formula(work: str) -> None:
    training, method = WORKS[work], lg.Focus(clusters=3)
    with jax.enable_x64(True):
        starts = jax.tree.map(np.asarray, method.init(params_of(some_theta()), 3)[0])
    starts = [np.vstack([starts["kernel"][m], starts["bias"][m]]) for m in range(3)]
    models, mixture = printed.focus(task_of(three_clients(), training), starts, ROUNDS)
    result = trained(method, training)
    for m, model in enumerate(models):
        one = {name: leaf[0][m] for name, leaf in result.params["models"].items()}
        np.testing.assert_allclose(theta_of(one), model, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.exp(result.params["log_mixture"]), mixture, rtol=0, atol=1e-9)


def test_focus_serves_the_mixture_of_probabilities() -> None:
    """Client 0 mixes two constant models ¾ : ¼, so that class 0 has ¾·0.9 + ¼·0.2 = 0.725."""
    served = lg.Focus().served(lg.models.linear())
    biases = np.log([[0.9, 0.1], [0.2, 0.8]])
    params = {"models": {"kernel": np.zeros((2, 1, 2)), "bias": biases}, "log_mixture": np.log([0.75, 0.25])}
    np.testing.assert_allclose(np.exp(served.apply(params, jnp.ones((1, 1)))), [[0.725, 0.275]], rtol=1e-6)


def test_focus_serves_the_mean_of_numbers() -> None:
    served = lg.Focus().served(lg.models.linear())
    params = {
        "models": {"kernel": np.zeros((2, 1, 1)), "bias": np.array([[4.0], [8.0]])},
        "log_mixture": np.log([0.75, 0.25]),
    }
    np.testing.assert_allclose(served.apply(params, jnp.ones((1, 1))), [[5.0]], rtol=1e-6)


# --- the engines ---


@pytest.mark.parametrize("work", ["one step", "minibatches"])
@pytest.mark.parametrize("method", ALL[4:], ids=str)
def test_compiled_equals_sequential_on_ragged_clients(method: lg.Algorithm, work: str) -> None:
    both_engines(method, WORKS[work])


@pytest.mark.slow
@pytest.mark.parametrize("work", [{"local_steps": 3}, {"local_steps": 5, "batch_size": 4, "record_every": 2}], ids=str)
@pytest.mark.parametrize("method", ALL, ids=str)
def test_compiled_equals_sequential_for_all_other_work(method: lg.Algorithm, work: dict) -> None:
    both_engines(method, replace(ONE_STEP, **work))


def both_engines(method: lg.Algorithm, training: lg.Training) -> None:
    training = replace(training, rounds=5)
    compiled, sequential = (
        lg.train(make_federation(seed=0), lg.models.linear(), method, training, solo=SOLO, **engine)
        for engine in ({}, {"engine": SequentialStepper.of})
    )
    assert_close(compiled, sequential, 1e-10)


def assert_close(one: lg.Result, other: lg.Result, tolerance: float) -> None:
    close = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    jax.tree.map(close, one.params, other.params)
    for name in ("train_loss", "gap", "multiplier"):
        close(getattr(one.history, name), getattr(other.history, name), err_msg=name)


@pytest.mark.parametrize("method", ALL, ids=str)
def test_side_by_side_over_seeds_equals_single_runs(method: lg.Algorithm) -> None:
    training = replace(ONE_STEP, rounds=6)
    together = lg.train_many(
        make_federation(seed=0), lg.models.linear(), [method], training, seeds=(1, 5), solo=SOLO, progress=False
    )
    for seed, result in zip((1, 5), together, strict=True):
        alone = lg.train(make_federation(seed=0), lg.models.linear(), method, training, seed=seed, solo=SOLO)
        assert result.seed == seed
        assert_close(result, alone, 1e-9)


# --- limits ---

FEDAVG_IN_DISGUISE = (
    (lg.Term(tilt=0.0), "minibatches"),
    (lg.Gifair(strength=0.0), "minibatches"),
    (lg.Udj(power=1.0), "minibatches"),
    (lg.FedProx(pull=0.0), "minibatches"),
    (lg.FedProx(pull=9.0), "one step"),
    (lg.FedNova(), "three steps"),
    (lg.FedNova(momentum=0.8), "one step"),
    (lg.FedDGGA(step=0.0), "minibatches"),
    (lg.FedFV(alpha=1.0), "minibatches"),
    (lg.Focus(clusters=1), "minibatches"),
)


@pytest.mark.parametrize(("method", "work"), FEDAVG_IN_DISGUISE, ids=str)
def test_in_its_limit_a_method_is_fedavg(method: lg.Algorithm, work: str) -> None:
    result, fedavg = trained(method, WORKS[work]), trained(lg.FedAvg(), WORKS[work])
    np.testing.assert_allclose(result.history.gap, fedavg.history.gap, rtol=0, atol=1e-10)
    gaps = [[client.gap for client in each.clients] for each in (result, fedavg)]
    np.testing.assert_allclose(*gaps, rtol=0, atol=1e-10)


def test_propfair_with_a_high_ceiling_is_fedavg() -> None:
    result, fedavg = (trained(m, WORKS["minibatches"]) for m in (lg.PropFair(ceiling=1e9), lg.FedAvg()))
    np.testing.assert_allclose(theta_of(result.params), theta_of(fedavg.params), rtol=0, atol=1e-7)


def test_the_rule_of_udj_is_that_of_qffl_with_one_less() -> None:
    udj, qffl = (trained(method, WORKS["minibatches"]) for method in (lg.Udj(power=3.0), lg.QFFL(q=2.0)))
    np.testing.assert_allclose(theta_of(udj.params), theta_of(qffl.params), rtol=0, atol=1e-12)


@pytest.mark.parametrize("work", ["one step", "minibatches"])
def test_ditto_without_pull_is_training_alone(work: str) -> None:
    """Each client's model is what it would reach with the same steps and no server."""
    training = WORKS[work]
    task, result = task_of(three_clients(), training), trained(lg.Ditto(pull=0.0), training)
    for k in range(3):
        theta = some_theta()
        for t in range(ROUNDS):
            theta = printed.walked(task, theta, k, t, lambda own, rows: task.gradient(own, *rows))
        served = jax.tree.map(lambda p, k=k: p[k], result.params)
        np.testing.assert_allclose(theta_of(served), theta, rtol=0, atol=1e-9)


def test_a_strong_pull_keeps_personal_models_at_the_shared_one() -> None:
    training = replace(WORKS["one step"], step_size=0.01, rounds=200)
    result, fedavg = trained(lg.Ditto(pull=50.0), training), trained(lg.FedAvg(), training)
    for k in range(3):
        served = jax.tree.map(lambda p, k=k: p[k], result.params)
        np.testing.assert_allclose(theta_of(served), theta_of(fedavg.params), rtol=0, atol=0.03)


@pytest.mark.parametrize("base", [lg.AFL(), lg.Eagle(gap_penalty=0.5), lg.FedNova(momentum=0.5)], ids=str)
def test_the_base_of_ditto_trains_as_if_nobody_watched(base: lg.Algorithm) -> None:
    inside, alone = (trained(m, WORKS["minibatches"]) for m in (lg.Ditto(base=base), base))
    np.testing.assert_allclose(inside.history.gap, alone.history.gap, rtol=0, atol=1e-12)


# --- properties of the weights ---

COLUMNS = st.lists(
    st.tuples(
        st.floats(0.01, 10, allow_subnormal=False),
        st.floats(-5, 5, allow_subnormal=False),
        st.floats(-3, 3, allow_subnormal=False),
        st.floats(-3, 3, allow_subnormal=False),
        st.integers(1, 1000),
    ),
    min_size=4,
    max_size=4,
    unique_by=lambda column: column[0],  # FedFV goes by the order of losses, and equal ones have none
)
WEIGHING = (*ON_THE_SERVER, *ON_CLIENTS, lg.AFL(mixture_step=0.5), lg.QFFL(q=2.0), lg.FedMGDA(radius=1.0))


@pytest.mark.parametrize("method", WEIGHING, ids=str)
def test_permuting_clients_permutes_weights(method: lg.Algorithm) -> None:
    @settings(max_examples=25, deadline=None)
    @given(columns=COLUMNS, order=st.permutations(range(4)))
    def holds(columns: list, order: list) -> None:
        losses, gaps, *updates, rows = map(np.array, zip(*columns, strict=True))
        updates = np.stack(updates, axis=1)
        assume((np.linalg.norm(updates, axis=1) > 0.1).all())
        with jax.enable_x64(True):
            given_so, reordered = (
                what_follows(
                    method, replace(replies_of(losses[i], gaps[i], updates[i], rows[i]), loss_after=losses[i] / 2)
                )
                for i in (np.arange(4), np.array(order))
            )
        np.testing.assert_allclose(reordered, given_so[:, order], rtol=1e-6, atol=1e-7)

    holds()


@pytest.mark.parametrize("method", [lg.Term(tilt=2.0), lg.FedDGGA(step=0.3), lg.AFL(mixture_step=0.5)], ids=str)
def test_mixtures_stay_on_the_simplex(method: lg.Algorithm) -> None:
    @settings(max_examples=40, deadline=None)
    @given(
        rounds=st.lists(
            st.lists(st.floats(0, 10, allow_subnormal=False), min_size=4, max_size=4), min_size=2, max_size=5
        )
    )
    def holds(rounds: list) -> None:
        with jax.enable_x64(True):
            state = method.init({"kernel": jnp.zeros(1)}, 4)
            for losses in rounds:
                replies = replace(replies_of(losses), loss_after=jnp.asarray(losses[::-1]) / 2)
                weights, state = method.weights(state, replies)
                assert weights.sum() == pytest.approx(1, abs=1e-9)
                assert (weights >= 0).all()

    holds()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=6), st.floats(0, 0.99, allow_subnormal=False)
)
def test_multipliers_of_gifair_are_positive_and_sum_to_the_number_of_clients(losses: list, strength: float) -> None:
    with jax.enable_x64(True):
        method = lg.Gifair(strength=strength)
        _, state = method.weights(method.init((), len(losses)), replies_of(losses))
        multipliers = np.asarray(method.multipliers(state))
    assert (multipliers > 0).all()
    assert multipliers.sum() == pytest.approx(len(losses), abs=1e-9)
    np.testing.assert_allclose(multipliers, printed.gifair_multipliers(np.array(losses), strength, range(len(losses))))


def test_maxfl_tells_clients_far_from_their_threshold_apart_in_single_precision() -> None:
    gaps = np.array([20.0, 21.0, 25.0])  # σ is 1 to seven digits, and 1 − σ all digits of nothing
    weights, _ = lg.MaxFL().weights((), replies_of(np.ones(3), gaps, dtype=np.float32))
    q = np.exp(-gaps) / (1 + np.exp(-gaps)) ** 2
    np.testing.assert_allclose(weights, q / (q.sum() + 1e-8), rtol=1e-5)


@pytest.mark.parametrize(("share", "clients", "spared"), [(0.55, 100, 55), (0.1, 10, 1), (0.11, 10, 2), (0.0, 4, 0)])
def test_fedfv_spares_those_with_the_largest_losses(share: float, clients: int, spared: int) -> None:
    losses = np.random.default_rng(clients).permutation(clients).astype(np.float32)
    np.testing.assert_array_equal(worst_off(jnp.asarray(losses), share), losses >= clients - spared)


# --- FedMGDA+: the shortest mixture ---


def mixed(products: np.ndarray, radius: float) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.jit(shortest_mixture)(jnp.asarray(products), radius))


UNITS = st.tuples(
    st.integers(2, 5), st.integers(1, 6), st.floats(0, 3, allow_subnormal=False), st.integers(0, 2**32 - 1)
)


def directions(shape: tuple) -> np.ndarray:
    """Unit vectors that agree more or less."""
    clients, dimensions, agreement, seed = shape
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(clients, dimensions)) + agreement * rng.normal(size=dimensions)
    return g / np.linalg.norm(g, axis=1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(UNITS, st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_no_mixture_within_bounds_is_shorter(shape: tuple, radius: float) -> None:
    g = directions(shape)
    mixture, exact = mixed(g @ g.T, radius), printed.shortest(g @ g.T, radius)
    K = len(g)
    assert mixture.sum() == pytest.approx(1, abs=1e-12)
    assert (mixture >= -1e-12).all()
    assert (abs(mixture - 1 / K) <= radius + 1e-12).all()
    assert np.linalg.norm(mixture @ g) ** 2 <= np.linalg.norm(exact @ g) ** 2 + 1e-6


@settings(max_examples=60, deadline=None)
@given(UNITS)
def test_the_shortest_mixture_descends_for_every_client_if_anything_does(shape: tuple) -> None:
    """At the shortest point d of the hull, ⟨d, g_k⟩ ≥ ‖d‖² for all k; it is zero only if nothing descends for all."""
    g = directions(shape)
    exact = printed.shortest(g @ g.T, 1.0) @ g
    assume(np.linalg.norm(exact) > 0.03)  # a direction exists, and rounding cannot decide it
    with jax.enable_x64(True):
        weights, _ = lg.FedMGDA(radius=1.0).weights((), replies_of(np.ones(len(g)), updates=g * 2.5))
    assert (g @ (np.asarray(weights) @ g) > 0).all()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=1, max_size=8),
    st.floats(0, 1, allow_subnormal=False),
    st.integers(0, 2**32 - 1),
)
def test_the_boxed_projection_is_the_closest_point(y: list, radius: float, seed: int) -> None:
    K = len(y)
    low, high = max(0.0, 1 / K - radius), 1 / K + radius
    with jax.enable_x64(True):
        point = np.asarray(project_to_boxed_simplex(jnp.asarray(y, float), low, high))
    assert point.sum() == pytest.approx(1, abs=1e-9)
    assert (point >= low).all()
    assert (point <= high).all()
    rng = np.random.default_rng(seed)
    for other in rng.dirichlet(np.ones(K), 20):
        other = 1 / K + (other - 1 / K) * min(1, radius / max(abs(other - 1 / K).max(), 1e-12))
        assert np.linalg.norm(point - y) <= np.linalg.norm(other - y) + 1e-9


# --- what a user may get wrong ---


@pytest.mark.parametrize(
    ("method", "wrong", "cause"),
    [
        (lg.Ditto, {"pull": -1.0}, "pull is -1.0"),
        (lg.Ditto, {"base": lg.Focus()}, "is personal already"),
        (lg.Gifair, {"strength": 1.0}, "strength is 1.0"),
        (lg.Gifair, {"groups": ("a", "a")}, "one group only"),
        (lg.Focus, {"clusters": 0}, "clusters is 0"),
        (lg.MaxFL, {"server_step_size": 0.0}, "server_step_size is 0.0"),
        (lg.Udj, {"power": 0.5}, "power is 0.5"),
        (lg.Udj, {"power": float("inf")}, "power is inf"),
        (lg.Udj, {"desert": (1.0, 0.0)}, "desert is"),
        (lg.FedNova, {"momentum": 1.0}, "momentum is 1.0"),
        (lg.FedNova, {"weighting": "rows"}, "weighting is 'rows'"),
        (lg.FedProx, {"pull": -0.1}, "pull is -0.1"),
        (lg.Term, {"tilt": float("nan")}, "tilt is nan"),
        (lg.PropFair, {"ceiling": 0.1}, "ceiling is 0.1"),
        (lg.PropFair, {"ceiling": float("inf")}, "ceiling is inf"),
        (lg.FedMGDA, {"radius": 2.0}, "radius is 2.0"),
        (lg.FedFV, {"alpha": 1.5}, "alpha is 1.5"),
        (lg.FedDGGA, {"step": -0.1}, "step is -0.1"),
        (lg.QFFL, {"q": float("inf")}, "q is inf"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(method: type[lg.Algorithm], wrong: dict, cause: str) -> None:
    with pytest.raises(lg.SettingError, match=f"{method.__name__}: .*{cause}"):
        method(**wrong)


@pytest.mark.parametrize("method", [lg.Gifair(groups=("a", "b")), lg.Udj(desert=(1.0, 2.0))], ids=str)
def test_settings_per_client_must_fit_the_clients(method: lg.Algorithm) -> None:
    with pytest.raises(lg.SettingError, match=r"2 .*3 clients"):
        trained(method, WORKS["one step"])


def test_the_constructors_of_the_contract() -> None:
    ours = (
        lg.Ditto(base=lg.FedAvg(), pull=0.1),
        lg.Gifair(strength=0.5, groups=None),
        lg.Focus(clusters=2),
        lg.MaxFL(server_step_size=1.0),
        lg.Udj(power=1.0, desert=None),
        lg.FedNova(momentum=0.0),
        lg.FedProx(pull=0.1),
        lg.Term(tilt=1.0),
        lg.PropFair(ceiling=5.0),
        lg.FedMGDA(radius=0.1),
        lg.FedFV(alpha=0.1),
        lg.FedDGGA(step=0.1),
    )
    assert all(method == type(method)() for method in ours)


def test_personal_models_that_diverge_end_the_run() -> None:
    """The shared model does well all the while: only the personal ones step too far, by η ω = 5."""
    with pytest.raises(lg.DivergedError, match=r"Ditto.* diverged"):
        trained(lg.Ditto(pull=10.0), replace(ONE_STEP, rounds=2000, step_size=0.5))


def test_focus_learns_numbers() -> None:
    """Two clients whose numbers differ by a constant: a cluster each, where one model would miss both."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, level in (("north", 3.0), ("south", -3.0)):
        x = rng.normal(size=(60, 2))
        arrays[name] = (x, x @ [1.0, -1.0] + level)
    federation = lg.Federation.from_arrays(arrays)
    training = lg.Training(rounds=400, step_size=0.3)
    result = lg.train(federation, lg.models.linear(), lg.Focus(clusters=2), training, solo=[0.0, 0.0])
    assert max(client.gap for client in result.clients) < 0.05
