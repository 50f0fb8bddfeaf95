"""fluke: its own clients, server and FedAvg loop, with its FastDataLoader and no evaluation."""

import copy

import protocol
import torch
from torch_models import network, params_from, tensors

# fluke imports torchvision, whose wheel on PyPI belongs to another build of PyTorch than the CPU one: its compiled
# operators do not load, and its import then fails on these two. Nothing here calls them.
torchvision_operators = torch.library.Library("torchvision", "DEF")
for operator in ("nms", "qnms"):
    torchvision_operators.define(f"{operator}(Tensor boxes, Tensor scores, float threshold) -> Tensor")

from fluke import FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402


def prepare(workload: protocol.Workload) -> protocol.Train:
    FlukeENV().set_evaluator(None)
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    model = network(workload)
    loaders = [loader(workload, x, y) for x, y in tensors(workload)]
    optimizer = OptimizerConfigurator({"name": "SGD", "lr": workload.step_size})

    def client(index: int) -> Client:
        loss = torch.nn.CrossEntropyLoss()
        return Client(index, loaders[index], None, optimizer_cfg=optimizer, loss_fn=loss, local_epochs=1)

    def train(rounds: int) -> protocol.Params:
        clients = [client(index) for index in range(len(loaders))]
        server = Server(copy.deepcopy(model), None, clients, weighted=False)
        federation = CentralizedFL(len(clients), None, {}, clients=clients, server=server)
        federation.run(n_rounds=rounds, eligible_perc=1.0)
        return params_from(server.model.state_dict())

    return train


def loader(workload: protocol.Workload, x: torch.Tensor, y: torch.Tensor) -> FastDataLoader:
    """Batch size 0 is fluke's full batch."""
    size = workload.batch_size or 0
    return FastDataLoader(x, y, num_labels=workload.classes, batch_size=size, shuffle=False)


if __name__ == "__main__":
    protocol.main("fluke", prepare, distributions=("fluke-fl", "torch"))
