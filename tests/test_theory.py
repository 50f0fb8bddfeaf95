"""The theory: its lemmas as properties, its constants by hand, its algorithm beside the one that trains."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import lossgap as lg
from lossgap import theory
from lossgap.algorithms.eagle import gap_multipliers
from lossgap.engine.curvature import smoothness
from lossgap.theory.bounds import drift_share, slope
from lossgap.theory.room import descends, room, settles
from lossgap.theory.start import gradient_bounds
from lossgap.theory.trajectory import row_squares

FEATURES, CLASSES = 3, 3
RUN = {"step_size": 0.5, "rounds": 4, "local_steps": 2, "clients": 4, "decrease": 3.0}
often = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)
penalties = st.sampled_from([0.05, 0.3, 1.0, 4.0])
scales = st.sampled_from([0.3, 1.0, 3.0])


def federation(seed: int, *, scale: float = 1.0, rows: int = 6, clients: int = 3) -> lg.Federation:
    """Clients whose rows have nothing to do with each other."""
    rng = np.random.default_rng(seed)

    def made() -> tuple[np.ndarray, np.ndarray]:
        x = scale * rng.normal(size=(rows, FEATURES)) + rng.normal(size=FEATURES)
        return x, np.append(rng.integers(0, CLASSES, rows - 2), [0, 1])

    names = [f"site {k}" for k in range(clients)]
    return lg.Federation.from_splits(
        {name: {"train": made(), "validation": made(), "test": made()} for name in names}, classes=CLASSES
    )


def problem(seed: int, **shape: float) -> theory.Problem:
    """A random problem, with random numbers for what clients reach alone: the lemmas hold for any."""
    rng = np.random.default_rng([seed, 1])
    fed = federation(seed, **shape)
    return theory.Problem.of(fed, lg.models.linear(), solo=rng.uniform(0, 1, len(fed.clients)).tolist(), seed=seed)


def somewhere(seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 2])
    return {"kernel": scale * rng.normal(size=(FEATURES, CLASSES)), "bias": scale * rng.normal(size=CLASSES)}


def flat(tree: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def gaps_at(p: theory.Problem, params: dict[str, np.ndarray]) -> np.ndarray:
    return p.landscape(params, 1.0).losses - np.asarray(p.arrays.solo_losses)


def client_norms(p: theory.Problem, params: dict[str, np.ndarray]) -> np.ndarray:
    """‖∇L_k‖, [client]."""
    leaves = p.landscape(params, 1.0).gradients.values()
    return np.sqrt(sum(np.square(g).reshape(p.clients, -1).sum(axis=1) for g in leaves))


def all_row_norms(p: theory.Problem, params: dict[str, np.ndarray]) -> np.ndarray:
    """‖∇ℓ_i‖, [client, row]."""
    with jax.enable_x64(True):
        rows = p.arrays.rows
        return np.sqrt(_row_squares(p.model, params, rows.x, rows.y))


_row_squares = jax.jit(jax.vmap(row_squares, (None, None, 0, 0)), static_argnums=0)


def curvatures(p: theory.Problem, params: dict[str, np.ndarray], penalty: float) -> dict[str, np.ndarray]:
    """The spectral norms of Hessians at one θ, by whose they are."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _curvatures(p.arrays, params, penalty))


@jax.jit
def _curvatures(arrays: theory.problem.Arrays, params: dict[str, jax.Array], penalty: float) -> dict[str, jax.Array]:
    point, unravel = ravel_pytree(params)
    rows, solo = arrays.rows, arrays.solo_losses

    def losses(v: jax.Array) -> jax.Array:
        return jax.vmap(arrays.model.batch_loss, (None, 0, 0, 0))(unravel(v), rows.x, rows.y, rows.share)

    def as_printed(v: jax.Array) -> jax.Array:
        r = losses(v) - solo
        return losses(v) + penalty / (len(r) - 1) * jnp.square(r[:, None] - r).sum(axis=1)

    def as_applied(v: jax.Array) -> jax.Array:
        return gap_multipliers(losses(v) - solo, penalty)[:, None] * jax.jacobian(losses)(v)

    def norms(matrices: jax.Array) -> jax.Array:
        return jnp.linalg.norm(matrices, 2, axis=(-2, -1))

    printed = jax.hessian(as_printed)(point)
    return {
        "F_k as printed": norms(printed),
        "w_k ∇L_k": norms(jax.jacobian(as_applied)(point)),
        "F": norms(printed.mean(axis=0)[None]),
        "L_k": norms(jax.hessian(losses)(point)),
    }


class TestByHand:
    CONSTANTS = theory.Constants(smoothness=1.0, gradient_bound=1.0, spread=1.0, noise=2.0)

    def test_smoothness_and_step(self) -> None:
        assert theory.multiplier_bound(self.CONSTANTS, 0.25) == 2
        assert theory.multiplier_lipschitz(self.CONSTANTS, 0.25) == 2
        assert theory.objective_smoothness(self.CONSTANTS, 0.25) == 4
        assert theory.safe_step(self.CONSTANTS, 0.25) == 0.25

    def test_theorem_1(self) -> None:
        bound = theory.parity_bound(self.CONSTANTS, 0.25, **RUN)
        assert bound.start == 2 * 3 / 4
        assert bound.drift == 0.25 * 4 * (8 * 4 * (4 + 2))  # η²I²ξ₁
        assert bound.noise == 0.5 * (4 / 4) * 16  # ησ²/K ξ₂
        assert bound.total == bound.start + bound.drift + bound.noise

    def test_theorem_2(self) -> None:
        bound = theory.utility_bound(self.CONSTANTS, 0.25, **RUN)
        assert bound.drift == 8 * 0.25 * 4 * 4
        assert bound.noise == 0.5 * (4 / 4) * 4
        assert bound.fairness == 32 / 16 == theory.utility_loss(self.CONSTANTS, 0.25)
        assert theory.utility_loss(self.CONSTANTS, 0.25, pl=0.5) == 2.0  # divided by 2μ, where the paper multiplies

    def test_without_penalty_only_fedavg_is_left(self) -> None:
        assert theory.objective_smoothness(self.CONSTANTS, 0.0) == 1
        assert theory.utility_bound(self.CONSTANTS, 0.0, **RUN).fairness == 0

    @pytest.mark.parametrize("local_steps", [1, 2, 7])
    def test_drift_share_is_the_mean_of_squares(self, local_steps: int) -> None:
        assert drift_share(local_steps) == pytest.approx(np.mean((np.arange(local_steps) / local_steps) ** 2))

    def test_slope_of_a_power(self) -> None:
        T = np.array([10.0, 100.0, 1000.0])
        assert slope(T, 3 / np.sqrt(T)) == pytest.approx(-0.5)


@often
@given(seed=seeds, penalty=penalties, scale=scales)
def test_lemma_1_multipliers_are_bounded(seed: int, penalty: float, scale: float) -> None:
    p = problem(seed)
    gaps = gaps_at(p, somewhere(seed, scale))
    constants = theory.Constants(smoothness=0, gradient_bound=0, spread=float(np.ptp(gaps)))
    with jax.enable_x64(True):
        multipliers = np.asarray(gap_multipliers(jnp.asarray(gaps), penalty))
    assert np.abs(multipliers).max() <= theory.multiplier_bound(constants, penalty) * (1 + 1e-12)


@often
@given(seed=seeds, penalty=penalties, scale=scales)
def test_lemma_1_multipliers_are_lipschitz(seed: int, penalty: float, scale: float) -> None:
    p, here, there = problem(seed), somewhere(seed, scale), somewhere(seed + 1, scale)
    B = float(gradient_bounds(p.federation).max())
    change = np.abs(p.landscape(here, penalty).multipliers - p.landscape(there, penalty).multipliers).max()
    constants = theory.Constants(smoothness=0, gradient_bound=B, spread=0)
    assert change <= theory.multiplier_lipschitz(constants, penalty) * np.linalg.norm(flat(here) - flat(there))


@often
@given(seed=seeds, penalty=penalties, scale=scales)
def test_lemma_2_batches_and_rows_keep_their_gradient_bounds(seed: int, penalty: float, scale: float) -> None:
    p, here = problem(seed), somewhere(seed, scale)
    assert (all_row_norms(p, here) <= gradient_bounds(p.federation, batches=True)[:, None]).all()
    assert (client_norms(p, here) <= gradient_bounds(p.federation)).all()


@often
@given(seed=seeds, penalty=penalties, scale=scales)
def test_lemma_3_every_reading_of_f_k_is_smooth(seed: int, penalty: float, scale: float) -> None:
    """The paper's F_k and the gradient field w_k ∇L_k are two things; the constant serves both, and their mean F."""
    p, here = problem(seed), somewhere(seed, scale)
    constants = theory.Constants(
        smoothness=float(p.smoothness.max()),
        gradient_bound=float(client_norms(p, here).max()),
        spread=float(np.ptp(gaps_at(p, here))),
    )
    bends = curvatures(p, here, penalty)
    for reading in ("F_k as printed", "w_k ∇L_k", "F"):
        assert bends[reading].max() <= theory.objective_smoothness(constants, penalty) * (1 + 1e-9)
    assert (bends["L_k"] <= p.smoothness * (1 + 1e-9)).all()


@often
@given(seed=seeds, penalty=penalties, scale=scales)
def test_the_level_set_bounds_what_happens_on_it(seed: int, penalty: float, scale: float) -> None:
    p, here = problem(seed), somewhere(seed, scale)
    beta, F = float(p.smoothness.max()), float(p.landscape(here, penalty).objective)
    constants = theory.level_set_constants(beta, penalty, F, p.clients)
    assert client_norms(p, here).max() <= constants.gradient_bound
    assert np.ptp(gaps_at(p, here)) <= constants.spread
    bend = curvatures(p, here, penalty)["F"].max()
    assert bend <= theory.level_set_smoothness(beta, penalty, F, p.clients) * (1 + 1e-9)


@often
@given(seed=seeds, radius=st.sampled_from([0.1, 1.0, 10.0]))
def test_gaps_within_a_ball_differ_as_little_as_promised(seed: int, radius: float) -> None:
    p, centre = problem(seed), somewhere(seed)
    step = somewhere(seed + 1)
    length = np.linalg.norm(flat(step))
    there = jax.tree.map(lambda c, s: c + radius * s / length, centre, step)
    bound = theory.spread_on_ball(float(np.ptp(gaps_at(p, centre))), gradient_bounds(p.federation), radius)
    assert np.ptp(gaps_at(p, there)) <= bound


def test_the_objective_and_its_gradient_belong_together() -> None:
    p, here = problem(3), somewhere(3)
    with jax.enable_x64(True):
        numerical = jax.grad(lambda params: p.arrays.landscape(params, 2.0).objective)(jax.tree.map(jnp.asarray, here))
        stated = p.arrays.landscape(jax.tree.map(jnp.asarray, here), 2.0).objective_gradient
    np.testing.assert_allclose(flat(numerical), flat(stated), rtol=1e-10)


def test_smoothness_in_closed_form_is_what_power_iteration_finds_for_squared_error() -> None:
    rng = np.random.default_rng(0)
    arrays = {name: (rng.normal(size=(20, 4)), rng.normal(size=20)) for name in "ab"}
    fed = lg.Federation.from_arrays(arrays)
    params = {"kernel": np.zeros((4, 1)), "bias": np.zeros(1)}
    unknown = lg.Model(lg.models.linear().init, lg.models.linear().apply)
    with jax.enable_x64(True):
        closed, iterated = (smoothness(fed, model, params) for model in (lg.models.linear(), unknown))
    np.testing.assert_allclose(closed, iterated, rtol=0.02)


class TestWalk:
    """The walk that is measured is the algorithm that trains."""

    @pytest.mark.parametrize(
        ("local_steps", "batch_size", "reshuffle"), [(3, None, False), (1, 4, False), (3, 4, True)]
    )
    def test_it_ends_where_eagle_ends(self, local_steps: int, batch_size: int | None, reshuffle: bool) -> None:
        fed, solo = federation(5, rows=10), [0.3, 0.5, 0.7]
        p = theory.Problem.of(fed, lg.models.linear(), solo=solo, seed=1)
        work = {"local_steps": local_steps, "batch_size": batch_size}
        training = lg.Training(rounds=20, step_size=0.05, precision="float64", gap_split="train", **work)
        eagle = lg.Eagle(gap_penalty=1.0, normalize=None, lag=0)
        trained = lg.train(fed, lg.models.linear(), eagle, training, solo=solo, seed=1)
        path = theory.walk(p, penalty=1.0, step_size=0.05, rounds=20, reshuffle=reshuffle, **work)
        np.testing.assert_allclose(flat(path.end), flat(trained.params), rtol=1e-8)
        gaps = trained.history.gap[:-1]
        np.testing.assert_allclose(path.seen.spread[:, 0], np.ptp(gaps, axis=1), rtol=1e-8)

    def test_noise_is_the_variance_over_all_batches(self) -> None:
        p = problem(8, rows=5)
        path = theory.walk(p, penalty=1.0, step_size=0.01, rounds=1, batch_size=2)
        variances = []
        for rows in p.federation.splits("train"):

            def gradient(index: list[int], rows: lg.Split = rows) -> np.ndarray:
                share = jnp.full(len(index), 1 / len(index))
                x, y = jnp.asarray(rows.x[index]), jnp.asarray(rows.y[index])
                return flat(jax.grad(p.model.batch_loss)(p.arrays.start, x, y, share))

            with jax.enable_x64(True):
                every = np.array([gradient(list(pair)) for pair in combinations(range(5), 2)])
            variances.append(np.square(every - every.mean(axis=0)).sum(axis=1).mean())
        assert path.seen.noise[0, 0] == pytest.approx(max(variances), rel=1e-6)

    def test_one_step_of_all_rows_has_neither_drift_nor_noise(self) -> None:
        path = theory.walk(problem(2), penalty=1.0, step_size=0.01, rounds=5)
        assert path.seen.apart.max() < 1e-25  # but for rounding
        assert not path.seen.noise.any()
        assert path.seen.error.max() < 1e-25

    def test_rows_of_any_model_have_gradients(self) -> None:
        p = problem(4)
        other = lg.Model(lg.models.linear().init, lg.models.linear().apply)
        with jax.enable_x64(True):
            x, y = p.arrays.rows.x[0], p.arrays.rows.y[0]
            squares = [row_squares(model, p.arrays.start, x, y) for model in (lg.models.linear(), other)]
        np.testing.assert_allclose(*squares, rtol=1e-10)


class TestTheorems:
    """A thin slice of the grid in test_theory_grid.py."""

    @pytest.mark.parametrize("penalty", [0.1, 2.0])
    @pytest.mark.parametrize(("local_steps", "batch_size"), [(1, None), (4, 10)])
    def test_bounds_hold(self, penalty: float, local_steps: int, batch_size: int | None) -> None:
        p = theory.Problem.of(lg.datasets.synthetic(seed=0), lg.models.linear())
        found = theory.check(p, penalty=penalty, rounds=100, local_steps=local_steps, batch_size=batch_size)
        assert found.covered
        assert found.holds
        assert found.sharp_parity.total <= found.parity.total
        assert found.measured_parity <= found.sharp_parity.total

    def test_a_factor_of_two_is_all_that_small_full_steps_lose(self) -> None:
        p = theory.Problem.of(lg.datasets.synthetic(seed=0), lg.models.linear())
        found = theory.check(p, penalty=1.0, rounds=100, step_size=1e-5)
        assert found.sharp_parity.total / found.measured_parity == pytest.approx(2, rel=1e-2)

    def test_lemma_4_clients_stay_together(self) -> None:
        found = theory.check(problem(1), penalty=1.0, rounds=30, local_steps=5, batch_size=2)
        m, B = theory.multiplier_bound(found.constants, 1.0), found.constants.gradient_bound
        tau = np.arange(5)
        assert (found.path.seen.apart <= 4 * found.step_size**2 * tau**2 * m**2 * B**2 + 1e-25).all()

    def test_a_step_too_large_is_said_to_be(self) -> None:
        found = theory.check(problem(1), penalty=1.0, rounds=5, step_size=10.0)
        assert not found.covered
        assert "too large for the theorems" in str(found)

    def test_up_to_is_the_run_cut_short(self) -> None:
        whole = theory.check(problem(1), penalty=1.0, rounds=9, step_size=0.001)
        short = theory.check(problem(1), penalty=1.0, rounds=4, step_size=0.001)
        assert whole.up_to(4).measured_parity == pytest.approx(short.measured_parity)
        assert whole.up_to(4).path.end_objective == pytest.approx(short.path.end_objective)


class TestSafeStep:
    @often
    @given(seed=seeds, penalty=penalties, scale=scales)
    def test_every_step_lowers_the_objective_and_keeps_to_the_level_set(
        self, seed: int, penalty: float, scale: float
    ) -> None:
        p = problem(seed, scale=scale)
        eagle = lg.Eagle(gap_penalty=penalty, normalize=None, lag=0)
        solo = np.asarray(p.arrays.solo_losses)
        training = lg.Training(gap_split="train", precision="float64")
        step = theory.safe_step_size(p.federation, p.model, eagle, p.arrays.start, solo, training)
        path = theory.walk(p, penalty=penalty, step_size=step, rounds=50)
        assert descends(path)
        assert settles(path)
        F = float(path.seen.objective[0, 0])
        constants = theory.level_set_constants(float(p.smoothness.max()), penalty, F, p.clients)
        assert path.seen.spread.max() <= constants.spread
        assert path.seen.largest_gradient.max() <= constants.gradient_bound

    def test_room_counts_doublings(self) -> None:
        p = problem(0)
        most = room(p, penalty=1.0, step_size=1e-4, rounds=50)
        assert most >= 2
        assert not settles(theory.walk(p, penalty=1.0, step_size=2e-4 * most, rounds=50))

    @pytest.mark.parametrize("normalize", ["unit", None])
    def test_training_takes_it(self, normalize: str | None) -> None:
        fed, training = lg.datasets.synthetic(seed=0), lg.Training(rounds=50, step_size="safe", gap_split="train")
        eagle = lg.Eagle(gap_penalty=1.0, normalize=normalize, lag=0)
        result = lg.train(fed, lg.models.linear(), eagle, training, solo=[0.0, 0.5, 0.6])
        mean, gaps = result.history.train_loss.mean(axis=1), result.history.gap
        objective = mean + 2 * gaps.var(axis=1, ddof=1)
        assert (np.diff(objective) <= 1e-6).all()
        assert 0 < result.training.step_size < 1

    def test_each_setting_has_a_step_of_its_own(self) -> None:
        fed, training = lg.datasets.synthetic(seed=0), lg.Training(rounds=5, step_size="safe")
        methods = [lg.Eagle(gap_penalty=0.1), lg.Eagle(gap_penalty=5.0)]
        together = lg.train_many(fed, lg.models.linear(), methods, training)
        alone = [lg.train(fed, lg.models.linear(), method, training) for method in methods]
        assert [r.training for r in together] == [r.training for r in alone]
        assert together[0].training.step_size > together[1].training.step_size

    def test_without_penalty_it_is_one_over_the_smoothness(self) -> None:
        fed, model = lg.datasets.synthetic(seed=0), lg.models.linear()
        p = theory.Problem.of(fed, model, solo=[0, 0, 0])
        for method in (lg.FedAvg(), lg.Eagle(gap_penalty=0.0, normalize=None)):
            step = theory.safe_step_size(
                fed, model, method, p.arrays.start, np.zeros(3), lg.Training(precision="float64")
            )
            assert step == pytest.approx(1 / p.smoothness.max())

    def test_frozen_multipliers_can_make_the_theorems_own_step_diverge(self) -> None:
        """They ask for 1/β_F however many local steps; a client with a negative multiplier climbs all the while."""
        rng = np.random.default_rng(1)
        x, y = 3 * rng.normal(size=(8, 2)), np.arange(8) % 2
        splits = {"train": (x, y), "validation": (x, y), "test": (x, y)}
        flipped = dict.fromkeys(splits, (x, 1 - y))
        fed = lg.Federation.from_splits({"this": splits, "that": flipped}, classes=2)
        p = theory.Problem.of(fed, lg.models.linear(), solo=[0.0, 5.0])
        eagle, training = (
            lg.Eagle(gap_penalty=5.0, normalize=None, lag=0),
            lg.Training(local_steps=200, precision="float64"),
        )
        solo = np.array([0.0, 5.0])
        safe = theory.safe_step_size(fed, p.model, eagle, p.arrays.start, solo, training)
        ends = [
            theory.walk(p, penalty=5.0, step_size=step, rounds=20, local_steps=200).end_objective
            for step in (safe, 200 * safe)
        ]
        start = float(p.landscape(p.arrays.start, 5.0).objective)
        assert ends[0] <= start < 5 * start < ends[1]

    def test_clients_alone_take_it_too(self) -> None:
        fed = lg.datasets.synthetic(seed=0)
        solo = lg.train_solo(fed, lg.models.linear(), lg.Training(rounds=300, step_size="safe", gap_split="train"))
        assert all(np.isfinite(client.train_loss) for client in solo.clients)

    def test_a_moving_penalty_has_none(self) -> None:
        training = lg.Training(rounds=5, step_size="safe")
        with pytest.raises(lg.SettingError, match="fixed λ"):
            lg.train(lg.datasets.synthetic(), lg.models.linear(), lg.Eagle(target_variance=0.1), training, solo=[0] * 3)

    def test_sites_of_their_own_need_a_number(self) -> None:
        with pytest.raises(lg.SettingError, match=r"lossgap\.train"):
            _ = lg.Training(step_size="safe").step

    def test_a_diverged_run_is_told_of_it(self) -> None:
        fed, model = lg.datasets.synthetic(seed=0), lg.models.linear()
        eagle = lg.Eagle(gap_penalty=5.0, normalize=None)
        with pytest.raises(lg.DivergedError, match='step_size="safe", which is ') as stop:
            lg.train(fed, model, eagle, lg.Training(rounds=2000, step_size=5.0), solo=[0, 0.5, 0.6])
        told = float(str(stop.value).split("which is ")[1].split(" ")[0])
        safe = lg.train(fed, model, eagle, lg.Training(rounds=300, step_size="safe"), solo=[0, 0.5, 0.6])
        assert told == pytest.approx(safe.training.step_size, rel=0.05)


def test_solo_losses_must_be_as_many_as_clients() -> None:
    with pytest.raises(lg.SettingError, match="2 losses for 3 clients"):
        theory.Problem.of(lg.datasets.synthetic(), lg.models.linear(), solo=[0.0, 0.0])
