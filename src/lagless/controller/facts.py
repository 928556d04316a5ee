"""What the controller knows: the policy it is given, the members it hears, the state it carries.

Target, asked and held are kept apart: `State.target` is what should be, `Member.asked` what was
ordered and not confirmed yet, `Member.held` what the consumer said last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from lagless import messages
from lagless.messages import ControllerState, Heartbeat
from lagless.model import Assignment, Consumer, Speeds, TopicPartition
from lagless.ports import Instance

Pack: TypeAlias = Callable[[Speeds, float, Assignment], Assignment]
"""Weights, capacity and previous assignment in, assignment out."""


class Phase(StrEnum):
    """The states of the paper's figure "Controller State Machine"."""

    SYNCHRONIZE = "Synchronize"
    SENTINEL = "Sentinel"
    REASSIGN = "Reassign"
    MANAGEMENT = "Group Management"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the controller decides. Seconds, bytes per second."""

    group: str
    capacity: float
    pack: Pack
    iteration: float = 30
    """Between reassignments at rest."""
    pause: float = 10
    """At least between reassignments that are not urgent."""
    catch_up: float = 60
    """In which a backlog should be read; 0 leaves it out of the weights."""
    gather: float = 0
    """For which a consumer waits for bytes before each cycle."""
    min_consumers: int = 1
    max_consumers: int = 1000
    stale_after: float = 60
    patience: float = 30
    """For a partition that nobody has measured yet."""
    lost_after: float = 20
    start_deadline: float = 120
    order_deadline: float = 30
    cycle_deadline: float = 60
    repeat: float = 5
    """Between two sendings of an order that has no receipt."""
    max_gap: float = 5
    """Between two events, before the controller takes it that it was itself away."""
    breath: float = 1
    """Between two looks at partitions that cannot be placed."""
    backoff: float = 300
    """At most before a consumer is started again after others did not become ready."""
    remember: float = 3600
    """For which an incarnation that is over is remembered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An order for one partition that is not confirmed."""

    kind: Literal["start", "stop"]
    generation: int
    since: float
    """When it was asked first, in whichever generation: deadlines count from here."""
    sent_at: float
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One incarnation of a consumer."""

    consumer: Consumer
    incarnation: str
    heard_at: float
    ready: bool = False
    highest: int = 0
    revision: int = -1
    held: Mapping[TopicPartition, int] = field(default_factory=dict)
    asked: Mapping[TopicPartition, Asked] = field(default_factory=dict)
    last: Heartbeat | None = None
    waited_at: float = float("-inf")
    """When it last said that it waits for something that is not its fault."""
    reported_at: float = float("-inf")
    """When it was asked last for a report."""
    successor: str = ""
    """Another incarnation of the same number that speaks; it waits until this one is over."""

    def reads(self, partition: TopicPartition) -> bool:
        """Say whether it reads the partition or may be about to."""
        return partition in self.held or partition in self.asked

    @property
    def is_waiting(self) -> bool:
        """Say whether it waits for something that is not its fault."""
        return self.last is not None and self.last.waiting_for != ""

    @property
    def cycle_age(self) -> float:
        """For how long its running cycle has been running."""
        return self.last.cycle_age if self.last is not None else 0


@dataclass(frozen=True, slots=True)
class Request:
    """A consumer that should be and is not ready yet."""

    since: float
    created_at: float = float("-inf")
    """When its creation was asked for last."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the machine knows."""

    phase: Phase
    at: float
    generation: int
    fence: int
    """The generation of the last Synchronize: who has answered it is known."""
    began_at: float
    hearing_since: float
    """Since when the mailbox is heard without a break: nobody was silent for longer."""
    synchronizing_since: float
    known: int = 0
    """The highest generation that any consumer has spoken of, whoever it is by now."""
    knew_nothing: bool = False
    """Nothing was persisted, so that strangers may hold something."""
    members: Mapping[Consumer, Member] = field(default_factory=dict)
    ended: Mapping[str, tuple[Consumer, float]] = field(default_factory=dict)
    team: frozenset[Consumer] = frozenset()
    requests: Mapping[Consumer, Request] = field(default_factory=dict)
    target: Mapping[TopicPartition, Consumer] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, float] | None = None
    """The partitions that exist, and when each was seen first."""
    speeds: Mapping[TopicPartition, float] = field(default_factory=dict)
    """The last speed of each partition that was ever measured."""
    stale: frozenset[TopicPartition] = frozenset()
    """Partitions that the last measurement left out or called stale."""
    measured_at: float = float("-inf")
    backlog: Mapping[TopicPartition, float] = field(default_factory=dict)
    """The last backlog of partitions whose consumer was lost."""
    instances: Mapping[Consumer, Instance] | None = None
    deleted_at: Mapping[Consumer, float] = field(default_factory=dict)
    reassigned_at: float = float("-inf")
    packed_capacity: float = 0
    """The capacity of the last packing: more than C if there are too few consumers."""
    failures: int = 0
    """Consumers in a row that did not become ready."""
    no_creation_until: float = float("-inf")
    lost: tuple[str, ...] = ()
    """Who was lost since the last reassignment, for its reason."""
    retired: Mapping[str, Consumer] = field(default_factory=dict)
    """Incarnations that are over and spoke: to be told to end."""
    contradiction: str = ""
    warnings: tuple[str, ...] = ()
    """What the last reassignment had to say, so that it is said once."""
    first_order_at: float | None = None
    requested_at: float | None = None

    def with_member(self, member: Member) -> "State":
        """Give the state with this member in it."""
        return replace(self, members={**self.members, member.consumer: member})


def is_of(member: Member, instance: Instance) -> bool:
    """Say whether the member's incarnation is what the provisioner sees."""
    return messages.birth(member.incarnation) in ("", instance.birth)


def begin(persisted: ControllerState | None, at: float) -> State:
    """Begin with what was persisted: in Synchronize, with a full deadline for everyone."""
    generation = (persisted.generation if persisted is not None else 0) + 1
    state = State(
        phase=Phase.SYNCHRONIZE,
        at=at,
        generation=generation,
        fence=generation,
        began_at=at,
        hearing_since=at,
        synchronizing_since=at,
        knew_nothing=persisted is None or persisted.strangers,
    )
    if persisted is None:
        return state
    return replace(
        state,
        members={n: Member(n, i, heard_at=at) for n, i in persisted.members.items()},
        ended={i: (n, at) for i, n in persisted.ended.items()},
        team=frozenset(persisted.team),
        target={
            TopicPartition(topic, partition): n
            for topic, numbers in persisted.target.items()
            for partition, n in numbers.items()
        },
    )


def persisted(state: State, group: str) -> ControllerState:
    """Give what has to be persisted with the orders of this state."""
    target: dict[str, dict[int, int]] = {}
    for partition, consumer in state.target.items():
        target.setdefault(partition.topic, {})[partition.partition] = consumer
    return ControllerState(
        group=group,
        generation=state.generation,
        members={n: member.incarnation for n, member in state.members.items()},
        team=tuple(sorted(state.team)),
        ended={i: n for i, (n, _) in state.ended.items()},
        target=target,
        strangers=state.knew_nothing,
        at=state.at,
    )


def must_persist(before: State, after: State) -> bool:
    """Say whether a restart that knows only `before` could be wrong about `after`."""
    return (
        before.generation != after.generation
        or before.team != after.team
        or before.knew_nothing != after.knew_nothing
        or before.ended is not after.ended
        or before.target is not after.target
        or (
            before.members is not after.members
            and {n: m.incarnation for n, m in before.members.items()}
            != {n: m.incarnation for n, m in after.members.items()}
        )
    )
