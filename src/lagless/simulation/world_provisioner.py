"""The world's provisioner: starts and stops consumers in memory, and fails when told to."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lagless import messages
from lagless.errors import TryAgain
from lagless.model import Consumer
from lagless.ports import Instance
from lagless.simulation.world_consumer import MemoryConsumer


class Violation(AssertionError):
    """The world saw what must never be."""


class Surroundings(Protocol):
    """What the provisioner needs of its world."""

    at: float

    @property
    def start_seconds(self) -> float:
        """How long a consumer takes to be ready."""
        ...

    def spawn(self, consumer: Consumer, birth: str, ready_after: float) -> MemoryConsumer:
        """Start a process."""
        ...

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen."""
        ...

    def called(self) -> None:
        """Count a call."""
        ...


@dataclass(slots=True)
class _Slot:
    birth: str
    created_at: float
    process: MemoryConsumer | None
    phase: Literal["starting", "running", "failed", "deleting"] = "running"


@dataclass(slots=True)
class MemoryProvisioner:
    """One slot per number, as one Deployment or one pid file would be."""

    world: Surroundings
    slots: dict[Consumer, _Slot] = field(default_factory=dict)
    down_until: float = 0
    never_start: int = 0
    """So many of the next consumers never become ready."""
    crash: int = 0
    """So many of the next consumers end at once."""
    deleting_seconds: float = 1
    unkillable: set[str] = field(default_factory=set)
    """Births whose process outlives its deletion, as on a node that nobody reaches."""
    births: int = 0
    calls: list[Callable[[], object]] = field(default_factory=list)
    """What was asked for, for a controller that was replaced and whose hand comes late."""

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Start consumers that are not there."""
        self.world.called()
        self._answer()
        self.calls.append(lambda: self._create(consumers))
        troubles = self._create(consumers)
        self.world.called()
        return troubles

    def _create(self, consumers: Collection[Consumer]) -> dict[Consumer, str]:
        troubles = {}
        for n in consumers:
            slot = self.slots.get(n)
            if slot is None:
                self._start(n)
            elif slot.phase == "deleting":
                troubles[n] = "is just being deleted"
        return troubles

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Stop those whose start is meant."""
        self.world.called()
        self._answer()
        self.calls.append(lambda: self._delete(consumers))
        self._delete(consumers)
        self.world.called()

    def _delete(self, consumers: Mapping[Consumer, str]) -> None:
        for n, incarnation in consumers.items():
            slot = self.slots.get(n)
            if slot is None or slot.phase == "deleting":
                continue
            if incarnation and messages.birth(incarnation) != slot.birth:
                continue
            self.check(n, slot)
            slot.phase = "deleting"
            self.world.later(self.deleting_seconds, _End(self, n, slot))

    def instances(self) -> Sequence[Instance]:
        """Give what exists."""
        self.world.called()
        self._answer()
        for slot in self.slots.values():
            dead = slot.process is None or not slot.process.alive
            if dead and slot.phase != "deleting":
                slot.phase = "failed"
        return [
            Instance(n, slot.phase, slot.created_at, birth=slot.birth)
            for n, slot in sorted(self.slots.items())
        ]

    def check(self, consumer: Consumer, slot: _Slot) -> None:
        """See that nobody who does well and has work is deleted."""
        process = slot.process
        if process is not None and process.alive and process.well and process.state.held:
            raise Violation(f"consumer {consumer} does well and is deleted at {self.world.at:.1f}")

    def again(self, last: int) -> None:
        """Do once more what was asked for last: the late hand of a controller that was replaced."""
        for call in self.calls[-last:]:
            call()

    def _answer(self) -> None:
        if self.world.at < self.down_until:
            raise TryAgain("the provisioner does not answer")

    def _start(self, consumer: Consumer) -> None:
        self.births += 1
        birth = f"b{self.births}"
        process = None
        if self.crash > 0:
            self.crash -= 1
        else:
            seconds = self.world.start_seconds
            if self.never_start > 0:
                self.never_start -= 1
                seconds = 1e9
            process = self.world.spawn(consumer, birth, seconds)
        self.slots[consumer] = _Slot(birth, self.world.at, process)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a deletion."""

    provisioner: MemoryProvisioner
    consumer: Consumer
    slot: _Slot

    def __call__(self) -> None:
        slot = self.slot
        if self.provisioner.slots.get(self.consumer) is slot:
            del self.provisioner.slots[self.consumer]
        if slot.process is not None:
            if slot.birth in self.provisioner.unkillable:
                slot.process.well = False
            else:
                slot.process.alive = False
