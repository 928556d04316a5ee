"""What the messages of the group have told so far. Pure: nothing here reads a clock.

At its start the page reads one topic after the other, so messages of one topic may arrive long
before older ones of another. Everything is therefore ordered by the time in the messages.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lagless import messages
from lagless.dashboard import whatif
from lagless.history import History
from lagless.messages import AnyDecision, Echo, Heartbeat, Message, Receipt, SeenGroup, WriteSpeeds
from lagless.model import Consumer, TopicPartition

KEPT = 1800.0
"""Seconds for which speeds and lags are kept."""
STEP = 5.0
"""Least seconds between two points of a consumer's lag."""


class Source(Protocol):
    """The messages of the group, as they arrive."""

    @property
    def heard(self) -> bool:
        """Return whether Kafka has answered at least once."""

    @property
    def trouble(self) -> str:
        """Return what is wrong with the connection; "" while it works."""

    @property
    def undecodable(self) -> int:
        """Return the number of messages that could not be decoded."""

    def read(self) -> Sequence[Message]:
        """Return what has arrived since the last call, without waiting."""


class MemorySource:
    """A source in memory: for tests, and for viewing recorded messages."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self.heard = True
        self.trouble = ""
        self.undecodable = 0

    def add(self, *messages: Message) -> None:
        """Add messages, which the next `read` returns."""
        self._messages.extend(messages)

    def read(self) -> Sequence[Message]:
        """Return what was added since the last call."""
        messages, self._messages = self._messages, []
        return messages


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: a point in time of the line charts."""

    at: float
    speeds: Mapping[TopicPartition, float]
    stale: frozenset[TopicPartition]
    plain_kafka: int
    """Number of consumers that plain Kafka assignment would need."""
    bound: float
    """Σs/C, a lower bound on the number of consumers."""
    consumers: int = 0
    """Number of consumers at that time, which `view.moments` counts."""


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of one incarnation of a consumer."""

    consumer: Consumer
    incarnation: str
    first: float
    """Time of its first message."""
    last: float
    """Time of its last message."""
    heartbeat: Heartbeat | None = None
    held: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partition → generation of the order that assigned it."""
    held_at: float = 0
    revision: int = -1


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a consumer at one time."""

    at: float
    seconds: float


class Observations:
    """Keep what the messages of a group say, for `KEPT` seconds."""

    def __init__(self, group: str, capacity: float) -> None:
        self.group = group
        self.capacity = capacity
        self.samples: list[Sample] = []
        self.members: dict[tuple[Consumer, str], Member] = {}
        self.lags: dict[Consumer, deque[Lag]] = {}
        self.history = History()
        self.seen: SeenGroup | None = None
        """The group as its controller sees it, if lagless did not write its members."""
        self.counts: list[tuple[float, int]] = []
        """How many such members there were, and when."""

    def take(self, message: Message) -> None:
        """Take in one message; ignore it if it belongs to another group."""
        if message.group != self.group:
            return
        if isinstance(message, WriteSpeeds):
            self._measure(message)
        elif isinstance(message, Heartbeat):
            self._heartbeat(message)
        elif isinstance(message, Receipt):
            member = self._member(message.consumer, message.incarnation, message.at)
            self._keep(_holding(member, message))
        elif isinstance(message, AnyDecision):
            self.history.take(message)
        elif isinstance(message, SeenGroup):
            self._see(message)
        elif isinstance(message, Echo):
            self.history.alive(message.at)

    def _see(self, message: SeenGroup) -> None:
        self.history.alive(message.at)
        if not self.counts or message.at >= self.counts[-1][0] + STEP:
            self.counts.append((message.at, len(message.members)))
            self.counts = [known for known in self.counts if known[0] >= message.at - KEPT]
        if self.seen is None or message.at >= self.seen.at:
            self.seen = message

    def _measure(self, message: WriteSpeeds) -> None:
        speeds = messages.flatten(message.speeds)
        sample = Sample(
            at=message.at,
            speeds=speeds,
            stale=frozenset(TopicPartition(*partition) for partition in message.stale),
            plain_kafka=whatif.plain_kafka(speeds, self.capacity) if self.capacity > 0 else 0,
            bound=sum(speeds.values()) / self.capacity if self.capacity > 0 else 0,
        )
        insort(self.samples, sample, key=lambda known: known.at)
        oldest = self.samples[-1].at - KEPT
        while self.samples[0].at < oldest:
            del self.samples[0]
        # Consumers that ended before the lines begin are on no line any more.
        self.members = {key: known for key, known in self.members.items() if known.last >= oldest}
        self.lags = {n: lags for n, lags in self.lags.items() if lags[-1].at >= oldest}

    def _heartbeat(self, message: Heartbeat) -> None:
        member = self._member(message.consumer, message.incarnation, message.at)
        if member.heartbeat is None or message.at >= member.heartbeat.at:
            member = replace(member, heartbeat=message)
        self._keep(_holding(member, message))
        lags = self.lags.setdefault(message.consumer, deque())
        if not lags or message.at >= lags[-1].at + STEP:
            lags.append(Lag(message.at, message.lag_seconds))
        while lags[0].at < message.at - KEPT:
            lags.popleft()

    def _member(self, consumer: Consumer, incarnation: str, at: float) -> Member:
        known = self.members.get((consumer, incarnation))
        if known is None:
            return Member(consumer, incarnation, first=at, last=at)
        return replace(known, first=min(known.first, at), last=max(known.last, at))

    def _keep(self, member: Member) -> None:
        self.members[member.consumer, member.incarnation] = member
        if len(self.members) > 10_000:  # of a group that starts and stops consumers for months
            oldest = min(self.members.values(), key=lambda known: known.last)
            del self.members[oldest.consumer, oldest.incarnation]

    def newest(self) -> dict[Consumer, Member]:
        """Return the incarnation of each consumer that was heard last."""
        by_last = sorted(self.members.values(), key=lambda member: member.last)
        return {member.consumer: member for member in by_last}


def _holding(member: Member, message: Heartbeat | Receipt) -> Member:
    """Return the member with what the message says it holds, unless it has said something newer."""
    if (message.revision, message.at) < (member.revision, member.held_at):
        return member
    held = {TopicPartition(topic, number): generation for topic, number, generation in message.held}
    return replace(member, held=held, held_at=message.at, revision=message.revision)
