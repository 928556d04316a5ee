"""The one reader of the event log: phase, target, reassignments and how long responses took.

Decisions go in, in the order in which they were made or in any other (who opens a page late reads
topics one after the other), so everything is ordered by the time that the decisions themselves
carry. The dashboard, the demo, the live evaluation, the status command and the controller's
metrics all read the log through `History`, and none of them looks into a decision's JSON.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lagless import messages
from lagless.messages import AnyDecision, Assigned, Decision, Message, Timed
from lagless.model import Cause, Consumer, Phase, TopicPartition

KEPT = 500
"""Decisions, and reassignments, that are kept."""
OLD = 60.0
"""Seconds after which a creation no longer counts as a result of a measurement."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One pass from Reassign to the last receipt."""

    at: float
    generation: int
    reason: str
    consumers: int
    migrations: int
    rscore: float | None
    """None where C was not known."""
    weight_moved: float | None = None
    """The weight that moved, backlogs included, over C; not in logs of 0.1.0."""
    dt2: float | None = None
    """Measurement → creation requested, in seconds."""
    dt3: float | None = None
    """Requested → ready."""
    dt4: float | None = None
    """First order → last receipt."""


class History:
    """The controller's state, as its decisions show it."""

    def __init__(self, decisions: Iterable[Message] = ()) -> None:
        self.decisions: list[AnyDecision] = []
        self.reassignments: list[Reassignment] = []
        self.phase: Phase | None = None
        self.phase_at = 0.0
        self.target: Mapping[TopicPartition, Consumer] = {}
        self.target_at = 0.0
        self.spares: frozenset[Consumer] = frozenset()
        """Consumers that are kept ready without work, by the same decision as `target`."""
        self.mode: messages.Operated | None = None
        """The mode that operators asked for last, and its progress; None if unknown."""
        self.deleted_at: dict[Consumer, float] = {}
        """When a consumer was deleted; it may come again under the same number."""
        self.heard_at: float | None = None
        """Time of the controller's last message."""
        self.reassigned = self.migrated = self.lost = self.contradicted = 0
        """How many there were since this history began, kept or not."""
        self._created_at: dict[int, float] = {}
        """When new consumers were first asked for, by generation."""
        self._exit: tuple[float, str] = (0.0, "")
        """When and why Sentinel was left last."""
        for decision in decisions:
            if isinstance(decision, AnyDecision):
                self.take(decision)

    def alive(self, at: float) -> None:
        """Note that the controller was there."""
        self.heard_at = max(at, self.heard_at or 0)

    def take(self, decision: AnyDecision) -> None:
        """Take in one decision."""
        self.alive(decision.at)
        if decision.at >= self.phase_at:
            if decision.phase != self.phase:
                self.phase_at = decision.at
            self.phase = decision.phase
        match decision:
            case messages.PhaseChanged(phase=Phase.REASSIGN):
                self._exit = (decision.at, decision.reason)
            case messages.PhaseChanged(phase=Phase.SYNCHRONIZE):
                self.contradicted += 1
            case Assigned():
                self._assigned(decision)
            case Timed():
                self._timed(decision)
            case messages.Created():
                self._created_at.setdefault(decision.generation, decision.at)
            case messages.Deleted(consumer=int(consumer)):
                self.deleted_at[consumer] = decision.at
            case messages.Operated():
                if self.mode is None or decision.at >= self.mode.at:
                    self.mode = decision
            case messages.Lost():
                self.lost += 1
        insort(self.decisions, decision, key=lambda known: known.at)
        del self.decisions[:-KEPT]

    def latest(self, *kinds: type[Decision]) -> AnyDecision | None:
        """Return the newest decision of these kinds."""
        return next((known for known in reversed(self.decisions) if isinstance(known, kinds)), None)

    def timed(self, measured: Sequence[float]) -> list[Reassignment]:
        """Return the reassignments with Δt2: the newest measurement to the creations it asks for.

        `measured` are the times of the measurements, in order.
        """
        return [replace(known, dt2=self._dt2(known, measured)) for known in self.reassignments]

    def _dt2(self, known: Reassignment, measured: Sequence[float]) -> float | None:
        at = self._created_at.get(known.generation)
        count = 0 if at is None else bisect_right(measured, at)
        if at is None or count == 0 or at - measured[count - 1] > OLD:
            return None
        return at - measured[count - 1]

    def _assigned(self, decision: Assigned) -> None:
        details = decision.details
        if decision.at >= self.target_at:
            self.target_at = decision.at
            self.target = decision.target
            self.spares = frozenset(details.spares)
        self.reassigned += 1
        self.migrated += len(details.migrations)
        # The interval is the one exit from Sentinel that is not announced: it comes all the time.
        at, reason = self._exit
        new = Reassignment(
            at=decision.at,
            generation=decision.generation,
            reason=reason if at == decision.at else Cause.INTERVAL.value,
            consumers=details.consumers,
            migrations=len(details.migrations),
            rscore=details.rscore,
            weight_moved=details.weight_moved,
        )
        insort(self.reassignments, new, key=lambda known: known.at)
        del self.reassignments[:-KEPT]

    def _timed(self, decision: Timed) -> None:
        """Add the times that a reassignment took to it, as they become known."""
        spare = decision.consumer in self.spares
        for index, known in enumerate(self.reassignments):
            if known.generation == decision.generation:
                self.reassignments[index] = replace(
                    known,
                    # Consumers start side by side: the last one that is ready ends the wait.
                    # For a spare nobody waits.
                    dt3=_longer(known.dt3, None if spare else decision.details.dt3),
                    dt4=_longer(known.dt4, decision.details.dt4),
                )


def _longer(known: float | None, new: float | None) -> float | None:
    return known if new is None else max(new, known or 0.0)
