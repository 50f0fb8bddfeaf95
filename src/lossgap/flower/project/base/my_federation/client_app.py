"""What runs at a site."""

from pathlib import Path

from flwr.app import Context

import lossgap as lg
from lossgap.engine.learner import JaxLearner, Learner
from lossgap.flower import client_app
from my_federation.agreed import CLASSES, FEATURES, MODEL, SEED
from my_federation.rows import read


def learner(context: Context, training: lg.Training) -> Learner:
    """What trains at this site, as site/settings.sh says. Both kinds train the same model and can be mixed."""
    settings = context.node_config
    client = read(Path(str(settings["data"])), str(settings["site"]))
    return {"jax": in_jax, "torch": in_torch}[str(settings["framework"])](client, training)


def in_jax(client: lg.Client, training: lg.Training) -> Learner:
    return JaxLearner.of(client, MODEL, training, seed=SEED)


def in_torch(client: lg.Client, training: lg.Training) -> Learner:
    """Any module will do whose parameters have the same names and shapes at all sites and at the server."""
    import torch

    from lossgap.learners.torch import Linear, TorchLearner

    def batch(rows: lg.Split) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(torch.as_tensor(rows.x), torch.as_tensor(rows.y))]  # one full batch; a DataLoader works too

    return TorchLearner(
        name=client.name,
        module=Linear(len(FEATURES), len(CLASSES)),
        train=batch(client.train),
        validation=batch(client.validation),
        test=batch(client.test),
        training=training,
        seed=SEED,
    )


app = client_app(learner)
