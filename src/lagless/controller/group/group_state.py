"""What is known of a group that follows plans: its members as seen, and the plan as published."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lagless.controller.group.learning import Learning
from lagless.controller.state import Policy
from lagless.group_ports import GroupMember, Progress
from lagless.model import Consumer, Phase, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """How the controller of such a group decides. Seconds, bytes per second."""

    packing: Policy
    """How partitions are packed, as for lagless's own consumers. Its capacity does not count: the
    one that is set or learned does."""
    rate: float | None
    """C̄ as set; None if it is learned."""
    share: float
    """C/C̄: what a member is given of what it can read."""
    follow_deadline: float
    """For the members to hold what was planned, before a warning."""
    scales: bool
    """Whether someone starts and stops members as the controller asks."""
    ordered: bool = False
    """Whether members go by their ordinal, the highest first."""
    to_zero: bool = False
    """Whether nobody has to be there while nothing is written and everything is read."""
    settle: float = 3
    """Without a change of members, before they get a new plan: several often come together."""
    confirm: float = 60
    """Between two confirmations of a plan; the assignor ignores it once it is too old."""
    first_retry: float = 2
    """Until the members are nudged again for the first time; the wait doubles each time."""
    retry: float = 30
    """At most between two nudges."""
    repeat: float = 5
    """Between two requests for the same number of members."""
    again: float = 600
    """Between two warnings that a plan is not followed."""
    blind: float = 30
    """After the last look at the group, for which it may still be planned for."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """Everything that the machine knows."""

    phase: Phase
    at: float
    generation: int
    began_at: float
    numbers: Mapping[str, Consumer] = field(default_factory=dict)
    """The number of each member that is present or that the plan names."""
    members: Mapping[str, GroupMember] | None = None
    """The members by name, as seen last; None before the first look."""
    protocol: str = ""
    assignor: str = ""
    looked_at: float = float("-inf")
    regrouped_at: float = float("-inf")
    """When members came or went last."""
    regrouped: bool = False
    """Whether they did since the last plan was made."""
    target: Mapping[TopicPartition, Consumer] = field(default_factory=dict)
    """The plan."""
    planned_at: float = float("-inf")
    """When the partitions were packed last, with a new plan or not."""
    changed_at: float = float("-inf")
    """When the plan changed last, or was found not to be followed any more."""
    confirmed_at: float = float("-inf")
    """When the plan was published last."""
    nudges: int = 0
    nudged_at: float = float("-inf")
    follows: bool | None = None
    """Whether the members hold what was planned; None without a plan."""
    warned_at: float = float("-inf")
    """When it was last said that they do not; minus infinity once they do."""
    partitions: Mapping[TopicPartition, float] | None = None
    """The partitions that exist, and when each was seen first."""
    progress: Mapping[TopicPartition, Progress] = field(default_factory=dict)
    speeds: Mapping[TopicPartition, float] = field(default_factory=dict)
    stale: frozenset[TopicPartition] = frozenset()
    measured_at: float = float("-inf")
    bytes_per_offset: Mapping[TopicPartition, float] = field(default_factory=dict)
    learning: Learning = field(default_factory=Learning)
    rate: float | None = None
    """C̄, set or learned; it follows what is learned in steps, so that the group stays calm."""
    wanted: int | None = None
    """How many members there should be; None while nothing can be said."""
    asked: int | None = None
    """How many were asked for last."""
    asked_at: float = float("-inf")
    warnings: tuple[str, ...] = ()
    """What the last plan had to say, so that it is said once."""

    @property
    def names(self) -> dict[Consumer, str]:
        """Return the name of each number."""
        return {n: name for name, n in self.numbers.items()}

    @property
    def present(self) -> dict[Consumer, GroupMember]:
        """Return the members by number, in the order of their numbers."""
        members = self.members or {}
        return {self.numbers[name]: members[name] for name in sorted(members, key=self._number)}

    def _number(self, name: str) -> Consumer:
        return self.numbers[name]

    def holders(self) -> dict[TopicPartition, Consumer]:
        """Return who holds each partition of interest."""
        return {p: n for n, member in self.present.items() for p in member.held}

    def lag(self) -> dict[TopicPartition, float]:
        """Return the bytes behind the committed offsets, where both are known."""
        return {
            p: max(0, it.end - it.committed) * self.bytes_per_offset[p]
            for p, it in self.progress.items()
            if it.committed is not None and p in self.bytes_per_offset
        }
