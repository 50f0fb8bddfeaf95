"""A Flower node: a module of its own, so that Ray's workers import it and keep its arrays between rounds."""

import functools
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from protocol import Workload, load
from torch.nn.functional import cross_entropy
from torch_models import Batch, batches, network

app = ClientApp()


@functools.cache
def loaded(path: str) -> tuple[Workload, list[list[Batch]], torch.nn.Module]:
    workload = load(Path(path))
    return workload, batches(workload), network(workload)


@app.train()
def train(message: Message, context: Context) -> Message:
    workload, clients, module = loaded(message.content["config"]["arrays"])
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(module.parameters(), lr=workload.step_size)
    for x, y in clients[context.node_config["partition-id"]]:
        optimizer.zero_grad()
        cross_entropy(module(x), y).backward()
        optimizer.step()
    # Flower averages by this number: the same for everybody gives the uniform mean.
    reply = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": MetricRecord({"num-examples": 1})})
    return Message(reply, reply_to=message)
