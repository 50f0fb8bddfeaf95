"""A site's side: a learner that answers the server's orders."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from lossgap.algorithms.base import LocalRule, Params
from lossgap.engine.answers import Losses, answer
from lossgap.engine.cache import keep_programs
from lossgap.engine.learner import Learner
from lossgap.errors import LossgapError, require
from lossgap.flower.messages import ARRAYS, CONFIG, METRICS, arranged, by_path, told, unpacked
from lossgap.flower.rules import followed
from lossgap.flower.solo import has_kept, kept, solo_loss, state_folder
from lossgap.learners.training import client_row
from lossgap.training import Training

MakeLearner = Callable[[Context, Training], Learner]
"""Makes a site's learner, given its node's context and the training that the server wants."""


def client_app(
    learner: Learner | MakeLearner,
    *,
    state: str | Path | None = None,
    mods: Sequence[Any] = (),
    rules: Sequence[type] = (),
    private: bool = False,
) -> ClientApp:
    """The app of one site.

    Args:
        learner: what trains on the site's rows, with the step size that the server's `Training` has; or
            `make(context, training)`, which makes one as the server wants it. Every message may start a new process,
            so it should be quick to make.
        state: a folder of the site's own, for its best loss alone and compiled programs. By default `lossgap-state`
            of the node's configuration, then LOSSGAP_STATE, then ~/.local/state/lossgap.
        mods: Flower's modifiers of training messages, such as `fixedclipping_mod` or a `LocalDpMod`.
        rules: classes of methods of your own that change local steps.
        private: take part in `lossgap.flower.train_privately` only, in which nobody learns this site's gap, losses or
            update, and answer nothing else.
    """
    site = Site(learner, None if state is None else Path(state), tuple(rules))
    app = ClientApp()
    app.query("hello")(site.hello)
    if private:
        from flwr.client.mod import secaggplus_mod  # imported late: only here is Flower's cryptography needed

        from lossgap.flower.secret import secret_training

        app.query("alone")(site.alone_in_private)
        app.train(mods=[secaggplus_mod, *mods])(secret_training(site))
        return app
    app.train(mods=list(mods))(site.train)
    app.evaluate()(site.evaluate)
    app.query("measure")(site.measure)
    app.query("walk")(site.walk)
    app.query("alone")(site.alone)
    return app


@dataclass(frozen=True)
class Order:
    """What the server asks for, as a site understands it."""

    learner: Learner
    training: Training
    params: Params
    paths: tuple[str, ...]  # of the parameters, as they came
    config: dict[str, Any]
    rule: LocalRule
    folder: Path

    @property
    def round(self) -> int:
        return int(self.config["round"])


@dataclass(frozen=True)
class Site:
    """Answers orders with a learner."""

    learner: Learner | MakeLearner
    state: Path | None
    rules: tuple[type, ...]

    def train(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, _train)

    def measure(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, _measure)

    def walk(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, _walk)

    def alone(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, _alone)

    def alone_in_private(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, alone_in_private)

    def evaluate(self, message: Message, context: Context) -> Message:
        return self._answered(message, context, _evaluate)

    def hello(self, message: Message, context: Context) -> Message:
        """Which part of a simulated federation this is; real sites are known by their registration."""
        return Message(told({"partition": int(context.node_config.get("partition-id", -1))}), reply_to=message)

    def _answered(self, message: Message, context: Context, work: Callable[[Order], RecordDict]) -> Message:
        try:
            with self.order(message.content, context) as order:
                return Message(work(order), reply_to=message)
        except LossgapError as problem:
            # As an error with its own words; otherwise the server would see a stack trace.
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(problem)), reply_to=message)

    @contextmanager
    def order(self, content: RecordDict, context: Context) -> Iterator[Order]:
        """What an order says, in the precision that it asks for."""
        config = dict(content.config_records[CONFIG])
        training = Training(**json.loads(str(config["training"])))
        folder = state_folder(self.state, context)
        keep_programs(folder)
        with jax.enable_x64(training.precision == "float64"):
            learner = self._learner(context, training)
            records = content.array_records

            def tree(name: str) -> Params:
                return arranged(unpacked(records[name]), learner)

            rule = followed(json.loads(str(config.get("rule", "{}"))), tree, self.rules)
            yield Order(learner, training, tree(ARRAYS), tuple(records[ARRAYS]), config, rule, folder)

    def _learner(self, context: Context, training: Training) -> Learner:
        given: Any = self.learner
        learner: Learner = given if hasattr(given, "fit") else given(context, training)
        own = getattr(learner, "training", training)
        differing = [
            f"{name}={getattr(own, name)!r} here and {getattr(training, name)!r} at the server"
            for name in ("step_size", "precision")
            if getattr(own, name) != getattr(training, name)
        ]
        require(
            not differing,
            f"Site {learner.name!r} trains otherwise than the server says: {', '.join(differing)}.",
            "Give both the same Training, or client_app a function that makes the learner from it.",
        )
        return learner


def _train(order: Order) -> RecordDict:
    multiplier = jnp.asarray(order.config["multiplier"], order.training.precision)
    said = answer(order.learner, order.params, multiplier, round=order.round, rule=order.rule)
    counts = {"rows": said.rows, "steps": said.steps, "loss-after": said.loss_after}
    return _arrived(order, said.update, {**_losses(said.losses), **counts, **_solo(order)})


def _measure(order: Order) -> RecordDict:
    return told({**_losses(Losses.of(order.learner, order.params)), **_solo(order)})


def _walk(order: Order) -> RecordDict:
    return _arrived(order, order.learner.fit(order.params, jnp.ones(()), round=order.round, rule=order.rule), {})


def _arrived(order: Order, update: Params, metrics: dict[str, float]) -> RecordDict:
    """θ_k = θ − Δ_k, its arrays in the order in which θ came."""
    arrived = by_path(jax.tree.map(lambda p, u: np.asarray(p - np.asarray(u), p.dtype), order.params, update))
    arrays = ArrayRecord({path: Array(arrived[path]) for path in order.paths})
    return RecordDict({ARRAYS: arrays, METRICS: MetricRecord(dict[str, Any](metrics))})


def _alone(order: Order) -> RecordDict:
    rounds, stop = int(order.config["rounds"]), order.config["stop"]
    solo = solo_loss(order.learner, order.params, order.training, rounds=rounds, stop=stop, folder=order.folder)
    metrics = {"solo-loss": solo.of(order.training), "rounds": solo.rounds, "converged": int(solo.converged)}
    return told(metrics, solo=solo.key)


def alone_in_private(order: Order) -> RecordDict:
    """The same, and the loss stays here."""
    return told({}, solo=str(_alone(order).config_records[CONFIG]["solo"]))


def _evaluate(order: Order) -> RecordDict:
    row = client_row(order.learner, order.params, float(order.config["solo-loss"]), order.training)
    return told({name: number for name, number in asdict(row).items() if name not in ("name", "solo_loss", "gap")})


def _losses(losses: Losses) -> dict[str, float]:
    return {"train-loss": float(losses.train), "validation-loss": float(losses.validation)}


def _solo(order: Order) -> dict[str, float]:
    """What this site has on its disk, told again in each round. If it is lost, the server still knows."""
    key = str(order.config.get("solo", ""))
    return {"solo-loss": kept(order.folder, key).of(order.training)} if has_kept(order.folder, key) else {}
