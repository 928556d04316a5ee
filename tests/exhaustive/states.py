"""A state of the small world, as a value that can be compared and hashed.

The parts that the real machines work on (the controller's state, a consumer's memory, messages) are
kept once each in a `Pool` and named by a number, so that a state is a small tuple of numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from lagless.consumer import order_machine
from lagless.messages import ControllerState, Order
from lagless.model import Consumer, Phase, TopicPartition
from lagless.ports import Position, Span

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
NOBODY = -1
"""In place of the number of a part that is not there."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a consumer's process has in memory between two of its steps."""

    state: order_machine.State
    persisted: int = 0
    """The revision that was persisted last."""
    is_ready: bool = False
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where its cycles ended, for estimates."""
    begun: Mapping[TopicPartition, Span] = field(default_factory=dict)
    """What Spark has begun ahead."""
    view: Mapping[TopicPartition, Position] = field(default_factory=dict)
    """What the tables said when the cycle began that is in flight."""


class Process(NamedTuple):
    """A consumer's process."""

    number: Consumer
    birth: str
    serial: int
    """Counts the processes of one start."""
    memory: int
    inbox: tuple[int, ...] = ()
    is_running: bool = True
    """False: it stands still, and may go on at any moment."""
    is_well: bool = True
    """It never stood still."""
    is_terminated: bool = False

    @property
    def incarnation(self) -> str:
        """Return the name by which the controller knows it."""
        return f"{self.birth}.{self.serial}"


class Slot(NamedTuple):
    """A consumer as the provisioner has it."""

    number: Consumer
    birth: str
    is_deleting: bool = False


class Table(NamedTuple):
    """What the table says of a partition, and what nobody can make unsaid."""

    offset: int
    owner: int
    newest: tuple[int, str]
    """The newest claim that was ever accepted: its generation, and whose it was."""


class Outbox(NamedTuple):
    """What follows from a turn of the controller."""

    orders: tuple[int, ...] = ()
    kept: int = NOBODY
    create: tuple[Consumer, ...] = ()
    delete: tuple[tuple[Consumer, str], ...] = ()
    is_urgent: bool = False
    """Something has to be sent before the provisioner is called."""
    notes: tuple[str, ...] = ()
    """What was decided, for people to read."""


class Frozen(NamedTuple):
    """A controller that stands still, and what it was about to do."""

    state: int
    outbox: Outbox
    is_sent: bool
    is_replaced: bool = False


class World(NamedTuple):
    """Everything, between two actions."""

    lead: int = NOBODY
    """The state of the controller that leads."""
    frozen: Frozen | None = None
    kept: int = NOBODY
    """What the controller persisted."""
    slots: tuple[Slot, ...] = ()
    processes: tuple[Process, ...] = ()
    unread: tuple[tuple[Consumer, tuple[int, ...]], ...] = ()
    """Orders that a process did not read before it died; its successor gets them."""
    tables: tuple[Table | None, ...] = (None, None)
    states: tuple[tuple[Consumer, int], ...] = ()
    """What each consumer persisted."""
    mail: tuple[tuple[Consumer, tuple[int, ...]], ...] = ()
    """On the way to the controller, in order, by consumer."""
    astray: tuple[int, ...] = ()
    """Messages that come late."""
    busy: bool = False
    """Whether two consumers are needed."""
    left: tuple[int, ...] = ()
    """How often each fault may still happen."""


def freeze(value: Any) -> Any:
    """Return a value that is equal if and only if the given one says the same."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple([freeze(x) for x in value])
    if kind is dict:
        return tuple(sorted([(freeze(k), freeze(v)) for k, v in value.items()]))
    if kind is frozenset:
        return tuple(sorted([freeze(x) for x in value]))
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = _field_names(kind)
    return (kind.__name__, *[freeze(getattr(value, name)) for name in names])


_PLAIN = {int, float, str, bool, type(None), Phase}
_FIELDS: dict[type, tuple[str, ...]] = {}


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind))
    raise TypeError(f"a {kind.__name__} cannot be told from others")


class Pool:
    """Every part that was ever seen, once."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}
        self._parts: list[Any] = []

    def put(self, part: Any) -> int:
        """Return the number of a part."""
        key = freeze(part)
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self._parts)
            self._parts.append(part)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._parts[number]

    def __len__(self) -> int:
        return len(self._parts)


def kept_of(pool: Pool, number: int) -> ControllerState | None:
    """Return what was persisted, or None."""
    return None if number == NOBODY else pool[number]


def orders_of(pool: Pool, numbers: tuple[int, ...]) -> list[Order]:
    """Return the orders that numbers stand for."""
    return [pool[number] for number in numbers]
