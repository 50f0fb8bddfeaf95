"""PyTorch with all clients in one vectorised call: torch.func.vmap over per-client parameters."""

import os

import protocol
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch_models import Batch, batches, network, params_from


def prepare(workload: protocol.Workload) -> protocol.Train:
    if len({len(y) for _, y in workload.clients}) > 1:
        raise protocol.Skipped("vmap needs clients of equal size; padding to the largest would change the arithmetic")
    torch.set_num_threads(os.cpu_count() or 1)
    module = network(workload)
    initial = {name: parameter.detach() for name, parameter in module.named_parameters()}
    clients = len(workload.clients)
    steps = [stack(step) for step in zip(*batches(workload), strict=True)]

    def loss(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(functional_call(module, params, x), y)

    gradients = vmap(grad(loss))

    def train(rounds: int) -> protocol.Params:
        shared = initial
        for _ in range(rounds):
            local = {name: value.expand(clients, *value.shape).clone() for name, value in shared.items()}
            for x, y in steps:
                for name, step in gradients(local, x, y).items():
                    local[name].sub_(step, alpha=workload.step_size)
            shared = {name: value.mean(dim=0) for name, value in local.items()}
        return params_from(shared)

    return train


def stack(batches: tuple[Batch, ...]) -> Batch:
    """One batch of every client, [client, row, ...]."""
    x, y = zip(*batches, strict=True)
    return torch.stack(x), torch.stack(y)


if __name__ == "__main__":
    protocol.main("torch_vmap", prepare, distributions=("torch",))
