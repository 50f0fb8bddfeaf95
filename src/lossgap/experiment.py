"""Train one method, or several settings in one pass."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import numpy as np

from lossgap.algorithms.base import Algorithm, Params
from lossgap.engine.checkpoint import Saves, kept
from lossgap.engine.compiled import CompiledStepper
from lossgap.engine.learner import Learner
from lossgap.engine.run import Onlooker
from lossgap.errors import repeated, require
from lossgap.federation import Federation
from lossgap.identity import described_model, fingerprint, joint_key, run_identity
from lossgap.models import Model, initial_params
from lossgap.passes import Engine, Start, kinds, run_pass
from lossgap.result import Result
from lossgap.solo import Solo, train_solo
from lossgap.training import Training


def train(
    federation: Federation | Sequence[Learner],
    model: Model | None = None,
    algorithm: Algorithm | None = None,
    training: Training = Training(),
    *,
    seed: int = 0,
    solo: Solo | Sequence[float] | None = None,
    initial_params: Params | None = None,
    engine: Engine = CompiledStepper.of,
    checkpoint: Saves | None = None,
    onlooker: Onlooker | None = None,
    progress: bool | None = None,
) -> Result:
    """Train one shared model.

    Ctrl-C raises `lossgap.errors.Stopped`, a `KeyboardInterrupt` whose `so_far()` is the result so far, in a list.

    Args:
        federation: who holds which rows; or learners, which bring rows and models of their own in any framework:
            `train(learners, algorithm=…)` is `train_learners`, a plain loop without a network.
        model: a network, such as `lossgap.models.linear()`.
        algorithm: a method, such as `lossgap.Eagle(gap_penalty=1.0)`.
        training: rounds, step size and local work.
        seed: of the initialisation and of batches. Nothing else is random.
        solo: what each client could reach alone, from `train_solo`, or K losses in client order; by default
            `train_solo` with the same training and seed.
        initial_params: where to start, in place of the seed's own initialisation.
        engine: the compiled engine, or its plain twin `lossgap.engine.sequential.SequentialStepper.of`.
        checkpoint: a folder in which the run is saved every ten seconds, and from which the same call goes on if it was
            cut off, to the very same result; or `lossgap.Checkpoints`, which says how often. Several runs may share
            the folder, one process at a time may work on each. `lossgap.Store` keeps results as well.
        onlooker: called with lines of the history as they come in.
        progress: show a progress bar; by default on a terminal.
    """
    require(algorithm is not None, "train: no algorithm is given.", "Give one, such as lossgap.Eagle(gap_penalty=1.0).")
    assert algorithm is not None
    if not isinstance(federation, Federation):
        return _train_learners(federation, model, algorithm, training, seed, solo, initial_params, progress)
    require(model is not None, "train: no model is given.", "Give one, such as lossgap.models.linear().")
    assert model is not None
    alone = partial(train_solo, federation, model, training, seed=seed, checkpoint=checkpoint, progress=progress)
    starts = starts_of(
        federation,
        model,
        [algorithm],
        training,
        seed=seed,
        solo=alone if solo is None else solo,
        initial_params=initial_params,
    )
    with kept(checkpoint, partial(_key, federation, model, training, starts, engine)) as saves:
        return run_pass(
            federation, model, training, starts, engine=engine, checkpoint=saves, onlooker=onlooker, progress=progress
        )[0]


def _train_learners(
    learners: Sequence[Learner],
    model: Model | None,
    algorithm: Algorithm,
    training: Training,
    seed: int,
    solo: Solo | Sequence[float] | None,
    initial_params: Params | None,
    progress: bool | None,
) -> Result:
    from lossgap.learners.training import train_learners  # imported late: learners know experiments, not the reverse

    require(not isinstance(solo, Solo), "train: solo is of a federation.", "Give learners' losses as numbers.")
    assert not isinstance(solo, Solo)
    params = getattr(learners[0], "params", None) if initial_params is None and learners else initial_params
    require(params is not None, "train: where do the learners start?", "Give initial_params, the same for all of them.")
    return train_learners(
        learners, algorithm, training, initial_params=params, seed=seed, solo=solo, model=model, progress=progress
    )


def train_many(
    federation: Federation,
    model: Model,
    algorithms: Sequence[Algorithm],
    training: Training = Training(),
    *,
    seeds: Sequence[int] = (0,),
    solo: Solo | Sequence[float] | None = None,
    initial_params: Params | None = None,
    checkpoint: Saves | None = None,
    progress: bool | None = None,
) -> list[Result]:
    """Train every method from every seed's initialisation on one federation, those of one kind in one pass.

    Settings that differ in numbers only, such as ten values of λ, share their rows and one compiled program. Results
    equal those of `train` up to rounding and stand in the order of seeds, then methods.

    Args:
        federation, model, algorithms, training, progress: as for `compare`.
        seeds: of the initialisation and of batches.
        solo: as for `train`; by default trained anew for each seed.
        initial_params: where every run starts, in place of each seed's own initialisation.
        checkpoint: as for `train`.
    """
    check_methods(algorithms, seeds)
    starts: list[Start] = []
    for seed in seeds:
        alone = partial(train_solo, federation, model, training, seed=seed, checkpoint=checkpoint, progress=progress)
        starts += starts_of(
            federation,
            model,
            algorithms,
            training,
            seed=seed,
            solo=alone if solo is None else solo,
            initial_params=initial_params,
        )
    results: dict[int, Result] = {}
    for lanes in kinds([start.algorithm for start in starts]):
        some = [starts[i] for i in lanes]
        with kept(checkpoint, partial(_key, federation, model, training, some)) as saves:
            trained = run_pass(federation, model, training, some, checkpoint=saves, progress=progress)
        results |= dict(zip(lanes, trained, strict=True))
    return [results[i] for i in range(len(starts))]


def starts_of(
    federation: Federation,
    model: Model,
    algorithms: Sequence[Algorithm],
    training: Training,
    *,
    seed: int,
    solo: Solo | Sequence[float] | Callable[[], Solo | Sequence[float]],
    initial_params: Params | None = None,
) -> list[Start]:
    """What the runs of several methods begin with. A `solo` to be called is called once all settings fit."""
    params = _initial(federation, model, training, seed, initial_params)
    check_fit(algorithms, len(federation.clients), training, params)
    losses = checked_solo(federation.names, training, solo() if callable(solo) else solo)
    return [Start(algorithm, seed, params=params, solo_losses=losses) for algorithm in algorithms]


def _key(
    federation: Federation,
    model: Model,
    training: Training,
    starts: Sequence[Start],
    engine: Engine = CompiledStepper.of,
) -> str:
    """The hash of what a pass computes and of how."""
    identity = partial(run_identity, fingerprint(federation), described_model(model, federation, training))
    runs = [
        identity(
            start.algorithm,
            training,
            seed=start.seed,
            solo={"losses": start.solo_losses.tolist()},
            start=start.params,
        )
        for start in starts
    ]
    return joint_key([getattr(engine, "__qualname__", repr(engine)), *(run.key for run in runs)])


def check_fit(algorithms: Sequence[Algorithm], clients: int, training: Training, params: Params) -> None:
    """Refuse, before anything is trained, settings that do not suit so many clients."""
    some = training.participants(clients)
    for algorithm in algorithms:
        jax.eval_shape(partial(algorithm.init, clients=clients), params)
        require(
            some is None or not algorithm.needs_everyone,
            f"{algorithm} needs every client each round, and participation={training.participation} lets {some} of "
            f"{clients} take part.",
            "Use Eagle or QFFL, or participation=1.",
        )


def checked_solo(names: Sequence[str], training: Training, solo: Solo | Sequence[float]) -> np.ndarray:
    """L_k* of these clients, [client], each a finite number."""
    if isinstance(solo, Solo):
        owners = [client.name for client in solo.clients]
        require(
            owners == list(names),
            f"train: solo is about {', '.join(owners)}, the federation about {', '.join(names)}.",
            "Train solo models on this federation, with its clients in this order.",
        )
    losses = solo.losses(training.gap_split) if isinstance(solo, Solo) else np.asarray(solo, np.float64)
    require(
        losses.shape == (len(names),),
        f"train: solo holds {losses.size} losses for {len(names)} clients.",
        "Give one per client, in the order of federation.names.",
    )
    bad = np.flatnonzero(~np.isfinite(losses))
    require(
        len(bad) == 0,
        f"train: the solo loss of client {names[bad[0]] if len(bad) else ''!r} is not a finite number.",
        "Give a number, or leave solo out to have it trained.",
    )
    return losses


def _initial(federation: Federation, model: Model, training: Training, seed: int, given: Params | None) -> Params:
    own = initial_params(model, federation.features, federation.outputs, seed=seed, precision=training.precision)
    if given is None:
        return own
    shapes = [jax.tree.map(np.shape, params) for params in (own, given)]
    require(
        shapes[0] == shapes[1],
        f"train: initial_params have shapes {shapes[1]}, but the model wants {shapes[0]}.",
        "Start from a model with the same layers, features and classes.",
    )
    return jax.tree.map(lambda p: np.asarray(p, training.precision), given)


def check_methods(algorithms: Sequence[Algorithm], seeds: Sequence[int]) -> None:
    require(algorithms, "compare: there are no methods.", "Give at least one, such as lossgap.FedAvg().")
    check_seeds(seeds, "compare")
    twice = repeated([str(algorithm) for algorithm in algorithms])
    require(not twice, f"compare: {twice and twice[0]} stands twice.", "Leave one out.")


def check_seeds(seeds: Sequence[int], whose: str) -> None:
    """At least one seed, each of them once and none below zero."""
    require(seeds, f"{whose}: there are no seeds.", "Give at least one.")
    twice, negative = repeated(seeds), [seed for seed in seeds if seed < 0]
    require(not twice, f"{whose}: among seeds, {twice and twice[0]} stands twice.", "Leave one out.")
    require(not negative, f"{whose}: among seeds is {negative and negative[0]}.", "Use whole numbers ≥ 0.")
