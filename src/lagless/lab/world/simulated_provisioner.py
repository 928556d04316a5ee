"""The provisioner in memory: starts, restarts and stops consumers, and fails on request."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from lagless import messages
from lagless.errors import TryAgain
from lagless.lab.world.simulated_tables import Violation
from lagless.model import Consumer
from lagless.ports import Instance

if TYPE_CHECKING:
    from lagless.lab.world.simulated_consumer import SimulatedConsumer
    from lagless.lab.world.world import World

T = TypeVar("T")


@dataclass(slots=True)
class _Slot:
    birth: str
    created_at: float
    process: "SimulatedConsumer | None" = None
    phase: Literal["starting", "running", "failed", "deleting"] = "running"


@dataclass(slots=True)
class SimulatedProvisioner:
    """One slot per number, as one Deployment or one pid file would be."""

    world: "World"
    slots: dict[Consumer, _Slot] = field(default_factory=dict)
    down_until: float = 0
    never_start: int = 0
    """How many of the next consumers never become ready."""
    crash: int = 0
    """How many of the next consumers end at once."""
    deleting_seconds: float = 1
    unkillable: set[str] = field(default_factory=set)
    """Births whose process outlives its deletion, as on an unreachable node."""
    births: int = 0
    calls: list[Callable[[], object]] = field(default_factory=list)
    """Every call that changed something, to repeat those of a replaced controller late."""

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Start consumers that are not there."""
        return self._change(lambda: self._create(consumers))

    def _create(self, consumers: Collection[Consumer]) -> dict[Consumer, str]:
        troubles = {}
        for n in consumers:
            slot = self.slots.get(n)
            if slot is None:
                self._start(n)
            elif slot.phase == "deleting":
                troubles[n] = "is still being deleted"
        return troubles

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Stop those whose start is meant."""
        self._change(lambda: self._delete(consumers))

    def _delete(self, consumers: Mapping[Consumer, str]) -> None:
        for n, incarnation in consumers.items():
            slot = self.slots.get(n)
            if slot is None or slot.phase == "deleting":
                continue
            if incarnation and messages.birth(incarnation) != slot.birth:
                continue
            process = slot.process
            if process is not None and process.well and process.held:
                raise Violation(f"consumer {n} is healthy and deleted at {self.world.at:.1f}")
            slot.phase = "deleting"
            if process is not None and slot.birth not in self.unkillable:
                process.terminated = True
            self.world.later(self.deleting_seconds, partial(self._end, n, slot))

    def _end(self, consumer: Consumer, slot: _Slot) -> None:
        if self.slots.get(consumer) is slot:
            del self.slots[consumer]
        if slot.process is not None:
            if slot.birth in self.unkillable:
                slot.process.well = False
            else:
                slot.process.alive = False

    def instances(self) -> Sequence[Instance]:
        """Return what exists."""
        self._answer()
        for slot in self.slots.values():
            dead = slot.process is None or not slot.process.alive
            if dead and slot.phase != "deleting":
                slot.phase = "failed"
        return [
            Instance(n, slot.phase, slot.created_at, birth=slot.birth)
            for n, slot in sorted(self.slots.items())
        ]

    def restart(self, consumer: Consumer) -> None:
        """End a consumer's process and start another in its place, under the same birth."""
        slot = self.slots.get(consumer)
        if slot is not None and slot.process is not None and slot.phase == "running":
            slot.process.alive = False
            slot.process = self.world.spawn(consumer, slot.birth, self.world.start_seconds)

    def again(self, last: int) -> None:
        """Repeat the last calls, as a replaced controller does whose calls come late."""
        for call in self.calls[-last:]:
            call()

    def _change(self, call: Callable[[], T]) -> T:
        self._answer()
        self.calls.append(call)
        troubles = call()
        self.world.called()
        return troubles

    def _answer(self) -> None:
        self.world.called()
        if self.world.at < self.down_until:
            raise TryAgain("the provisioner does not answer")

    def _start(self, consumer: Consumer) -> None:
        self.births += 1
        slot = self.slots[consumer] = _Slot(f"b{self.births}", self.world.at)
        if self.crash > 0:
            self.crash -= 1
            return
        seconds = self.world.start_seconds
        if self.never_start > 0:
            self.never_start -= 1
            seconds = 1e9
        slot.process = self.world.spawn(consumer, slot.birth, seconds)
