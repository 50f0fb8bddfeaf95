"""Sites that lie or are broken: what they say is refused with their name, and what they can do is bounded."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message

import lossgap as lg
from fake_grid import FakeGrid, jax_apps
from lossgap.flower import Limits, SitesMissing
from lossgap.flower.messages import ALONE, TRAIN
from test_flower import EAGLE, MODEL, QUICK, SOLO, apart, sites, start, strategy

__all__ = ["sites"]  # a fixture

TRAINING = lg.Training(rounds=3, step_size=0.3)
Lie = Callable[[Message], None]


def says(**metrics: float | None) -> Lie:
    """Metrics other than the site's own; None leaves one out."""

    def lie(reply: Message) -> None:
        record = reply.content.metric_records["metrics"]
        for name, value in metrics.items():
            key = name.replace("_", "-")
            del record[key]
            if value is not None:
                record[key] = value

    return lie


def sends(change: Callable[[np.ndarray], np.ndarray]) -> Lie:
    """Another kernel than the site's own."""

    def lie(reply: Message) -> None:
        arrays = dict(reply.content.array_records["arrays"].items())
        arrays["kernel"] = Array(change(arrays["kernel"].numpy()))
        reply.content.array_records["arrays"] = ArrayRecord(arrays)

    return lie


def nameless(reply: Message) -> None:
    arrays = dict(reply.content.array_records["arrays"].items())
    reply.content.array_records["arrays"] = ArrayRecord({"backdoor": arrays["kernel"], "bias": arrays["bias"]})


def nothing(reply: Message) -> None:
    del reply.content["metrics"]


LIES = {
    "its validation-loss is nan": says(validation_loss=float("nan")),
    "its validation-loss is inf": says(validation_loss=float("inf")),
    "its validation-loss is 1e.09, which is outside 0 … 1e.06": says(validation_loss=1e9),
    "its train-loss is -5, which is outside": says(train_loss=-5.0),
    "its train-loss is missing": says(train_loss=None),
    "its train-loss is no number": says(train_loss=[1.0, 2.0]),
    "its number of rows is -10": says(rows=-10),
    "its number of steps is 0.5": says(steps=0.5),
    r"its kernel is float32\[3, 5\], and should be float32\[5, 3\]": sends(np.transpose),
    r"its kernel is int64\[5, 3\]": sends(lambda kernel: kernel.astype(np.int64)),
    "its kernel holds numbers that are not finite": sends(lambda kernel: kernel * np.nan),
    "its step has length .* 10 is the most": sends(lambda kernel: kernel + 1e6),
    "its parameters are backdoor, bias, and bias, kernel were asked for": nameless,
    "its answer holds no metrics": nothing,
}


def lying(lie: Lie, kind: str = TRAIN) -> Callable[[str, Message], Message]:
    def change(name: str, reply: Message) -> Message:
        if name == "metz" and reply.metadata.message_type == kind:
            lie(reply)
        return reply

    return change


@pytest.fixture(scope="module")
def without_metz(sites: lg.Federation, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The model of a run in which the liar never answers."""
    grid = FakeGrid(
        jax_apps(sites, MODEL, state=tmp_path_factory.mktemp("sites")),
        change=lambda name, reply: None if name == "metz" and reply.metadata.message_type == TRAIN else reply,
    )
    from lossgap.flower import Patience

    return strategy(EAGLE, TRAINING, patience=Patience(round=0.3, look=0.01)).run(grid, start(sites)).params


@pytest.mark.parametrize("what", LIES, ids=str)
def test_a_lie_is_refused_and_its_site_named(
    sites: lg.Federation, without_metz: dict, what: str, tmp_path: Path
) -> None:
    run = strategy(EAGLE, TRAINING, limits=Limits(step=10.0))
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path), change=lying(LIES[what]))
    result = run.run(grid, start(sites))
    assert [(each.round, each.site) for each in run.incidents] == [(0, "metz"), (1, "metz"), (2, "metz")]
    with pytest.raises(AssertionError, match=what):
        raise AssertionError(run.incidents[0].what)
    assert apart(result.params, without_metz) == 0  # a refused answer counts for nothing


def test_a_run_that_refuses_everybody_says_why(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(
        jax_apps(sites, MODEL, state=tmp_path),
        change=lambda name, reply: (says(rows=0)(reply), reply)[1] if reply.metadata.message_type == TRAIN else reply,
    )
    with pytest.raises(SitesMissing, match=r"'lyon' its number of rows is 0; 'lille' its number of rows is 0"):
        strategy(EAGLE, TRAINING, patience=QUICK).run(grid, start(sites))


def test_an_absurd_loss_alone_is_refused(sites: lg.Federation, tmp_path: Path) -> None:
    grid = FakeGrid(jax_apps(sites, MODEL, state=tmp_path), change=lying(says(solo_loss=-3.0), ALONE))
    with pytest.raises(SitesMissing, match="'metz' its solo-loss is -3, which is outside 0"):
        strategy(EAGLE, TRAINING, solo="best").run(grid, start(sites))


def test_a_site_that_suddenly_claims_to_be_better_alone_is_reported(sites: lg.Federation, tmp_path: Path) -> None:
    apps = jax_apps(sites, MODEL, state=tmp_path)
    honest = strategy(EAGLE, TRAINING, solo="best").run(FakeGrid(apps), start(sites))
    run = strategy(EAGLE, TRAINING, solo="best")
    result = run.run(FakeGrid(apps, change=lying(says(solo_loss=0.001))), start(sites))
    assert [each.site for each in run.incidents] == ["metz"] * 3
    assert "now claims to reach a loss of 0.001 alone, and said" in run.incidents[0].what
    assert apart(result.params, honest.params) == 0  # what it said first counts


def test_a_site_that_lost_what_it_kept_goes_on(sites: lg.Federation, tmp_path: Path) -> None:
    def lose(done: int, params: object) -> None:
        for path in tmp_path.glob("metz/solo-*"):
            path.unlink()

    apps = jax_apps(sites, MODEL, state=tmp_path)
    whole = strategy(EAGLE, TRAINING, solo="best").run(FakeGrid(apps), start(sites))
    run = strategy(EAGLE, TRAINING, solo="best")
    result = run.run(FakeGrid(apps), start(sites), after_round=lose)
    assert run.incidents == ()
    assert apart(result.params, whole.params) == 0


def test_a_site_with_another_step_size_is_told_so(sites: lg.Federation, tmp_path: Path) -> None:
    from lossgap.engine.learner import JaxLearner
    from lossgap.flower import client_app

    apps = {
        client.name: client_app(JaxLearner.of(client, MODEL, lg.Training(step_size=9.0)), state=tmp_path)
        for client in sites.clients
    }
    with pytest.raises(SitesMissing, match=r"'lyon' .*step_size=9.0 here and 0.3 at the server"):
        strategy(EAGLE, TRAINING).run(FakeGrid(apps), start(sites))


def test_multiplier_range_bounds_a_liars_influence(sites: lg.Federation, tmp_path: Path) -> None:
    apps, lie = jax_apps(sites, MODEL, state=tmp_path), lying(says(validation_loss=1000.0))
    liar = list(SOLO).index("metz")
    for bounds in (None, (0.0, 0.75)):
        method = lg.Eagle(gap_penalty=1.0, multiplier_range=bounds)
        history = strategy(method, TRAINING).run(FakeGrid(apps, change=lie), start(sites)).history
        others = np.delete(history.multiplier[1:], liar, axis=1)
        if bounds is None:
            assert (others < -0.2).all()  # the others' models are driven uphill
            assert (history.multiplier[1:, liar] > 0.8).all()
        else:
            assert (history.multiplier >= 0).all()
            assert (history.multiplier[1:, liar] <= 0.75).all()
