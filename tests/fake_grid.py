"""A grid in this process: every message goes through Flower's own bytes, and sites may be absent, late or lie."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

import lossgap as lg
from lossgap.engine.learner import JaxLearner
from lossgap.flower import client_app

Change = Callable[[str, Message], Message | None]
"""What becomes of a site's reply on its way; None is lost."""


def over_the_wire(message: Message) -> Message:
    """A message as the other side gets it."""
    identifier = message.metadata.message_id
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    arrived.metadata.__dict__["_message_id"] = identifier
    return arrived


@dataclass
class FakeGrid(Grid):
    """Sites by name, each with an app of its own."""

    apps: Mapping[str, ClientApp]
    change: Change = lambda name, reply: reply
    away: set[str] = field(default_factory=set)
    settings: Mapping[str, object] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    replies: dict[str, Message] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Node numbers say nothing about the order of names.
        self.nodes = self.nodes or {1000 - 7 * k: name for k, name in enumerate(self.apps)}
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.states = {name: RecordDict() for name in self.apps}

    def set_run(self, run: object) -> None: ...

    @property
    def run(self) -> object:
        return None

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [node for node, name in self.nodes.items() if name not in self.away]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node, name=self.nodes[node]) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        pushed = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            self._deliver(message)
            pushed.append(message.metadata.message_id)
        return pushed

    def _deliver(self, message: Message) -> None:
        name = self.nodes[message.metadata.dst_node_id]
        self.kinds.append(message.metadata.message_type)
        if name in self.away:
            return
        context = Context(1, message.metadata.dst_node_id, dict(self.settings), self.states[name], {})
        order = over_the_wire(message)
        try:
            reply = self.apps[name](order, context)
        except Exception as problem:
            reply = Message(Error(2, f"{type(problem)}: {problem}"), reply_to=order)
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        reply = self.change(name, reply)
        if reply is not None:
            self.replies[message.metadata.message_id] = over_the_wire(reply)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(each) for each in list(message_ids) if each in self.replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def jax_apps(federation: lg.Federation, model: lg.Model, *, state: object, **more: object) -> dict[str, ClientApp]:
    """An app for each client, which trains as the server says."""

    def maker(client: lg.Client) -> Callable:
        return lambda context, training: JaxLearner.of(client, model, training)

    return {
        client.name: client_app(maker(client), state=f"{state}/{client.name}", **more) for client in federation.clients
    }
