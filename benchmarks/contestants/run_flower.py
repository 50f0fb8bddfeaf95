"""Flower's simulation engine on Ray, one actor per core, with its FedAvg strategy and no evaluation."""

import logging
import os
from time import perf_counter

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import protocol
from flower_client import app as client_app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch_models import params_from, state_from

ONE_ACTOR_PER_CORE = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count()}}

logging.getLogger("flwr").setLevel(logging.ERROR)


class TimedFedAvg(FedAvg):
    """FedAvg that notes when each round ends. Its first round only starts the actors: its result is thrown away."""

    def __init__(self, initial: ArrayRecord):
        super().__init__(fraction_evaluate=0.0)
        self.initial = initial
        self.round_ends: list[float] = []

    def aggregate_train(
        self, server_round: int, replies: list[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.round_ends.append(perf_counter())
        return (self.initial if server_round == 1 else arrays), metrics


def prepare(workload: protocol.Workload) -> protocol.Train:
    path = str(protocol.arguments().arrays)

    def train(rounds: int) -> tuple[float, protocol.Params]:
        strategy = TimedFedAvg(ArrayRecord(state_from(workload.params)))
        server_app = ServerApp()
        results = []

        @server_app.main()
        def main(grid: Grid, context: Context) -> None:
            config = ConfigRecord({"arrays": path})
            results.append(strategy.start(grid, strategy.initial, num_rounds=1 + rounds, train_config=config))

        run_simulation(server_app, client_app, len(workload.clients), backend_config=ONE_ACTOR_PER_CORE)
        seconds = strategy.round_ends[-1] - strategy.round_ends[0]
        return seconds, params_from(results[0].arrays.to_torch_state_dict())

    return train


if __name__ == "__main__":
    protocol.main(
        "flower",
        prepare,
        distributions=("flwr", "ray", "torch"),
        timer=lambda train, rounds: train(rounds),  # it measures itself, without Ray's start
    )
