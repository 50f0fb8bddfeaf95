"""The race's networks as PyTorch modules, for all contestants that run on PyTorch."""

import numpy as np
import torch
from protocol import Params, Workload
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def network(workload: Workload) -> nn.Module:
    """A module that holds the shared initial parameters."""
    module = _convolutional(workload.classes) if "first.kernel" in workload.params else _linear(workload)
    module.load_state_dict(state_from(workload.params))
    return module


def _linear(workload: Workload) -> nn.Module:
    return nn.Linear(*workload.params["kernel"].shape)


def _convolutional(classes: int) -> nn.Module:
    layers = {
        "first": nn.Conv2d(1, 32, 3),
        "relu1": nn.ReLU(),
        "pool1": nn.MaxPool2d(2),
        "second": nn.Conv2d(32, 64, 3),
        "relu2": nn.ReLU(),
        "pool2": nn.MaxPool2d(2),
        "flat": nn.Flatten(),
        "hidden": nn.Linear(5 * 5 * 64, 128),
        "relu3": nn.ReLU(),
        "last": nn.Linear(128, classes),
    }
    module = nn.Sequential()
    for name, layer in layers.items():
        module.add_module(name, layer)
    return module


def tensors(workload: Workload) -> list[Batch]:
    """Every client's rows; images get a channel axis."""
    return [_batch(x, y) for x, y in workload.clients]


def batches(workload: Workload) -> list[list[Batch]]:
    """Every client's consecutive batches."""
    clients = range(len(workload.clients))
    return [[_batch(x, y) for x, y in workload.batches(client)] for client in clients]


def _batch(x: np.ndarray, y: np.ndarray) -> Batch:
    pixels = torch.from_numpy(x)
    return (pixels.unsqueeze(1) if x.ndim == 3 else pixels), torch.from_numpy(y.astype(np.int64))


def state_from(params: Params) -> dict[str, Tensor]:
    """PyTorch's names and layouts: outputs first, channels before pixels."""
    return {_torch_name(name): torch.from_numpy(_to_torch(name, value).copy()) for name, value in params.items()}


def params_from(state: dict[str, Tensor]) -> Params:
    """The way back."""
    arrays = {name: value.detach().cpu().numpy() for name, value in state.items()}
    return {_own_name(name): _from_torch(name, value) for name, value in arrays.items()}


def _torch_name(name: str) -> str:
    return name.replace("kernel", "weight")


def _own_name(name: str) -> str:
    return name.replace("weight", "kernel")


def _to_torch(name: str, value: np.ndarray) -> np.ndarray:
    if name == "hidden.kernel":  # its inputs are pixels × channels here and channels × pixels in PyTorch
        value = value.reshape(25, 64, 128).transpose(1, 0, 2).reshape(1600, 128)
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T


def _from_torch(name: str, value: np.ndarray) -> np.ndarray:
    value = value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T
    if name == "hidden.weight":
        value = value.reshape(64, 25, 128).transpose(1, 0, 2).reshape(1600, 128)
    return value
