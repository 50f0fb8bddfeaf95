"""Sites behind Flower's messages train as the simulator does, also when some are away or the server stops."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
import pytest
from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

import lossgap as lg
import lossgap.flower
from conftest import made
from fake_grid import FakeGrid, jax_apps
from lossgap.algorithms.value import value
from lossgap.engine.sequential import SequentialStepper
from lossgap.flower import FairStrategy, Patience, SitesMissing, registered
from lossgap.flower.checkpoint import NAME
from lossgap.flower.messages import ALONE, TRAIN

SOLO = {"lyon": 0.4, "lille": 0.3, "metz": 0.1, "brest": 0.2}
QUICK = Patience(round=30, absence=0.2, look=0.001, again=0.01)
MODEL = lg.models.linear()
EAGLE = lg.Eagle(gap_penalty=1.0)
REWEIGHTING = [
    lg.FedAvg(weighting="size"),
    EAGLE,
    lg.Eagle(gap_penalty=3.0, lag=0),
    lg.Eagle(target_variance=0.01, normalize="sqrt-k"),
    lg.QFFL(q=2.0),
    lg.AFL(),
    lg.Gifair(),
    lg.MaxFL(),
    lg.Udj(power=2.0, desert=(1.0, 2.0, 3.0, 4.0)),
    lg.Term(),
    lg.FedDGGA(),
    lg.FedFV(alpha=0.3),
    lg.FedMGDA(),
]
LOCAL_RULES = [
    lg.FedNova(momentum=0.5),
    lg.FedProx(pull=0.5),
    lg.PropFair(ceiling=3.0),
    lg.Ditto(base=lg.Eagle(gap_penalty=1.0), pull=0.3),
]


@pytest.fixture(scope="session")
def sites() -> lg.Federation:
    """Four sites, two of each size."""
    rng = np.random.default_rng(3)
    splits = {
        name: {"train": made(rng, rows), "validation": made(rng, 8), "test": made(rng, 8)}
        for name, rows in zip(SOLO, (10, 24, 24, 10), strict=True)
    }
    return lg.Federation.from_splits(splits, classes=3)


def start(federation: lg.Federation, precision: str = "float32") -> dict[str, np.ndarray]:
    return lg.models.initial_params(MODEL, federation.features, federation.outputs, seed=0, precision=precision)


def strategy(algorithm: lg.Algorithm, training: lg.Training, **more: object) -> FairStrategy:
    return FairStrategy(algorithm, training, **{"sites": tuple(SOLO), "solo": SOLO, "patience": QUICK, **more})


def apart(one: object, other: object) -> float:
    """The largest difference between two trees."""
    return max(jax.tree.leaves(jax.tree.map(lambda p, q: float(np.abs(p - q).max()), one, other)))


@pytest.mark.parametrize("algorithm", REWEIGHTING + LOCAL_RULES, ids=str)
def test_flower_equals_the_simulator(sites: lg.Federation, algorithm: lg.Algorithm, tmp_path: Path) -> None:
    training = lg.Training(rounds=5, step_size=0.3, local_steps=2)
    # The plain twin compiles less. The compiled engine gives the same, see test_engine.py, and stands in for EAGLE.
    engine = {} if algorithm == EAGLE else {"engine": SequentialStepper.of}
    simulated = lg.train(sites, MODEL, algorithm, training, solo=list(SOLO.values()), **engine)
    method = strategy(algorithm, training)
    result = method.run(FakeGrid(jax_apps(sites, MODEL, state=tmp_path)), start(sites))
    assert apart(result.params, simulated.params) < 1e-5
    for name in ("train_loss", "validation_loss", "gap", "multiplier"):
        np.testing.assert_allclose(getattr(result.history, name), getattr(simulated.history, name), atol=1e-5)
    for row, other in zip(result.clients, simulated.clients, strict=True):
        assert vars(row) == pytest.approx(vars(other), abs=1e-5)
    assert method.incidents == ()


def test_minibatches_participation_and_double_precision_are_the_same(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(
        rounds=6, step_size=0.3, local_epochs=2, batch_size=4, precision="float64", participation=0.5, record_every=2
    )
    simulated = lg.train(sites, MODEL, EAGLE, training, solo=list(SOLO.values()), engine=SequentialStepper.of)
    result = strategy(EAGLE, training).run(FakeGrid(jax_apps(sites, MODEL, state=tmp_path)), start(sites))
    assert apart(result.params, simulated.params) < 1e-12
    assert result.history.rounds.tolist() == [0, 2, 4, 6]


def test_a_result_predicts_and_is_read_back(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    run = strategy(EAGLE, lg.Training(rounds=2, step_size=0.3))
    x = sites.clients[0].test.x
    result = run.run(grid, start(sites), model=MODEL)
    own = run.run(grid, start(sites), model=MODEL, features=(5,), outputs=3)
    labels = np.argmax(x @ result.params["kernel"] + result.params["bias"], axis=1)
    for each in (result, own, lg.load(own.save(tmp_path / "result"))):
        np.testing.assert_array_equal(each.predict(x), labels)


def test_sites_find_what_they_reach_alone_and_keep_it(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=20, step_size=0.3)
    alone = lg.train_solo(sites, MODEL, training, stop="best")
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    result = strategy(EAGLE, training, solo="best").run(grid, start(sites))
    for row, client in zip(result.clients, alone.clients, strict=True):
        assert row.solo_loss == pytest.approx(client.validation_loss, abs=1e-5)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/solo-*.safetensors")}
    assert len(files) == 4
    again = strategy(EAGLE, training, solo="best").run(FakeGrid(jax_apps(sites, MODEL, state=tmp_path)), start(sites))
    assert apart(again.params, result.params) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/solo-*.safetensors")} == files


def test_a_site_trains_alone_again_once_its_rows_have_changed(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=3, step_size=0.3)
    for name in ("train", "test"):
        clients = [client for client in sites.clients if client.name != "lyon"]
        lyon = next(client for client in sites.clients if client.name == "lyon")
        changed = type(lyon)(
            "lyon", **{s: r for s, r in lyon.splits if s != name}, **{name: lyon.split(name).take(np.arange(7))}
        )
        federation = lg.Federation((changed, *clients), classes=3)
        strategy(EAGLE, training, solo="best").run(FakeGrid(jax_apps(federation, MODEL, state=tmp_path)), start(sites))
    assert len(list((tmp_path / "lyon").glob("solo-*.safetensors"))) == 2
    assert len(list((tmp_path / "metz").glob("solo-*.safetensors"))) == 1


@value
class Damped(lg.FedAvg):
    """A method of one's own: half of every loss."""

    def local_loss(self, loss: jax.Array, params: object, start: object) -> jax.Array:
        return loss / 2


class Stopped(Exception):
    """The server's machine went away."""


def test_a_run_goes_on_where_it_stopped(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=6, step_size=0.3)
    apps = jax_apps(sites, MODEL, state=tmp_path)
    whole = strategy(EAGLE, training).run(FakeGrid(apps), start(sites))

    def stop(done: int, params: object) -> None:
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        strategy(EAGLE, training, folder=tmp_path / "run").run(FakeGrid(apps), start(sites), after_round=stop)
    # The same sites under other nodes, as after a reinstallation.
    grid = FakeGrid(apps, nodes=dict(enumerate(reversed(list(SOLO)), start=5)))
    result = strategy(EAGLE, training, folder=tmp_path / "run").run(grid, start(sites))
    assert apart(result.params, whole.params) == 0
    np.testing.assert_array_equal(result.history.gap, whole.history.gap)
    assert grid.kinds.count(TRAIN) == 3 * len(SOLO)
    assert grid.kinds.count(ALONE) == 0


def test_orders_that_the_server_did_not_take_are_sent_again(
    sites: lg.Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training, apps = lg.Training(rounds=3, step_size=0.3), jax_apps(sites, MODEL, state=tmp_path)
    whole = strategy(EAGLE, training).run(FakeGrid(apps), start(sites))
    take, calls = FakeGrid.push_messages, itertools.count()

    def push(grid: FakeGrid, messages: Iterable[Message]) -> list[str]:
        if next(calls) in (0, 3):
            raise ObjectPushError("an object", 1, "a session")
        return take(grid, messages)

    monkeypatch.setattr(FakeGrid, "push_messages", push)
    with caplog.at_level("WARNING", "flwr"):
        result = strategy(EAGLE, training).run(FakeGrid(apps), start(sites))
    assert caplog.text.count("did not take 4 orders") == 2
    assert apart(result.params, whole.params) == 0


def test_another_run_in_the_folder_is_refused(sites: lg.Federation, tmp_path: Path) -> None:
    apps, training = jax_apps(sites, MODEL, state=tmp_path), lg.Training(rounds=2, step_size=0.3)
    strategy(EAGLE, training, folder=tmp_path).run(FakeGrid(apps), start(sites))
    with pytest.raises(lg.FileError, match=r"another run: .*gap_penalty: 1.0, not 2.0"):
        strategy(lg.Eagle(gap_penalty=2.0), training, folder=tmp_path).run(FakeGrid(apps), start(sites))
    more = strategy(EAGLE, lg.Training(rounds=4, step_size=0.3), folder=tmp_path).run(FakeGrid(apps), start(sites))
    assert more.history.rounds.tolist() == [0, 1, 2, 3, 4]
    (tmp_path / NAME).write_bytes(b"cut")
    with pytest.raises(lg.FileError, match="cannot be read"):
        strategy(EAGLE, training, folder=tmp_path).run(FakeGrid(apps), start(sites))


def test_the_last_gap_of_an_absent_site_counts_until_it_is_forgotten(
    sites: lg.Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    method = lg.Eagle(gap_penalty=1.0, normalize=None, forget_after=2)
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    run = strategy(method, lg.Training(rounds=7, step_size=0.3))

    def leave(done: int, params: object) -> None:
        grid.away = {"metz"} if 2 <= done < 6 else set()

    with caplog.at_level("INFO", "flwr"):
        result = run.run(grid, start(sites), after_round=leave)
    assert "metz absent for 2 rounds\n" in caplog.text
    assert "metz absent for 3 rounds, its last gap no longer counts" in caplog.text
    gaps, absent = result.history.gap, list(SOLO).index("metz")
    assert np.isnan(gaps[2:6, absent]).all()
    assert np.isfinite(np.delete(gaps, absent, axis=1)).all()
    # In round 4 the gap that metz told in round 1 is two rounds old and still counts, in round 5 not any more.
    for t, counted in [(4, [0, 1, 2, 3]), (5, [0, 1, 3])]:
        known = np.where(np.isnan(gaps[t - 1]), gaps[1], gaps[t - 1])
        mean = known[counted].mean()
        expected = 1 + 4 * 4 / 3 * (known - np.where(np.isin(range(4), counted), known, mean).mean())
        here = [0, 1, 3]
        np.testing.assert_allclose(result.history.multiplier[t][here], expected[here], rtol=1e-4)
    assert run.session is not None
    assert run.session.carry[1].age.tolist() == [0, 0, 0, 0]


def test_whoever_is_waited_for_is_named(sites: lg.Federation, tmp_path: Path) -> None:
    apps, training = jax_apps(sites, MODEL, state=tmp_path), lg.Training(rounds=2, step_size=0.3)
    with pytest.raises(SitesMissing, match=r"Waiting for lille, brest; 2 of 4 are connected: lyon, metz"):
        strategy(EAGLE, training).run(FakeGrid(apps, away={"lille", "brest"}), start(sites))
    with pytest.raises(SitesMissing, match=r"Waiting for 2 more sites; 4 of 6"):
        strategy(EAGLE, training, sites=6).run(FakeGrid(apps), start(sites))


def test_whoever_is_away_at_the_end_is_missing_from_the_result(
    sites: lg.Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path))
    training = lg.Training(rounds=2, step_size=0.3)

    def leave(done: int, params: object) -> None:
        grid.away = {"metz"} if done == 2 else set()

    result = strategy(EAGLE, training).run(grid, start(sites), after_round=leave)
    assert [row.name for row in result.clients] == ["lyon", "lille", "brest"]
    assert np.isnan(result.history.gap[-1]).tolist() == [False, False, True, False]
    assert "The result lacks metz" in caplog.text


def test_a_round_that_nobody_answers_waits_and_then_fails(sites: lg.Federation, tmp_path: Path) -> None:
    apps, training = jax_apps(sites, MODEL, state=tmp_path), lg.Training(rounds=2, step_size=0.3)
    silent = FakeGrid(apps, change=lambda name, reply: None)
    impatient = Patience(round=0.05, absence=0.1, look=0.01, again=0.01)
    with pytest.raises(SitesMissing, match=r"needs 1 of 4 sites, and 0 answered .*'lyon' did not answer in time"):
        strategy(EAGLE, training, patience=impatient).run(silent, start(sites))
    late = iter(range(100))
    slow = FakeGrid(apps, change=lambda name, reply: reply if next(late) >= 6 else None)
    strategy(EAGLE, training, patience=Patience(round=0.05, absence=30, look=0.01, again=0.01)).run(slow, start(sites))


def test_a_method_that_needs_everyone_waits_for_everyone(sites: lg.Federation, tmp_path: Path) -> None:
    apps, training = jax_apps(sites, MODEL, state=tmp_path), lg.Training(rounds=3, step_size=0.3)
    lost = iter([True, False, True])
    flaky = FakeGrid(apps, change=lambda name, reply: None if name == "metz" and next(lost, False) else reply)
    patience = Patience(round=0.05, absence=30, look=0.01, again=0.01)
    result = strategy(lg.AFL(), training, patience=patience).run(flaky, start(sites))
    steady = strategy(lg.AFL(), training).run(FakeGrid(apps), start(sites))
    assert apart(result.params, steady.params) == 0


def test_a_site_is_who_it_was_registered_as(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = FakeGrid({})
    nodes = [NodeInfo(node_id=5, name="lyon"), NodeInfo(node_id=3, public_key=b"key"), NodeInfo(node_id=9)]
    monkeypatch.setattr(grid, "get_nodes", lambda: nodes)
    assert registered(grid) == {5: "lyon", 3: "key 2c70e12b7a06", 9: "node 9"}
    nodes.append(NodeInfo(node_id=7, name="lyon"))
    with pytest.raises(lg.SettingError, match=r"Two nodes are registered as 'lyon': \[5, 7\]"):
        registered(grid)


def test_a_method_of_ones_own_brings_its_local_steps(sites: lg.Federation, tmp_path: Path) -> None:
    training = lg.Training(rounds=2, step_size=0.3, local_steps=2)
    with pytest.raises(SitesMissing, match=r"local steps of Damped, which this site does not know.*rules="):
        strategy(Damped(), training).run(FakeGrid(jax_apps(sites, MODEL, state=tmp_path)), start(sites))
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path, rules=[Damped]))
    result = strategy(Damped(), training).run(grid, start(sites))
    simulated = lg.train(sites, MODEL, Damped(), training, solo=list(SOLO.values()), engine=SequentialStepper.of)
    assert apart(result.params, simulated.params) < 1e-6


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(lg.SettingError, match=r"pip install 'lossgap\[flower\]'"):
        lossgap.flower.FairStrategy  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sites": 1}, "Name at least two"),
        ({"quorum": 0}, "at least 1"),
        ({"solo": {"lyon": 0.1}}, "no loss for lille"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    sites: lg.Federation, tmp_path: Path, settings: dict, match: str
) -> None:
    with pytest.raises(lg.SettingError, match=match):
        strategy(EAGLE, lg.Training(rounds=1), **settings).run(
            FakeGrid(jax_apps(sites, MODEL, state=tmp_path)), start(sites)
        )
