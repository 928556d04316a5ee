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
    """What a decision says beyond its reason; most say nothing."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Decision(Message):
    """Controller → event log: what was decided, and why. `AnyDecision` lists the kinds."""

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
    """The consumers that were asked for."""

    consumers: tuple[ConsumerNumber, ...] = ()


class Created(Decision):
    """Consumers were asked for."""

    decision: Literal["created"] = "created"
    details: CreatedDetails


class Deleted(Decision):
    """A consumer has no work and is ended."""

    decision: Literal["deleted"] = "deleted"


class Warned(Decision):
    """Something is worth a person's attention."""

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
    """How many members there should be, and how many there are."""

    wanted: int
    present: int


class Scaled(Decision):
    """Another number of members was asked for."""

    decision: Literal["scale"] = "scale"
    details: ScaledDetails


class LearnedDetails(Details):
    """What a member can read."""

    rate: float
    """C̄, in bytes/s."""


class Learned(Decision):
    """It was learned from members with a backlog what a member can read."""

    decision: Literal["rate"] = "rate"
    details: LearnedDetails


class OperatedDetails(Details):
    """What an operator asked for, and how far it is."""

    operation: OperationKind
    state: str
    """running, paused, draining or drained."""
    who: str
    asked_at: Time
    """When the controller took the command."""


class Operated(Decision):
    """An operator's command was taken, or a drain is done."""

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
