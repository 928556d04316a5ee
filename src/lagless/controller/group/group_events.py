"""What the machine of a group that follows plans is told, and what it answers."""

from dataclasses import dataclass
from typing import TypeAlias

from lagless.controller.events import Listed, Measured, Persist, Tick
from lagless.group_ports import GroupMember, Membership, Progress
from lagless.messages import AnyDecision, Plan, SeenGroup
from lagless.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Looked:
    """The group as its coordinator sees it, and how far it is."""

    at: float
    group: Membership
    progress: dict[TopicPartition, Progress]


@dataclass(frozen=True, slots=True)
class PlanLost:
    """The plan's topic was gone and has been created again."""

    at: float


GroupEvent: TypeAlias = Tick | Listed | Measured | Looked | PlanLost


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the plan, in the transaction of the state that comes with it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Nudge:
    """Make the coordinator assign again, once the plan is published."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Have so many members; those without work should go first."""

    size: int
    idle: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class Show:
    """Tell everyone how the group is seen."""

    seen: SeenGroup


GroupInstruction: TypeAlias = Publish | Nudge | Scale | Show | Persist | AnyDecision
