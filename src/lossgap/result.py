"""A trained model, how it serves each client, and how it came about."""

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from lossgap.algorithms.base import Algorithm, Params
from lossgap.engine.run import History
from lossgap.errors import require
from lossgap.metrics import ClientRow, Summary, verdict
from lossgap.models import Model
from lossgap.table import Table
from lossgap.training import Training


@dataclass(frozen=True, kw_only=True)
class Result:
    """A trained model, how it serves each client, and how it came about."""

    algorithm: Algorithm
    model: Model
    training: Training
    seed: int
    params: Params
    history: History
    clients: tuple[ClientRow, ...]
    features: tuple[int, ...]  # the shape of one row
    outputs: int

    def predict(self, x: ArrayLike, *, client: str | None = None) -> np.ndarray:
        """The class of each row, or the predicted number where targets were numbers.

        A personal method serves each client a model of its own: name the client.
        """
        params, names = self.params, [row.name for row in self.clients]
        if self.algorithm.personal:
            require(
                client in names,
                f"predict: {self.algorithm} has a model for each client, and client is {client!r}.",
                f"Name one of {', '.join(names)}.",
            )
            params = jax.tree.map(lambda p: p[names.index(str(client))], params)
        with jax.enable_x64(self.training.precision == "float64"):
            rows = jnp.asarray(x, self.training.precision)
            outputs = np.asarray(self.algorithm.served(self.model).outputs(params, rows))
        # What learners bring does not say how many outputs there are: 0.
        return outputs.argmax(axis=-1) if (self.outputs or outputs.shape[-1]) > 1 else outputs[:, 0]

    def summary(self) -> Summary:
        """Summaries over clients, each counting the same."""
        return Summary.of(self.clients)

    @property
    def stopped(self) -> int | None:
        """The rounds that were trained if training was stopped before its end."""
        done = int(self.history.rounds[-1])
        return done if done < self.training.rounds else None

    def verdict(self) -> str:
        """Who is helped and who is harmed, in one plain sentence, and what the method has to say of the run."""
        remarks = self.algorithm.remarks(self.history.rounds, self.history.gap)
        if self.stopped is not None:
            remarks = (f"Training was stopped after {self.stopped} of {self.training.rounds} rounds.", *remarks)
        return " ".join([f"{self.algorithm} {verdict(self.clients)}.", *remarks])

    def table(self) -> Table:
        """One row per client."""
        columns = ("client", "rows", "solo loss", "shared loss", "gap", "test accuracy", "against alone")
        return Table(
            columns,
            tuple(
                (c.name, c.rows, c.solo_loss, c.solo_loss + c.gap, c.gap, c.test_accuracy, c.standing)
                for c in self.clients
            ),
        )

    def save(self, folder: str | Path) -> Path:
        """Write the result into a folder; `lossgap.load` reads it back."""
        from lossgap.store import save  # imported late: the store knows results, not the other way round

        return save(self, folder)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.verdict()}"
