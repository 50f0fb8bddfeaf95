"""FLGo: its FedAvg server and clients in its default (ideal) simulator, with no evaluation and nothing logged."""

import copy
import json
import sys

import flgo
import protocol
import torch
from flgo.algorithm import fedavg
from flgo.benchmark.base import BasicTaskCalculator, BasicTaskPipe
from flgo.experiment.logger import BasicLogger
from flgo.utils.fmodule import FModule
from torch.nn.functional import cross_entropy
from torch_models import Batch, network, params_from, tensors


class Rows(torch.utils.data.Dataset):
    """One client's rows."""

    def __init__(self, rows: Batch):
        self.x, self.y = rows

    def __len__(self) -> int:
        return len(self.y)


class TaskCalculator(BasicTaskCalculator):
    """A classification task whose batches are cut from tensors in row order, in place of a shuffling DataLoader."""

    def get_dataloader(self, dataset: Rows, batch_size: int = 64, **_: object) -> list[Batch]:
        return list(zip(dataset.x.split(batch_size), dataset.y.split(batch_size), strict=True))

    def compute_loss(self, model: FModule, data: Batch) -> dict[str, torch.Tensor]:
        x, y = data
        return {"loss": cross_entropy(model(x), y)}


class TaskPipe(BasicTaskPipe):
    """Hands the clients their rows; `prepare` fills them in."""

    rows: dict[str, dict[str, Rows]]

    def load_data(self, running_time_option: dict) -> dict[str, dict[str, Rows]]:
        return self.rows


def prepare(workload: protocol.Workload) -> protocol.Train:
    names = [f"client {index}" for index in range(len(workload.clients))]
    TaskPipe.rows = {name: {"train": Rows(rows)} for name, rows in zip(names, tensors(workload), strict=True)}
    server = initial_server(workload, names)
    initial = server.model

    def train(rounds: int) -> protocol.Params:
        server.model = copy.deepcopy(initial)
        server.current_round, server.num_rounds = 1, rounds
        server.run()
        return params_from(server.model.body.state_dict())

    return train


def initial_server(workload: protocol.Workload, names: list[str]) -> fedavg.Server:
    """One server for all runs: each flgo.init wraps the methods of flgo's classes once more."""
    folder = task_folder(names)
    # flgo imports a task's benchmark by name and reads the command line as its own options.
    sys.modules["race.core"] = sys.modules[__name__]
    sys.argv = sys.argv[:1]
    return flgo.init(
        task=folder,
        algorithm=fedavg,
        model=global_model(workload),
        Logger=BasicLogger,
        option={
            "learning_rate": workload.step_size,
            "batch_size": workload.batch_size or -1,
            "num_epochs": 1,
            "proportion": 1.0,
            "sample": "full",
            "aggregate": "uniform",
            "eval_interval": 0,
            "no_log_console": True,
            "no_tqdm": True,
        },
    )


def global_model(workload: protocol.Workload) -> type:
    """flgo makes an empty model of the clients' class whenever it averages, so the class takes no arguments."""
    body = network(workload)

    class Network(FModule):
        def __init__(self):
            super().__init__()
            self.body = copy.deepcopy(body)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

        @classmethod
        def init_global_module(cls, party: object) -> None:
            if "Server" in party.get_classname():
                party.model = cls()

    return Network


def task_folder(names: list[str]) -> str:
    """What flgo.gen_task leaves on disk, without the rows."""
    folder = protocol.arguments().params.with_suffix(".task")
    (folder / "record").mkdir(parents=True, exist_ok=True)
    (folder / "info").write_text(json.dumps({"benchmark": "race"}))
    (folder / "data.json").write_text(json.dumps({"client_names": names}))
    return str(folder)


if __name__ == "__main__":
    protocol.main("flgo", prepare, distributions=("flgo", "torch"))
