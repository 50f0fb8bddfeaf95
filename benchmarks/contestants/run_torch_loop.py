"""Plain PyTorch, as a careful user writes it: autograd, parameters updated in place, nothing copied twice."""

import os

import protocol
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch_models import batches, network, params_from


def prepare(workload: protocol.Workload) -> protocol.Train:
    torch.set_num_threads(os.cpu_count() or 1)
    module = network(workload)
    names = [name for name, _ in module.named_parameters()]
    initial = [parameter.detach() for parameter in module.parameters()]
    clients = batches(workload)

    def gradient(local: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = functional_call(module, dict(zip(names, local, strict=True)), x)
        return torch.autograd.grad(cross_entropy(outputs, y), local)

    def train(rounds: int) -> protocol.Params:
        shared = [parameter.clone() for parameter in initial]
        for _ in range(rounds):
            mean = [torch.zeros_like(parameter) for parameter in shared]
            for rows in clients:
                local = [parameter.clone().requires_grad_() for parameter in shared]
                for x, y in rows:
                    steps = gradient(local, x, y)
                    with torch.no_grad():
                        for parameter, step in zip(local, steps, strict=True):
                            parameter.sub_(step, alpha=workload.step_size)
                for total, parameter in zip(mean, local, strict=True):
                    total.add_(parameter.detach(), alpha=1 / len(clients))
            shared = mean
        return params_from(dict(zip(names, shared, strict=True)))

    return train


if __name__ == "__main__":
    protocol.main("torch_loop", prepare, distributions=("torch",))
