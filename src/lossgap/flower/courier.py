"""Orders out, answers in: who is connected, who answers in time, and how long we wait for the others."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING
from typing import TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from lossgap.errors import LossgapError
from lossgap.flower.honesty import Refused
from lossgap.flower.nodes import Identify, registered

T = TypeVar("T")


class SitesMissing(LossgapError, TimeoutError):
    """Sites that did not connect, or did not answer, in the time that they were given."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long the server waits, in seconds.

    Args:
        round: for the answers of one exchange. Whoever is later is absent from the round; its order expires, so that
            it does not work through old rounds when it is back.
        alone: for the sites to find what they reach alone.
        absence: for sites to connect, or for enough of them to answer.
        look: between two looks for answers.
        again: between two orders to a site whose answer was an error.
    """

    round: float = 600.0
    alone: float = 24 * 3600.0
    absence: float = 600.0
    look: float = 0.2
    again: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An answer that was refused or is doubtful."""

    round: int
    site: str
    what: str


@dataclass
class Courier:
    """The way to the sites, known by their numbers: places in `names`."""

    grid: Grid
    names: tuple[str, ...]
    identify: Identify = registered
    patience: Patience = Patience()
    incidents: list[Incident] = field(default_factory=list)

    def present(self) -> dict[int, int]:
        """Nodes by site, of those that are connected."""
        nodes = {name: node for node, name in self.identify(self.grid).items()}
        return {k: nodes[name] for k, name in enumerate(self.names) if name in nodes}

    def ask(
        self,
        kind: str,
        orders: Mapping[int, RecordDict],
        read: Callable[[int, RecordDict], T],
        *,
        round: int,
        enough: int,
        seconds: float | None = None,
    ) -> dict[int, T]:
        """What sites answer to orders of their own, in client order; at least `enough` of them, or nobody goes on."""
        answers: dict[int, T] = {}
        reasons: dict[int, str] = {}
        deadline = None
        while True:
            there = self.present()
            missing = [k for k in orders if k not in answers]
            messages = {k: self.message(kind, orders[k], there[k], round, seconds) for k in missing if k in there}
            for k, reply in self.exchange(messages, seconds).items():
                try:
                    answers[k] = read(k, content(reply))
                except Refused as problem:
                    reasons[k] = str(problem)
                    self.note(round, k, str(problem))
            if len(answers) >= enough:
                return dict(sorted(answers.items()))
            absent = [k for k in missing if k not in answers]
            deadline = deadline or time.monotonic() + self.patience.absence
            if time.monotonic() > deadline:
                raise SitesMissing(self._why(kind, round, absent, there, reasons, enough, len(answers)))
            log(WARNING, "Round %s waits for %s.", round, self._named(absent))
            time.sleep(min(self.patience.again, self.patience.absence / 10))

    def message(self, kind: str, content: RecordDict, node: int, round: int, seconds: float | None = None) -> Message:
        """An order that expires with our patience."""
        ttl = self.patience.round if seconds is None else seconds
        return Message(content, node, kind, group_id=str(round), ttl=ttl)

    def exchange(self, messages: Mapping[int, Message], seconds: float | None = None) -> dict[int, Message]:
        """Replies by site, of those who reply in time. A reply belongs to the message that it answers, whoever sent it:
        for a node that died, Flower itself answers with an error."""
        if not messages or not self._taken(messages.values()):
            return {}
        # Flower gives every message its identifier when it is pushed.
        waiting = {message.metadata.message_id: k for k, message in messages.items()}
        deadline = time.monotonic() + (self.patience.round if seconds is None else seconds)
        replies: dict[int, Message] = {}
        while waiting and time.monotonic() < deadline:
            for reply in self.grid.pull_messages(list(waiting)):
                k = waiting.pop(reply.metadata.reply_to_message_id, None)
                if k is not None:
                    replies[k] = reply
            if waiting:
                time.sleep(self.patience.look)
        return dict(sorted(replies.items()))

    def _taken(self, messages: Collection[Message]) -> bool:
        """Whether the SuperLink took the orders. One that was suspended for a while takes them when asked again."""
        try:
            self.grid.push_messages(list(messages))
        except ObjectPushError as problem:
            log(WARNING, "The SuperLink did not take %s orders: %s", len(messages), problem)
            return False
        return True

    def note(self, round: int, k: int, what: str) -> None:
        """Keep and log what should be known of a site's answer."""
        self.incidents.append(Incident(round=round, site=self.names[k], what=what))
        log(WARNING, "Round %s, site %r: %s", round, self.names[k], what)

    def _why(
        self,
        kind: str,
        round: int,
        absent: Sequence[int],
        there: Collection[int],
        reasons: Mapping[int, str],
        enough: int,
        answers: int,
    ) -> str:
        each = [
            f"{self.names[k]!r} " + (reasons.get(k, "did not answer in time") if k in there else "is not connected")
            for k in absent
        ]
        steep = " Losses that are not finite also come from steps that are too large: try a smaller step_size."
        return (
            f"Round {round} ({kind}) needs {enough} of {len(self.names)} sites, and {answers} answered within "
            f"{self.patience.absence:g} s: {'; '.join(each)}. Start these sites again and then the run, which goes on "
            "from its last round if it has a folder."
            + (steep if any("loss is" in why for why in reasons.values()) else "")
        )

    def _named(self, sites: Sequence[int]) -> str:
        return ", ".join(self.names[k] for k in sites)


def content(reply: Message) -> RecordDict:
    """What a reply says, unless it is an error."""
    if reply.has_error():
        raise Refused(f"its answer is an error: {reply.error.reason or f'code {reply.error.code}'}")
    return reply.content


def gathered(grid: Grid, sites: int | Sequence[str], identify: Identify, patience: Patience) -> tuple[str, ...]:
    """The names of the sites, in the order given or else sorted, once all of them are connected."""
    wanted = None if isinstance(sites, int) else tuple(sites)
    count = sites if isinstance(sites, int) else len(sites)
    deadline, said = time.monotonic() + patience.absence, ""
    while True:
        here = sorted(identify(grid).values())
        missing = [] if wanted is None else [name for name in wanted if name not in here]
        if wanted is None and len(here) >= count:
            return tuple(here)
        if wanted is not None and not missing:
            return wanted
        whom = ", ".join(missing) if wanted else f"{count - len(here)} more sites"
        waiting = f"Waiting for {whom}; {len(here)} of {count} are connected: {', '.join(here) or 'nobody'}."
        if time.monotonic() > deadline:
            raise SitesMissing(
                f"{waiting} They did not connect within {patience.absence:g} s. Start their SuperNodes, check their "
                "keys and addresses, or wait longer with Patience(absence=…)."
            )
        if waiting != said:
            log(INFO, waiting)
            said = waiting
        time.sleep(patience.look)
