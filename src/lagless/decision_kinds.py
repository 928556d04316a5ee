"""The controller's decisions: a tagged union, so that mypy checks who reads which details."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from lagless.message_kinds import (
    Amount,
    ConsumerNumber,
    Count,
    Message,
    OperationKind,
    PartitionNumber,
    Seconds,
    Time,
    unnest,
)
from lagless.model import Cause, Phase, TopicPartition


class Details(BaseModel):
    """The details of a decision beyond its reason; most have none."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Decision(Message):
    """Controller → event log: a decision and its reason. `AnyDecision` lists the kinds."""

    message: Literal["decision"] = "decision"
    decision: str
    reason: str
    at: Time
    phase: Phase
    generation: Count
    consumer: ConsumerNumber | None = None
    details: Details = Details()


class PhaseDetails(Details):
    """Why a phase was left."""

    cause: Cause


class PhaseChanged(Decision):
    """The controller went to another phase."""

    decision: Literal["phase"] = "phase"
    details: PhaseDetails


class AssignmentDetails(Details):
    """A new assignment, and what it costs."""

    assignment: dict[str, dict[PartitionNumber, ConsumerNumber]]
    """Topic → partition → consumer."""
    migrations: tuple[tuple[str, PartitionNumber, ConsumerNumber, ConsumerNumber], ...] = ()
    """Topic, partition, consumer before and consumer after."""
    rscore: Amount | None = 0
    """The paper's: the speeds of the migrated partitions, over C. 0.1.0 summed weights. None while
    C is not known, which happens to groups whose members lagless did not write."""
    weight_moved: Amount | None = None
    """The weights of the migrated partitions, their backlogs included, over C; not in 0.1.0."""
    consumers_before: Count = 0
    consumers: Count = 0
    load: dict[ConsumerNumber, Amount] = {}
    spares: tuple[ConsumerNumber, ...] = ()
    """Consumers that are kept ready without work."""


class Assigned(Decision):
    """Partitions were packed, and orders follow."""

    decision: Literal["assignment"] = "assignment"
    details: AssignmentDetails

    @property
    def target(self) -> dict[TopicPartition, int]:
        """Return the consumer of each partition."""
        return unnest(self.details.assignment)


class Lost(Decision):
    """A consumer is lost, or never became ready."""

    decision: Literal["lost"] = "lost"


class CreatedDetails(Details):
    """The consumers that were requested."""

    consumers: tuple[ConsumerNumber, ...] = ()


class Created(Decision):
    """The controller requested new consumers."""

    decision: Literal["created"] = "created"
    details: CreatedDetails


class Deleted(Decision):
    """A consumer without work is stopped and deleted."""

    decision: Literal["deleted"] = "deleted"


class Warned(Decision):
    """An operator should look at something."""

    decision: Literal["warning"] = "warning"


class TimingDetails(Details):
    """How long a step of the response took, in seconds; only what was measured is written."""

    dt3: Seconds | None = None
    """Creation requested → consumer ready."""
    dt4: Seconds | None = None
    """First order → last receipt."""

    @model_serializer(mode="wrap")
    def _measured(self, dump: SerializerFunctionWrapHandler) -> dict[str, float]:
        return {name: seconds for name, seconds in dump(self).items() if seconds is not None}


class Timed(Decision):
    """A step of the response ended."""

    decision: Literal["timing"] = "timing"
    details: TimingDetails


class Regrouped(Decision):
    """Members that lagless did not write joined or left the group."""

    decision: Literal["members"] = "members"


class ScaledDetails(Details):
    """How many members are needed, and how many there are."""

    wanted: int
    present: int


class Scaled(Decision):
    """The controller requested another number of members."""

    decision: Literal["scale"] = "scale"
    details: ScaledDetails


class LearnedDetails(Details):
    """The rate that a member can read at."""

    rate: float
    """C̄, in bytes/s."""


class Learned(Decision):
    """The rate that a member can read at was learned from members with a backlog."""

    decision: Literal["rate"] = "rate"
    details: LearnedDetails


class OperatedDetails(Details):
    """The mode that an operator asked for, and its progress."""

    operation: OperationKind
    state: str
    """running, paused, draining or drained."""
    who: str
    asked_at: Time
    """When the controller accepted the command."""


class Operated(Decision):
    """An operator's command was accepted, or a drain is complete."""

    decision: Literal["operation"] = "operation"
    details: OperatedDetails


AnyDecision: TypeAlias = (
    PhaseChanged
    | Assigned
    | Lost
    | Created
    | Deleted
    | Warned
    | Timed
    | Operated
    | Regrouped
    | Scaled
    | Learned
)
