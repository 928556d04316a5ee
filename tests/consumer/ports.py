"""Every port of a consumer in memory, with the table's compare-and-set rule and virtual time."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from lagless.errors import ClaimLost
from lagless.messages import ConsumerState, Heartbeat, Order, Receipt
from lagless.model import TopicPartition
from lagless.ports import Bounds, Held, Intake, Position, Positions, Span, Spans, Topic


class Time:
    """Time that goes by when someone sleeps."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Kafka:
    """Logs as bounds, and the group's offsets."""

    ids: dict[str, str] = field(default_factory=dict)
    logs: dict[TopicPartition, Bounds] = field(default_factory=dict)
    group: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    """Where leader epochs end."""
    asked: int = 0
    """How often somebody asked for that."""

    def make(self, name: str, partitions: int, end: int, topic_id: str = "id") -> None:
        self.ids[name] = topic_id
        for p in range(partitions):
            self.logs[TopicPartition(name, p)] = Bounds(0, end)

    def topics(self, names: Collection[str]) -> Mapping[str, tuple[Topic, int]]:
        return {
            name: (Topic(name, self.ids[name]), sum(p.topic == name for p in self.logs))
            for name in names
            if name in self.ids
        }

    def bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        return {p: self.logs[p] for p in partitions if p in self.logs}

    def ends(
        self, epochs: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int]:
        self.asked += 1
        return {p: self.epochs[(p, e)] for p, e in epochs.items() if (p, e) in self.epochs}

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {p: self.group[p] for p in partitions if p in self.group}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.group |= offsets


Key = tuple[Topic, int]


@dataclass
class Lake:
    """Tables as positions and the spans that landed."""

    positions: dict[Key, Position] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    landed: list[tuple[Topic, int, Span]] = field(default_factory=list)
    ahead: dict[Topic, Spans] = field(default_factory=dict)
    then: list[tuple[Spans, Spans]] = field(default_factory=list)
    """What each call of `ingest` was told of the next one."""
    gone: list[tuple[Topic, int, Span]] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    record_bytes: float = 1000.0
    fails: list[Exception] = field(default_factory=list)
    """What the next calls of `ingest` raise."""
    claims_fail: list[Exception] = field(default_factory=list)
    """What the next calls of `claim` raise."""
    during: Callable[[], None] = lambda: None
    """What happens while Spark reads."""
    hang: threading.Event | None = None
    interrupted: int = 0
    rounds: int = 0
    """How often rehearsing helps."""
    rehearsed: int = 0
    rehearsal_fails: list[Exception] = field(default_factory=list)

    def claim(
        self,
        topic: Topic,
        partitions: Collection[TopicPartition],
        generation: int | None,
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> Held:
        if self.claims_fail:
            raise self.claims_fail.pop(0)
        if topic.name not in self.met:
            self.met.add(topic.name)
            for p, offset in first().items():
                self.positions.setdefault((topic, p.partition), Position(offset, 0))
        granted = {}
        for p in partitions:
            at = self.positions.get((topic, p.partition), Position(earliest.get(p, 0), 0))
            if generation is not None and at.owner > generation:
                raise ClaimLost("claimed", [p], at.owner)
            granted[p] = at.owner + 1 if generation is None else generation
            self.positions[(topic, p.partition)] = Position(at.offset, granted[p], at.epoch)
        self.story.append(f"claim {sorted(p.partition for p in partitions)}")
        return granted

    def look(self, topic: Topic, generations: Held) -> Positions:
        found = {p: self.positions[(topic, p.partition)] for p in generations}
        lost = {p: at.owner for p, at in found.items() if at.owner != generations[p]}
        if lost:
            raise ClaimLost("claimed by another", lost, max(lost.values()))
        return found

    def begun(self, topic: Topic) -> Spans:
        return self.ahead.get(topic, {})

    def ingest(
        self, topic: Topic, spans: Spans, generations: Held, check: Callable[[], None], then: Spans
    ) -> Intake:
        self.then.append((spans, then))
        self.ahead[topic] = then
        self.during()
        if self.hang is not None:
            self.hang.wait(20)
        if self.fails:
            raise self.fails.pop(0)
        check()
        for p, span in spans.items():
            at = self.positions[(topic, p.partition)]
            if at != Position(span.first, generations[p]):
                raise ClaimLost("moved", [p], at.owner)
        for p, span in spans.items():
            self.positions[(topic, p.partition)] = Position(span.until, generations[p], span.epoch)
            self.landed.append((topic, p.partition, span))
        records = sum(map(len, spans.values()))
        self.story.append(f"ingest {sorted(p.partition for p in spans)}")
        return Intake(rows=records, records=records, bytes=records * self.record_bytes)

    def give_up(self, topic: Topic, spans: Spans, generations: Held) -> None:
        for p, span in spans.items():
            self.gone.append((topic, p.partition, span))
            self.positions[(topic, p.partition)] = Position(span.until, generations[p])

    def rehearse(self) -> bool:
        self.rehearsed += 1
        if self.rehearsal_fails:
            raise self.rehearsal_fails.pop(0)
        return self.rehearsed < self.rounds

    def ready(self) -> None:
        self.story.append("ready")

    def interrupt(self) -> None:
        self.interrupted += 1
        self.ahead.clear()


@dataclass
class Mail:
    """A mailbox whose orders are given, and which keeps what was sent and persisted."""

    story: list[str]
    inbox: list[Order] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    states: list[ConsumerState] = field(default_factory=list)
    clock: Time = field(default_factory=Time)
    fails: list[Exception] = field(default_factory=list)
    """What the next calls of `persist` raise."""

    def recall(self) -> ConsumerState | None:
        return self.states[-1] if self.states else None

    def receive(self, timeout: float) -> list[Order]:
        found, self.inbox = self.inbox, []
        if not found:
            self.clock.sleep(timeout)
        return found

    def persist(self, state: ConsumerState) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.states.append(state)
        self.story.append(f"persist {[p for _, p, _ in state.held]}")

    def send(self, message: Receipt | Heartbeat) -> None:
        if isinstance(message, Heartbeat):
            self.beats.append(message)
        else:
            self.receipts.append(message)
            self.story.append(f"receipt {message.kind}")
