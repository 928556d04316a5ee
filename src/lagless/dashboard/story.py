"""What was heard, in any order: messages go in, and nothing here knows what time it is.

A page that opens late reads topics one after the other, so messages of one topic may come long
before older ones of another. Everything kept here is therefore ordered by the time that the
messages themselves carry.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lagless import messages
from lagless.dashboard import whatif
from lagless.dashboard.decisions import Decisions
from lagless.messages import Decision, Echo, Heartbeat, Receipt, WriteSpeeds
from lagless.model import Consumer, TopicPartition

KEPT = 1800.0
"""Seconds of speeds and lags that are kept."""
STEP = 5.0
"""Seconds at least between two points of a consumer's lag."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement and what plain Kafka assignment would need for it."""

    at: float
    speeds: Mapping[TopicPartition, float]
    stale: frozenset[TopicPartition]
    plain_kafka: int
    bound: float
    """Σs/C: fewer consumers than this cannot do."""


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of one incarnation of a consumer."""

    consumer: Consumer
    incarnation: str
    first: float
    """When it was first heard of."""
    last: float
    """When it was last heard of."""
    heartbeat: Heartbeat | None = None
    held: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partition → generation of the order under which it is held."""
    held_at: float = 0
    revision: int = -1


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind a consumer was."""

    at: float
    seconds: float


class Story:
    """Keep what the group's messages said, up to `KEPT` seconds back."""

    def __init__(self, group: str, capacity: float) -> None:
        self.group = group
        self.capacity = capacity
        self.samples: list[Sample] = []
        self.members: dict[tuple[Consumer, str], Member] = {}
        self.lags: dict[Consumer, deque[Lag]] = {}
        self.decisions = Decisions()
        self.foreign = 0
        """Messages of other groups, which are nobody's business here."""

    def tell(self, message: messages.Message) -> None:
        """Take one message in."""
        if message.group != self.group:
            self.foreign += 1
        elif isinstance(message, WriteSpeeds):
            self._measured(message)
        elif isinstance(message, Heartbeat):
            self._heartbeat(message)
        elif isinstance(message, Receipt):
            self._receipt(message)
        elif isinstance(message, Decision):
            self.decisions.take(message)
        elif isinstance(message, Echo):
            self.decisions.alive(message.at)

    def _measured(self, message: WriteSpeeds) -> None:
        speeds = messages.flatten(message.speeds)
        sample = Sample(
            at=message.at,
            speeds=speeds,
            stale=frozenset(TopicPartition(*place) for place in message.stale),
            plain_kafka=whatif.plain_kafka(speeds, self.capacity),
            bound=sum(speeds.values()) / self.capacity,
        )
        insort(self.samples, sample, key=lambda known: known.at)
        oldest = self.samples[-1].at - KEPT
        while self.samples[0].at < oldest:
            del self.samples[0]
        # Whoever ended longer ago than lines go back is on no line any more.
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

    def _receipt(self, message: Receipt) -> None:
        member = self._member(message.consumer, message.incarnation, message.at)
        self._keep(_holding(member, message))

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
        """Give the incarnation of each consumer that was heard of last."""
        found: dict[Consumer, Member] = {}
        for member in self.members.values():
            known = found.get(member.consumer)
            if known is None or member.last > known.last:
                found[member.consumer] = member
        return found


def _holding(member: Member, said: Heartbeat | Receipt) -> Member:
    """Take in what a consumer says it holds, unless it said something newer before."""
    if (said.revision, said.at) < (member.revision, member.held_at):
        return member
    held = {TopicPartition(topic, number): generation for topic, number, generation in said.held}
    return replace(member, held=held, held_at=said.at, revision=said.revision)
