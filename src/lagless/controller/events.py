"""The machine's inputs and outputs. Time is in the events, and nowhere else."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lagless.controller.state import State
from lagless.messages import (
    AnyDecision,
    ControllerState,
    Heartbeat,
    Operation,
    Order,
    Receipt,
    WriteSpeeds,
)
from lagless.model import Cause, Consumer
from lagless.ports import Instance


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by, and the mailbox was heard."""

    at: float
    kind: Literal["tick"] = "tick"


@dataclass(frozen=True, slots=True)
class Deaf:
    """The mailbox could not be heard: silence means nothing until the next other event."""

    at: float
    kind: Literal["deaf"] = "deaf"


@dataclass(frozen=True, slots=True)
class Mail:
    """Receipts and heartbeats, in the order of their arrival."""

    at: float
    messages: tuple[Receipt | Heartbeat, ...]
    kind: Literal["mail"] = "mail"


@dataclass(frozen=True, slots=True)
class Measured:
    """The monitor published speeds."""

    at: float
    speeds: WriteSpeeds
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class Listed:
    """The partitions of interest that exist."""

    at: float
    partitions: tuple[tuple[str, int], ...]
    kind: Literal["listed"] = "listed"


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The consumers that exist, as the provisioner sees them."""

    at: float
    instances: tuple[Instance, ...]
    kind: Literal["provisioned"] = "provisioned"


@dataclass(frozen=True, slots=True)
class NotCreated:
    """Consumers that the provisioner could not create, and why."""

    at: float
    troubles: dict[Consumer, str] = field(default_factory=dict)
    kind: Literal["not created"] = "not created"


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator's command arrived, perhaps not for the first time."""

    at: float
    operation: Operation
    kind: Literal["operated"] = "operated"


Event: TypeAlias = Tick | Deaf | Mail | Measured | Listed | Provisioned | NotCreated | Operated


@dataclass(frozen=True, slots=True)
class Create:
    """Start consumers; what exists is a success."""

    consumers: tuple[Consumer, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """End consumers, each by the incarnation that is meant."""

    consumers: dict[Consumer, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Persist:
    """Persist this in the transaction of the orders that come with it."""

    state: ControllerState


Instruction: TypeAlias = Order | Create | Delete | Persist | AnyDecision


@dataclass(frozen=True, slots=True)
class Turn:
    """What a phase decided: a cause to leave it for, or None to stay."""

    state: State
    out: list[Instruction]
    cause: Cause | None = None
    reason: str = ""
