"""The messages between the roles, and what the controller remembers of them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from lagless.model import TopicPartition

V = TypeVar("V")
LARGEST = 2**62
"""The largest generation, offset or count; tables and Kafka keep them as 64-bit numbers."""
FARTHEST = 2**61
"""The highest generation that a controller accepts from others; higher ones are its own."""
Count = Annotated[int, Field(ge=0, le=LARGEST)]
"""A generation, an offset or a number of records."""
ConsumerNumber = Annotated[int, Field(ge=1, lt=2**31)]
PartitionNumber = Annotated[int, Field(ge=0, lt=2**31)]
Time = Annotated[float, Field(ge=-(2.0**35), le=2.0**36)]
"""Seconds since 1970; between the years 881 and 4147, which can all be shown as dates."""
Amount = Annotated[float, Field(ge=0, le=1e18)]
"""Bytes or bytes/s."""
Seconds = Annotated[float, Field(ge=-1e12, le=1e12)]
"""A duration; negative if a clock was set back meanwhile."""
PerPartition = dict[str, dict[PartitionNumber, Amount]]
"""A number per partition, by topic."""
Numbered = tuple[str, PartitionNumber]
"""A partition: its topic and its number."""
OffsetPerPartition = dict[str, dict[PartitionNumber, Count]]


class Message(BaseModel):
    """The fields of every message."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    version: Literal[1] = 1
    group: str
    message: str = ""
    """The kind of message; each kind has a literal of its own."""

    def encode(self) -> bytes:
        """Write the message as JSON."""
        return self.model_dump_json().encode()


class WriteSpeeds(Message):
    """Monitor → everyone: bytes/s per partition over the last `window` seconds."""

    message: Literal["speeds"] = "speeds"
    at: Time
    window: Seconds
    speeds: PerPartition
    stale: tuple[Numbered, ...] = ()
    bytes_per_offset: PerPartition = {}
    """Log bytes per offset, so that consumers can tell how many bytes a range of offsets is."""
    errors: PerPartition = {}
    """Standard error of each speed, in bytes/s: how far off bursts alone may make it."""


OrderKind = Literal["start", "stop", "report", "retire"]
Held = tuple[str, PartitionNumber, Count]
"""Topic, partition, and the generation of the order under which it is held."""


class Order(Message):
    """Controller → consumer N: change what you read, report what you hold, or end."""

    message: Literal["order"] = "order"
    kind: OrderKind
    consumer: ConsumerNumber
    incarnation: str
    """The incarnation that it is for; "" in a report order only, which any incarnation answers."""
    generation: Count
    partitions: tuple[Numbered, ...] = ()
    at: Time


class Standing(Message):
    """The fields of every message of a consumer: what it knows of its orders."""

    consumer: ConsumerNumber
    incarnation: str
    highest: Count
    """The highest generation that the consumer or one of its tables knows of."""
    revision: Count = 0
    """Counts changes of `held` and `highest`; older messages only prove that the sender lives."""
    held: tuple[Held, ...] = ()
    """Everything that it holds, in a receipt after the order."""
    at: Time


class Receipt(Standing):
    """Consumer → controller: the order is carried out and the state persisted."""

    message: Literal["receipt"] = "receipt"
    kind: OrderKind
    generation: Count
    """The generation of the order that this answers."""
    partitions: tuple[Numbered, ...] = ()
    """The partitions of the order for which it was carried out."""
    refused: tuple[tuple[str, PartitionNumber, str], ...] = ()
    """The partitions of the order for which it failed, with the reason."""


class Heartbeat(Standing):
    """Consumer → controller: a sign of life, with progress and trouble."""

    message: Literal["heartbeat"] = "heartbeat"
    state: Literal["starting", "ready", "ending"]
    waiting_for: Literal["", "spark", "kafka", "lake", "registry"] = ""
    """The system that it waits for (Kafka, Spark, the lake, the schema registry). While it waits, a
    long cycle does not make it lost."""
    bytes_per_second: Amount = 0
    cycle_seconds: Seconds = 0
    """Duration of the last cycle."""
    cycle_age: Seconds = 0
    """For how long the running cycle has been running; 0 between cycles."""
    lag_bytes: Amount = 0
    lag_records: Count = 0
    lag_seconds: Seconds = 0
    backlog: PerPartition = {}
    """Bytes not yet read, per partition that is held."""
    positions: OffsetPerPartition = {}
    """The next offset of each partition that is held, as the table has it; not in 0.1.0."""
    trouble: str = ""
    """The current problem, for people to read."""


class ConsumerState(Standing):
    """The state that a consumer persists before it sends a receipt."""

    message: Literal["consumer"] = "consumer"


OperationKind = Literal["pause", "resume", "drain"]


class Operation(Message):
    """Operator → controller: pause, drain or resume the group; repeated until it is accepted."""

    message: Literal["operation"] = "operation"
    operation: OperationKind
    id: str
    """Drawn for each command: copies of it change nothing."""
    who: str
    until: OffsetPerPartition = {}
    """drain: where each partition's log ended when it was asked for."""
    at: Time


class Mode(BaseModel):
    """The mode that operators asked for last; resume is the normal mode."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    operation: OperationKind = "resume"
    who: str = ""
    at: Time = 0
    """When the controller took the command."""
    until: OffsetPerPartition = {}
    drained: tuple[Numbered, ...] = ()
    """drain: the partitions that were read to their end, or are gone."""
    taken: tuple[str, ...] = ()
    """The ids of the last commands."""

    @property
    def name(self) -> str:
        """Return the mode in one word."""
        left = sum(map(len, self.until.values())) - len(self.drained)
        draining = "draining" if left else "drained"
        return {"resume": "running", "pause": "paused", "drain": draining}[self.operation]


class ControllerState(Message):
    """The state that the controller persists with its orders; a restart begins with this alone."""

    message: Literal["controller"] = "controller"
    generation: Count
    members: dict[ConsumerNumber, str] = {}
    """The incarnation of each consumer that may have been ordered something."""
    team: tuple[ConsumerNumber, ...] = ()
    """The consumers that should exist."""
    ended: dict[str, ConsumerNumber] = {}
    """Incarnations that have ended, and their numbers; their messages are ignored."""
    target: dict[str, dict[PartitionNumber, ConsumerNumber]] = {}
    rate: Amount | None = None
    """The learned rate of one member, in bytes/s; for members that lagless did not write."""
    mode: Mode = Mode()
    """The mode that operators asked for last; not in states of 0.1.0."""
    strangers: bool = False
    """Nothing was persisted and no Synchronize has ended since: others may hold something."""
    at: Time


class Echo(Message):
    """Controller → itself: proof that it can read its mailbox."""

    message: Literal["echo"] = "echo"
    echo: str
    at: Time


class Began(Message):
    """Controller → event log: a controller leads from now on, with this policy and memory."""

    message: Literal["began"] = "began"
    record: Literal["began"] = "began"
    """The name that 0.1.0 knows this kind by."""
    algorithm: str
    policy: dict[str, float]
    persisted: ControllerState | None
    at: Time


class Told(Message):
    """Controller → event log: the events that the machine was given, in this order."""

    message: Literal["told"] = "told"
    record: Literal["told"] = "told"
    """The name that 0.1.0 knows this kind by."""
    events: list[dict[str, Any]]
    at: Time


class Plan(Message):
    """Controller → assignor: which member of the group reads which partitions.

    `assignor/README.md` describes it. Its key is the group's name; the topic is compacted.
    """

    message: Literal["plan"] = "plan"
    generation: Count
    at: Time
    """When it was made or confirmed; the assignor ignores it once it is too old."""
    members: dict[str, dict[str, tuple[PartitionNumber, ...]]]
    """Member → topic → partitions. A member is named by its group.instance.id, or member id."""


class SeenMember(BaseModel):
    """A member of a group that lagless did not write; None means unknown."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    consumer: ConsumerNumber
    """Its number in assignments."""
    name: str
    """Its group.instance.id if it has one, else its member id."""
    client: str = ""
    host: str = ""
    held: dict[str, tuple[PartitionNumber, ...]] = {}
    """Topic → partitions."""
    lag_records: Count | None = None
    lag_bytes: Amount | None = None
    backlog: PerPartition = {}
    """Bytes not yet read, per partition, where that is known."""
    bytes_per_second: Amount | None = None
    """Its recent read rate, from the offsets that it committed."""
    max_rate: Amount | None = None
    """The rate that it can read at, learned while it had a backlog."""


class SeenGroup(Message):
    """Controller → everyone: the members of the group, as the controller sees them."""

    message: Literal["seen"] = "seen"
    at: Time
    members: tuple[SeenMember, ...]
    rate: Amount | None = None
    """C̄: the rate that one member can read at, set or learned; None while unknown."""
    wanted: Count | None = None
    """How many members are needed; None while unknown."""
    follows: bool | None = None
    """Whether the members follow the plan; None without a plan."""


def incarnation(birth: str, drawn: str) -> str:
    """Name an incarnation: the provisioner's name for the start, and what the consumer drew."""
    return f"{birth.replace('.', '-')}.{drawn}"


def birth(incarnation: str) -> str:
    """Return the start that an incarnation belongs to; "" if no provisioner started it."""
    return incarnation.partition(".")[0]


def flatten(table: Mapping[str, Mapping[int, float]]) -> dict[TopicPartition, float]:
    """Turn a number per partition by topic into one mapping, topics and partitions in order."""
    return {
        TopicPartition(topic, p): ps[p] for topic, ps in sorted(table.items()) for p in sorted(ps)
    }


def unnest(table: Mapping[str, Mapping[int, V]]) -> dict[TopicPartition, V]:
    """Turn a value per partition by topic into one mapping, in the order that they have."""
    return {TopicPartition(topic, p): x for topic, ps in table.items() for p, x in ps.items()}


def nest(numbers: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Turn a value per partition into the form that messages carry."""
    table: dict[str, dict[int, V]] = {}
    for partition, number in numbers.items():
        table.setdefault(partition.topic, {})[partition.partition] = number
    return table
