"""The interfaces to the outside of the roles; adapters and the in-memory world implement them.

Passing trouble is raised as TryAgain; a service waits and calls again. Nothing here says how.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from lagless.messages import (
    ConsumerState,
    ControllerState,
    Heartbeat,
    Message,
    Operation,
    Order,
    Receipt,
    WriteSpeeds,
)
from lagless.model import Consumer, TopicPartition


class Clock(Protocol):
    """Time, real or virtual."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Let that much time go by."""


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of one leader replica at one moment."""

    bytes: int
    start_offset: int
    end_offset: int
    topic_id: str = ""
    """Kafka's UUID of the topic: a topic that is created again has another one."""
    leader: int = -1
    """The broker that was asked: a log that moved may have another size."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round over all brokers."""

    at: float
    sizes: Mapping[TopicPartition, LogSize]
    failed: frozenset[TopicPartition] = frozenset()
    """Partitions of interest whose broker or log folder did not answer."""


class LogSizes(Protocol):
    """The sizes of the logs of the partitions of interest."""

    @property
    def errors(self) -> int:
        """Count the answers of brokers that were missing or wrong."""

    def measure(self) -> Measurement:
        """Ask every broker once."""


class SpeedsOut(Protocol):
    """Where the monitor publishes."""

    def publish(self, speeds: WriteSpeeds) -> None:
        """Publish one message and return when the broker has it."""


class ConsumerMailbox(Protocol):
    """A consumer's side of the mail."""

    def recall(self) -> ConsumerState | None:
        """Return what consumer N persisted last, by whichever incarnation."""

    def receive(self, timeout: float) -> list[Order]:
        """Return the orders that arrived, waiting at most `timeout` seconds for the first."""

    def persist(self, state: ConsumerState) -> None:
        """Persist the state; return when the broker has it."""

    def send(self, message: Receipt | Heartbeat) -> None:
        """Send to the controller; heartbeats come from a thread of their own."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A consumer as the provisioner sees it."""

    consumer: Consumer
    phase: Literal["starting", "running", "failed", "deleting"]
    created_at: float
    trouble: str = ""
    """Why it does not start or keeps dying, for people to read."""
    birth: str = ""
    """This start's own name, which its incarnation begins with (messages.birth)."""


@dataclass(frozen=True, slots=True)
class Post:
    """The input of one turn of the controller."""

    messages: tuple[Receipt | Heartbeat, ...] = ()
    speeds: WriteSpeeds | None = None
    """The newest measurement, if there is a new one."""
    operations: tuple[Operation, ...] = ()
    """Commands of operators, in the order of their arrival."""
    plan_lost: bool = False
    """The plan's topic was gone and has been created again: the plan has to be published again."""
    deaf: bool = False
    """The mailbox cannot be read now, so the silence of a consumer means nothing."""


class ControllerMailbox(Protocol):
    """The controller's side of the mail. Everything raises Fenced once another controller acts."""

    def lead(self) -> ControllerState | None:
        """Wait until this is the one controller that acts; give what was persisted last."""

    def receive(self, timeout: float) -> Post:
        """Return what arrived, waiting at most `timeout` seconds for the first."""

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        """Send orders, the state to persist and the event log in one transaction, or nothing."""

    def partitions(self) -> Collection[TopicPartition]:
        """Return the partitions of interest that exist."""

    def close(self) -> None:
        """Give up the lead."""


class Provisioner(Protocol):
    """Starts and stops consumers."""

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Start these consumers side by side; what exists already is a success.

        Give the troubles of those that could not be started; NotYet's words where one is just
        being deleted. Raise TryAgain where nothing can be started now.
        """

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Stop consumers, each named with the incarnation that is meant ("" any); gone is gone."""

    def instances(self) -> Sequence[Instance]:
        """Return what exists, also what was started by an earlier controller."""


@dataclass(frozen=True, slots=True)
class Position:
    """A partition's state in a table."""

    offset: int
    """The next offset to read."""
    owner: int
    """The generation of the order under which it is read."""
    epoch: int = field(default=-1, compare=False)
    """The leader epoch in which Kafka's log reached to the offset; -1 unknown."""


@dataclass(frozen=True, order=True, slots=True)
class Topic:
    """A Kafka topic; deleted and created again, it has the same name and another id."""

    name: str
    id: str


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, from `first` up to and without `until`."""

    first: int
    until: int
    epoch: int = field(default=-1, compare=False)
    """The leader epoch in which Kafka's log reached to `until`; -1 unknown."""

    def __len__(self) -> int:
        return max(0, self.until - self.first)


Held: TypeAlias = Mapping[TopicPartition, int]
"""The generations of the orders under which partitions are read."""
Positions: TypeAlias = Mapping[TopicPartition, Position]
Spans: TypeAlias = Mapping[TopicPartition, Span]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a partition's log begins and ends for a reader of the given isolation."""

    earliest: int
    end: int
    epoch: int = field(default=-1, compare=False)
    """The leader's epoch, which grows with each election; -1 unknown."""


class Offsets(Protocol):
    """Kafka's view of the partitions that a consumer reads."""

    def topics(self, names: Collection[str]) -> Mapping[str, tuple[Topic, int]]:
        """Return each topic and its number of partitions; one that is not there is left out."""

    def bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return where the logs begin and end now; a partition that is not there is left out."""

    def ends(
        self, epochs: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int]:
        """Return where each partition's epoch ends in its log now, of whose leader `bounds` are.

        A partition is left out if Kafka does not know.
        """

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets, where there are any."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group, for people and tools to look at."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The result of one cycle for one table."""

    rows: int = 0
    rejected: int = 0
    unknown_fields: int = 0
    """Fields of JSON objects that the schema does not name."""
    bytes: float = 0
    """Bytes of keys and values, as they are without compression."""
    records: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each part took."""
    landed: bool = True
    """False: the table's offsets had changed, and nothing was added; look again."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry keeps it."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[str, ...] = ()
    """The texts of the schemas that it refers to, each after those that it refers to itself."""


class Registry(Protocol):
    """The schemas that ids in records mean."""

    def schema(self, number: int) -> Schema | None:
        """Return the schema with an id; None if the registry says that there is none.

        Raise Away for every other answer, and for none.
        """


class Tables(Protocol):
    """The tables of the lake, one per topic, with Spark and the rule of exactly once.

    A topic's calls come from one thread at a time; those of different topics side by side. Every
    partition that a call names belongs to its topic. ClaimLost names the partitions that another
    consumer owns; the lake alone compares owners.
    """

    def claim(
        self,
        topic: Topic,
        partitions: Collection[TopicPartition],
        generation: int | None,
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> Held:
        """Take partitions over and return each one's generation; None takes the owner's plus one.

        `first` returns where to begin in every partition of a topic that the group never met;
        `earliest` is where to begin in partitions that joined later, or in a recreated topic.
        """

    def look(self, topic: Topic, generations: Held) -> Positions:
        """Return the positions as they are now; ClaimLost unless each is owned as given.

        Only what was looked at can be ingested.
        """

    def begun(self, topic: Topic) -> Spans:
        """Return the spans that were begun ahead for the topic and could still be used, if any."""

    def ingest(
        self, topic: Topic, spans: Spans, generations: Held, check: Callable[[], None], then: Spans
    ) -> Intake:
        """Read, write and commit these spans, which begin where the last look said.

        `check` is called before the commit and raises when it must not happen any more. `then` are
        spans that the next call will probably be about: they may be begun ahead (see `begun`), and
        are committed by that call only.
        """

    def give_up(self, topic: Topic, spans: Spans, generations: Held) -> None:
        """Record spans that Kafka deleted before they were read, and continue after them."""

    def rehearse(self) -> bool:
        """Run one more warm-up cycle; return whether another one would help."""

    def ready(self) -> None:
        """Open and warm up what the first cycle needs; raise TryAgain if it is unavailable."""

    def interrupt(self) -> None:
        """Cancel calls that run past their deadline, and forget everything that was begun."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group of a cluster, in one line; None stands for what is not known."""

    group: str
    mode: str = ""
    """running, paused, draining or drained."""
    generation: int | None = None
    consumers: int | None = None
    """Consumers that should exist."""
    partitions: int | None = None
    """Partitions that consumers are to read."""
    alive: int | None = None
    """Consumers that sent a message recently, if their mail is in the same topic."""
    lag_seconds: float | None = None
    """Age of the oldest record not yet read."""
    lag_bytes: float | None = None
    trouble: str = ""
    """Why the rest is unknown."""
