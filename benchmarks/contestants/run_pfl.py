"""pfl: its SimulatedBackend and FederatedAveraging with tensors in memory."""

import protocol
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn.functional import cross_entropy
from torch_models import network, params_from, tensors


class Trainable(torch.nn.Module):
    """The two methods that pfl wants of a module."""

    def __init__(self, body: torch.nn.Module):
        super().__init__()
        self.body = body

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.body(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        # pfl always evaluates before and after the first round; the race times training, so this costs nothing.
        return {"rows": Weighted(len(y), 1)}


def prepare(workload: protocol.Workload) -> protocol.Train:
    users = [PyTorchTensorDataset(rows) for rows in tensors(workload)]
    sampler = get_user_sampler("minimize_reuse", list(range(len(users))))  # each cohort is everybody once
    dataset = FederatedDataset(users.__getitem__, sampler)
    settings = NNTrainHyperParams(
        local_batch_size=workload.batch_size,
        local_num_epochs=1,
        local_learning_rate=workload.step_size,
    )

    def train(rounds: int) -> protocol.Params:
        module = Trainable(network(workload))
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        model = PyTorchModel(module, local_optimizer_create=torch.optim.SGD, central_optimizer=optimizer)
        FederatedAveraging().run(
            NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=rounds,
                train_cohort_size=len(users),
                val_cohort_size=0,
            ),
            SimulatedBackend(training_data=dataset, val_data=dataset),
            model,
            settings,
            NNEvalHyperParams(local_batch_size=None),
            send_metrics_to_platform=False,
        )
        return params_from(module.body.state_dict())

    return train


if __name__ == "__main__":
    protocol.main("pfl", prepare, distributions=("pfl", "torch"))
