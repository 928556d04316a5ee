"""The controller's side of the story: phase, target, reassignments and the log of events."""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from lagless.dashboard import words
from lagless.messages import Decision
from lagless.model import Consumer, TopicPartition

KEPT = 500
"""Lines of the log, and reassignments, that are kept."""
PHASES = ("Synchronize", "Sentinel", "Reassign", "Group Management")
"""The paper's controller, section "Controller"."""

OLD = 60.0
"""Seconds after which a measurement is nothing that a creation follows from."""
INTERVAL = "the interval is up"
"""The one exit from Sentinel that the controller does not announce, since it comes all the time."""

Level = Literal["bad", "warn", "note"]
_LEVELS: Mapping[str, Level] = {"lost": "bad", "warning": "warn"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the event log."""

    at: float
    what: str
    why: str = ""
    level: Level = "note"


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One pass from Reassign to the last receipt."""

    at: float
    generation: int
    reason: str
    consumers: int
    migrations: int
    rscore: float
    dt2: float | None = None
    """Measurement → creation requested, in seconds."""
    dt3: float | None = None
    """Requested → ready."""
    dt4: float | None = None
    """First order → last receipt."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a step of the response takes: the last time, and as a rule."""

    name: str
    meaning: str
    last: float | None
    median: float | None
    count: int


class Decisions:
    """Keep what the controller said about itself."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.reassignments: list[Reassignment] = []
        self.phase = ""
        self.phase_at = 0.0
        self.target: Mapping[TopicPartition, Consumer] = {}
        self.target_at = 0.0
        self.ended: dict[Consumer, float] = {}
        """When a consumer was deleted; it may come again under the same number."""
        self.created: dict[int, float] = {}
        """When new consumers were first asked for, by generation."""
        self.heard_at: float | None = None
        self._exits: dict[float, str] = {}
        """Why Sentinel was left, by the time."""

    def alive(self, at: float) -> None:
        """Take note that the controller was there."""
        self.heard_at = max(at, self.heard_at or 0)

    def take(self, said: Decision) -> None:
        """Take in one decision; they come in the order in which they were made."""
        self.alive(said.at)
        if said.at >= self.phase_at:
            if said.phase != self.phase:
                self.phase_at = said.at
            self.phase = said.phase
        if said.decision == "phase" and said.phase == "Reassign":
            self._exits = {said.at: said.reason}
        if said.decision == "assignment":
            self._assigned(said)
        elif said.decision == "timing":
            self._timed(said)
        elif said.decision == "created":
            self.created.setdefault(said.generation, said.at)
        elif said.decision == "deleted" and said.consumer is not None:
            self.ended[said.consumer] = said.at
        line = Line(said.at, said.decision, _why(said), _LEVELS.get(said.decision, "note"))
        insort(self.lines, line, key=lambda known: known.at)
        del self.lines[:-KEPT]

    def timed(self, measured: Sequence[float]) -> list[Reassignment]:
        """Give the reassignments with Δt2: from the newest measurement to the creations asked for.

        `measured` are the times of the measurements, in order.
        """
        return [
            one if one.dt2 is not None else replace(one, dt2=self._dt2(one.generation, measured))
            for one in self.reassignments
        ]

    def _dt2(self, generation: int, measured: Sequence[float]) -> float | None:
        at = self.created.get(generation)
        place = 0 if at is None else bisect_right(measured, at)
        if at is None or place == 0 or at - measured[place - 1] > OLD:
            return None
        return at - measured[place - 1]

    def _assigned(self, said: Decision) -> None:
        if said.at >= self.target_at:
            self.target_at = said.at
            self.target = {
                TopicPartition(topic, int(number)): int(consumer)
                for topic, numbers in said.details.get("assignment", {}).items()
                for number, consumer in numbers.items()
            }
        new = Reassignment(
            at=said.at,
            generation=said.generation,
            reason=self._exits.get(said.at, INTERVAL),
            consumers=int(said.details.get("consumers", 0)),
            migrations=len(said.details.get("migrations", ())),
            rscore=float(said.details.get("rscore", 0)),
        )
        insort(self.reassignments, new, key=lambda known: known.at)
        del self.reassignments[:-KEPT]

    def _timed(self, said: Decision) -> None:
        """Add the times that a reassignment took to it, as they become known."""
        for place, known in enumerate(self.reassignments):
            if known.generation == said.generation:
                self.reassignments[place] = replace(
                    known,
                    dt2=_longer(known.dt2, said.details.get("dt2")),
                    # Consumers start side by side: the last one that is ready ends the wait.
                    dt3=_longer(known.dt3, said.details.get("dt3")),
                    dt4=_longer(known.dt4, said.details.get("dt4")),
                )


def _longer(known: float | None, new: float | None) -> float | None:
    return known if new is None else max(float(new), known or 0.0)


def _why(said: Decision) -> str:
    """Give the reason, with the times that were measured."""
    if said.decision == "phase":
        return f"{said.phase}: {said.reason}"
    times = [
        f"Δt{number} {words.duration(float(said.details[f'dt{number}']))}"
        for number in (1, 2, 3, 4)
        if said.details.get(f"dt{number}") is not None
    ]
    return ", ".join([said.reason, *times])


def timing(name: str, meaning: str, values: list[float]) -> Timing:
    """Sum up how long a step took, oldest first."""
    return Timing(
        name,
        meaning,
        values[-1] if values else None,
        median(values) if values else None,
        len(values),
    )
