"""What crosses a process border: JSON with a version and the group that it belongs to.

Unknown fields are ignored, so that a newer sender can speak to an older reader. A message of
another group is nobody's business: readers drop it before they look further.
"""

import json
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lagless.errors import WrongInput
from lagless.model import TopicPartition

PerPartition = dict[str, dict[int, float]]
"""A number per partition, by topic."""


class Message(BaseModel):
    """What every message has."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: Literal[1] = 1
    group: str

    def encode(self) -> bytes:
        """Write the message as JSON."""
        return self.model_dump_json().encode()


class WriteSpeeds(Message):
    """Monitor → everyone: bytes/s per partition over the last `window` seconds."""

    at: float
    window: float
    speeds: PerPartition
    stale: tuple[tuple[str, int], ...] = ()
    bytes_per_offset: PerPartition = {}
    """Log bytes per offset, so that consumers can tell how many bytes a range of offsets is."""


OrderKind = Literal["start", "stop", "report", "retire"]
Held = tuple[str, int, int]
"""Topic, partition, and the generation of the order under which it is held."""


class Order(Message):
    """Controller → consumer N: change what you read, tell me what you hold, or end."""

    kind: OrderKind
    consumer: int
    incarnation: str
    """Whom it is meant for; "" in a report order only: whoever is there answers."""
    generation: int
    partitions: tuple[tuple[str, int], ...] = ()
    at: float


class Receipt(Message):
    """Consumer → controller: the order is carried out and the state persisted."""

    kind: OrderKind
    consumer: int
    incarnation: str
    generation: int
    """The generation of the order that this answers."""
    highest: int
    """The highest generation that the consumer or one of its tables knows of."""
    revision: int = 0
    """Counts the sender's changes of `held` and `highest`: what is older is no news."""
    partitions: tuple[tuple[str, int], ...] = ()
    """What the order named and is now so."""
    held: tuple[Held, ...] = ()
    """Everything that is held after the order."""
    refused: tuple[tuple[str, int, str], ...] = ()
    """What the order named and could not be done, with the reason."""
    at: float


class Heartbeat(Message):
    """Consumer → controller: alive, and how it does."""

    consumer: int
    incarnation: str
    highest: int
    revision: int = 0
    """Counts the sender's changes of `held` and `highest`: what is older is no news."""
    state: Literal["starting", "ready", "ending"]
    waiting_for: Literal["", "spark", "kafka", "lake"] = ""
    """What it waits for through no fault of its own: then a long cycle is no loss."""
    held: tuple[Held, ...] = ()
    bytes_per_second: float = 0
    cycle_seconds: float = 0
    """How long the last cycle took."""
    cycle_age: float = 0
    """For how long the running cycle has been running; 0 between cycles."""
    lag_bytes: float = 0
    lag_records: int = 0
    lag_seconds: float = 0
    backlog: PerPartition = {}
    """Bytes not yet read, per partition that is held."""
    trouble: str = ""
    """What is wrong, for people to read."""
    at: float


class ConsumerState(Message):
    """What a consumer persists before it sends a receipt."""

    consumer: int
    incarnation: str
    highest: int
    revision: int = 0
    held: tuple[Held, ...] = ()
    at: float


class ControllerState(Message):
    """What the controller persists with its orders: a restart begins with this and nothing else."""

    generation: int
    members: dict[int, str] = {}
    """The incarnation of each consumer that may have been ordered something."""
    team: tuple[int, ...] = ()
    """The consumers that should be."""
    ended: dict[str, int] = {}
    """Incarnations that are over, and their numbers: what they say is not heard any more."""
    target: dict[str, dict[int, int]] = {}
    strangers: bool = False
    """Nothing was persisted and no Synchronize has ended since: others may hold something."""
    at: float


class Echo(Message):
    """Controller → itself: proof that the mailbox is heard."""

    echo: str
    at: float


class Decision(Message):
    """Controller → event log: what was decided, and why."""

    decision: str
    """phase, assignment, lost, created, deleted, joined, warning or timing."""
    reason: str
    at: float
    phase: str
    generation: int
    consumer: int | None = None
    details: dict[str, Any] = {}


def incarnation(birth: str, drawn: str) -> str:
    """Name an incarnation: the provisioner's name for the start, and what the consumer drew."""
    return f"{birth.replace('.', '-')}.{drawn}"


def birth(incarnation: str) -> str:
    """Give the start that an incarnation belongs to; "" if no provisioner started it."""
    return incarnation.partition(".")[0]


M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes | str) -> M:
    """Read a message; raise WrongInput that says what does not fit."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WrongInput(f"this is no {kind.__name__}: {place}: {first['msg']}") from error


def group_of(data: bytes | str) -> str | None:
    """Give the group that a message names, or None where it cannot be told."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    group = document.get("group") if isinstance(document, dict) else None
    return group if isinstance(group, str) else None


def flatten(table: PerPartition) -> dict[TopicPartition, float]:
    """Turn a number per partition by topic into one mapping, topics and partitions in order."""
    return {
        TopicPartition(topic, partition): table[topic][partition]
        for topic in sorted(table)
        for partition in sorted(table[topic])
    }


def nest(numbers: dict[TopicPartition, float]) -> PerPartition:
    """Turn a number per partition into the form that messages carry."""
    table: PerPartition = {}
    for partition, number in numbers.items():
        table.setdefault(partition.topic, {})[partition.partition] = number
    return table
