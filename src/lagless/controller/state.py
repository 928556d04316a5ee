"""The controller's knowledge: the policy it is given, the members it hears, the state it keeps.

Target, asked and held are kept apart: `State.target` is what should be, `Member.asked` what was
ordered and not confirmed yet, `Member.held` what the consumer said last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from lagless import messages
from lagless.messages import Heartbeat, Mode
from lagless.model import Assignment, Consumer, Phase, Speeds, TopicPartition
from lagless.ports import Instance

Pack: TypeAlias = Callable[[Speeds, float, Assignment], Assignment]
"""Weights, capacity and previous assignment in, assignment out."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the controller decides. Seconds, bytes per second.

    What users can set has no default here: defaults are in the settings, once.
    """

    group: str
    capacity: float
    pack: Pack
    iteration: float
    """Between reassignments at rest."""
    pause: float
    """At least between reassignments that are not urgent."""
    catch_up: float
    """In which a backlog should be read; 0 leaves it out of the weights."""
    gather: float
    """For which a consumer waits for bytes before each cycle."""
    min_consumers: int
    max_consumers: int
    stale_after: float
    patience: float
    """For a partition that nobody has measured yet."""
    lost_after: float
    start_deadline: float
    order_deadline: float
    cycle_deadline: float
    repeat: float
    """Between two sendings of an order that has no receipt."""
    max_gap: float = 5
    """Between two events, before the controller takes it that it was itself away."""
    breath: float = 1
    """Between two looks at partitions that cannot be placed."""
    backoff: float = 300
    """At most before a consumer is started again after others did not become ready."""
    remember: float = 3600
    """For which an incarnation that is over is remembered."""
    max_rate: float = 0
    """C̄: who cannot keep up with it does not wait for the pause. 0 if it is not known."""
    early_consumers: int = 0
    """Consumers that are started before anything was measured."""
    spare_consumers: int = 0
    """Consumers that are ready and hold nothing, counted apart from all others."""
    dead_band: float = 0
    """By which share of C a consumer may be fuller before partitions move."""
    shrink_after: float = 0
    """For which more consumers must not have been needed before one is saved."""
    delay: float = 0
    """The target that users named, for the reasons of decisions; 0 if they named none."""
    max_move: float = 1
    """Share of the load that may move in one step while nobody has too much."""


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
        """Return whether it reads the partition or may be about to."""
        return partition in self.held or partition in self.asked

    def is_of(self, instance: Instance) -> bool:
        """Return whether its incarnation is the instance that the provisioner sees."""
        return messages.birth(self.incarnation) in ("", instance.birth)

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for something that is not its fault."""
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
    unrest: float = 0.0
    """How much speeds change, from `calm.unrest`."""
    backlog: Mapping[TopicPartition, float] = field(default_factory=dict)
    """The last backlog of partitions whose consumer was lost."""
    instances: Mapping[Consumer, Instance] | None = None
    deleted_at: Mapping[Consumer, float] = field(default_factory=dict)
    reassigned_at: float = float("-inf")
    needs: tuple[tuple[float, int], ...] = ()
    """The packings of late: when, and how many consumers the algorithm asked for."""
    packed_capacity: float = 0
    """The capacity of the last packing: more than C if there are too few consumers."""
    failures: int = 0
    """Consumers in a row that did not become ready."""
    no_creation_until: float = float("-inf")
    lost: tuple[str, ...] = ()
    """Consumers lost since the last reassignment, for its reason."""
    retired: Mapping[str, Consumer] = field(default_factory=dict)
    """Incarnations that have ended and still send messages: they are ordered to exit."""
    contradiction: str = ""
    warnings: tuple[str, ...] = ()
    """The warnings of the last reassignment, so that each is logged once."""
    first_order_at: float | None = None
    mode: Mode = field(default_factory=Mode)
    """The mode that operators asked for last."""
    quiet_since: float = float("-inf")
    """When something was written last, or could have been; kept if the group may scale to zero."""
    read_out: bool = False
    """Everything that was written is known to be read: the group may be at rest."""

    def with_member(self, member: Member) -> "State":
        """Return the state with this member in it."""
        return replace(self, members={**self.members, member.consumer: member})

    def holders(self) -> dict[TopicPartition, Consumer]:
        """Return the consumer that holds each partition; of several, the one ordered last."""
        newest: dict[TopicPartition, tuple[int, Consumer]] = {}
        for n, member in self.members.items():
            for partition, generation in member.held.items():
                if partition not in newest or newest[partition] < (generation, n):
                    newest[partition] = (generation, n)
        return {partition: n for partition, (_, n) in newest.items()}

    def spares(self, policy: Policy) -> frozenset[Consumer]:
        """Return the consumers of the team that are to hold nothing, as far as they are spares.

        Others may be idle too, for the minimum or while the group is paused.
        """
        idle = sorted(self.team - set(self.target.values()))
        return frozenset(idle[max(0, len(idle) - policy.spare_consumers) :])

    def readers(self) -> dict[TopicPartition, Consumer]:
        """Return who has each partition: who holds it, else who is about to get it."""
        coming = {p: n for p, n in self.target.items() if n in self.team}
        return {**coming, **self.holders()}
