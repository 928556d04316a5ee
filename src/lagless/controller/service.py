"""The controller's loop: gather events, step the machine, send, provision. Speaks to ports only."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lagless.controller import machine, recording
from lagless.controller.events import (
    Create,
    Deaf,
    Delete,
    Event,
    Instruction,
    Listed,
    Mail,
    Measured,
    NotCreated,
    Persist,
    Provisioned,
    Tick,
)
from lagless.controller.facts import Policy, State
from lagless.errors import TryAgain
from lagless.messages import ControllerState, Decision, Message, Order
from lagless.ports import Clock, ControllerMailbox, Provisioner

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Who is told what happens, for metrics."""

    def saw(self, state: State, decisions: Sequence[Decision]) -> None:
        """See the state after a turn, and what was decided in it."""
        ...

    def requested(self, seconds: float) -> None:
        """See that creations were requested so long after the measurement was read (Δt2)."""
        ...


@dataclass(slots=True)
class _Outbox:
    """What follows from a turn."""

    orders: list[Order] = field(default_factory=list)
    state: ControllerState | None = None
    decisions: list[Decision] = field(default_factory=list)
    create: set[int] = field(default_factory=set)
    delete: dict[int, str] = field(default_factory=dict)

    def add(self, instructions: Sequence[Instruction]) -> None:
        for given in instructions:
            match given:
                case Order():
                    self.orders.append(given)
                case Persist(state):
                    self.state = state
                case Decision():
                    self.decisions.append(given)
                case Create(consumers):
                    self.create.update(consumers)
                case Delete(consumers):
                    self.delete.update(consumers)


@dataclass(slots=True)
class Service:
    """One controller that leads."""

    mailbox: ControllerMailbox
    provisioner: Provisioner
    clock: Clock
    policy: Policy
    observer: Observer | None = None
    record: bool = True
    tick: float = 0.5
    """Seconds at most between two events."""
    look: float = 2
    """Seconds between looks at the provisioner's consumers; partitions are listed half as often."""
    algorithm: str = ""
    """What `policy.pack` is, for the record."""
    state: State = field(init=False)
    _ticked_at: float = field(init=False, default=float("-inf"))
    _looked_at: float = field(init=False, default=float("-inf"))
    _listed_at: float = field(init=False, default=float("-inf"))
    _sent_at: float = field(init=False, default=float("-inf"))
    _complained_at: dict[str, float] = field(init=False, default_factory=dict)
    _unsaved: ControllerState | None = field(init=False, default=None)
    _told: list[Event] = field(init=False, default_factory=list)
    _unlogged: list[Message] = field(init=False, default_factory=list)
    _events: list[Event] = field(init=False, default_factory=list)

    def begin(self) -> None:
        """Wait for the lead, and begin with what was persisted."""
        persisted = self.mailbox.lead()
        now = self.clock.now()
        self.state = machine.begin(persisted, now)
        if self.record:
            self._unlogged.append(recording.began(self.policy, self.algorithm, persisted, now))

    def run(self, ends: Callable[[], bool]) -> None:
        """Turn until `ends` says so; Fenced is for the caller to hear."""
        while not ends():
            self.turn(self.tick)
        self.mailbox.close()

    def turn(self, timeout: float) -> None:
        """Take what is there, decide, and carry it out."""
        events = self._gather(timeout)
        outbox = _Outbox()
        for event in events:
            self.state, given = machine.step(self.state, event, self.policy)
            outbox.add(given)
            if self.record:
                self._told.append(event)
        self._carry_out(outbox, events)
        if self.observer is not None:
            self.observer.saw(self.state, outbox.decisions)

    def _gather(self, timeout: float) -> list[Event]:
        events, self._events = self._events, []
        try:
            post = self.mailbox.receive(timeout)
        except TryAgain as trouble:
            self._complain("the mailbox cannot be read", trouble)
            self.clock.sleep(timeout)
            return [*events, Deaf(self.clock.now())]
        now = self.clock.now()
        if post.deaf:
            events.append(Deaf(now))
        if post.messages:
            events.append(Mail(now, post.messages))
        events += self._look(now)
        if post.speeds is not None:
            events.append(Measured(now, post.speeds))
        if now - self._ticked_at >= self.tick or not events:
            events.append(Tick(now))
            self._ticked_at = now
        return events

    def _look(self, now: float) -> list[Event]:
        events: list[Event] = []
        if now - self._listed_at >= 2 * self.look:
            try:
                found = sorted(self.mailbox.partitions())
                events.append(Listed(now, tuple((p.topic, p.partition) for p in found)))
                self._listed_at = now
            except TryAgain as trouble:
                self._complain("partitions cannot be listed", trouble)
        if now - self._looked_at >= self.look:
            events += self._instances(now)
        return events

    def _instances(self, now: float) -> list[Event]:
        try:
            found = Provisioned(now, tuple(self.provisioner.instances()))
        except TryAgain as trouble:
            self._complain("consumers cannot be listed", trouble)
            return []
        self._looked_at = now
        return [found]

    def _carry_out(self, outbox: _Outbox, events: Sequence[Event]) -> None:
        """Send in one transaction; provision only what follows from what is persisted."""
        self._unsaved = outbox.state or self._unsaved
        for decision in outbox.decisions:
            level = logging.WARNING if decision.decision in ("warning", "lost") else logging.INFO
            log.log(level, "%s: %s", decision.decision, decision.reason)
        now = self.clock.now()
        urgent = bool(outbox.orders or outbox.decisions) or self._unsaved is not None
        if urgent or (self._told and now - self._sent_at >= 1):
            if self._told:  # before the decisions that follow from it
                self._unlogged.append(recording.told(self.policy.group, self._told))
                self._told = []
            self._unlogged += outbox.decisions
            try:
                self.mailbox.send(outbox.orders, self._unsaved, self._unlogged)
            except TryAgain as trouble:
                self._complain("orders could not be sent and will be given again", trouble)
                del self._unlogged[:-1000]
                return
            self._unsaved, self._unlogged, self._sent_at = None, [], now
        if outbox.delete:
            self._delete(outbox.delete)
        if outbox.create:
            self._create(outbox.create, events)

    def _delete(self, consumers: dict[int, str]) -> None:
        try:
            self.provisioner.delete(consumers)
        except TryAgain as trouble:
            self._complain(f"consumers {sorted(consumers)} could not be deleted", trouble)

    def _complain(self, what: str, trouble: TryAgain) -> None:
        """Say what is wrong, once a minute: the next turn tries again."""
        now = self.clock.now()
        if now - self._complained_at.get(what, float("-inf")) >= 60:
            self._complained_at[what] = now
            log.warning("%s: %s", what, trouble)

    def _create(self, consumers: set[int], events: Sequence[Event]) -> None:
        try:
            troubles = dict(self.provisioner.create(sorted(consumers)))
        except TryAgain as trouble:
            troubles = dict.fromkeys(consumers, str(trouble))
        now = self.clock.now()
        if self.observer is not None:
            for event in events:
                if isinstance(event, Measured):
                    self.observer.requested(now - event.at)
        if troubles:
            self._events += [*self._instances(now), NotCreated(now, troubles)]
