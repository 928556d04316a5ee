"""The controller's loop: gather events, step the machine, send, provision. Speaks to ports only."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lagless import messages
from lagless.controller import event_log, events, machine
from lagless.controller.events import Event, Instruction
from lagless.controller.state import Policy, State
from lagless.errors import TryAgain
from lagless.messages import (
    AnyDecision,
    ControllerState,
    Heartbeat,
    Message,
    Order,
    Receipt,
    WriteSpeeds,
)
from lagless.ports import Clock, ControllerMailbox, Provisioner

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Hears what happens, for metrics."""

    def saw(self, state: State, decisions: Sequence[AnyDecision]) -> None:
        """See the state after a turn, and what was decided in it."""

    def requested(self, seconds: float) -> None:
        """See that creations were requested so long after the measurement was read (Δt2)."""


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
            self._unlogged.append(event_log.began(self.policy, self.algorithm, persisted, now))

    def run(self, ends: Callable[[], bool]) -> None:
        """Turn until `ends` says so; Fenced is for the caller to hear."""
        while not ends():
            self.turn(self.tick)
        self.mailbox.close()

    def turn(self, timeout: float) -> None:
        """Take what is there, decide, and carry it out."""
        seen = self._gather(timeout)
        instructions: list[Instruction] = []
        for event in seen:
            self.state, out = machine.step(self.state, event, self.policy)
            instructions += out
        if self.record:
            self._told += seen
        decisions = [x for x in instructions if isinstance(x, AnyDecision)]
        self._carry_out(instructions, decisions, seen)
        if self.observer is not None:
            self.observer.saw(self.state, decisions)

    def _gather(self, timeout: float) -> list[Event]:
        seen, self._events = self._events, []
        try:
            post = self.mailbox.receive(timeout)
        except TryAgain as trouble:
            self._complain("the mailbox cannot be read", trouble)
            self.clock.sleep(timeout)
            return [*seen, events.Deaf(self.clock.now())]
        now = self.clock.now()
        if post.deaf:
            seen.append(events.Deaf(now))
        mail = tuple(message for message in post.messages if self._is_believable(message))
        if mail:
            seen.append(events.Mail(now, mail))
        seen += [events.Operated(now, operation) for operation in post.operations]
        if post.speeds is not None and self._names_new(post.speeds):
            self._listed_at = float("-inf")  # the monitor has seen what appeared first
        seen += self._look(now)
        if post.speeds is not None:
            seen.append(events.Measured(now, post.speeds))
        if now - self._ticked_at >= self.tick or not seen:
            seen.append(events.Tick(now))
            self._ticked_at = now
        return seen

    def _is_believable(self, message: Receipt | Heartbeat) -> bool:
        """Return whether a group can have come to the generation that a consumer names.

        A forged one could otherwise use up all generations at once.
        """
        if message.highest <= max(self.state.generation, messages.FARTHEST):
            return True
        self._complain(
            f"messages of consumer {message.consumer} are ignored",
            f"generation {message.highest} is out of range",
        )
        return False

    def _names_new(self, speeds: WriteSpeeds) -> bool:
        known = self.state.partitions
        return known is not None and not messages.flatten(speeds.speeds).keys() <= known.keys()

    def _look(self, now: float) -> list[Event]:
        seen: list[Event] = []
        if now - self._listed_at >= 2 * self.look:
            try:
                found = sorted(self.mailbox.partitions())
                seen.append(events.Listed(now, tuple((p.topic, p.partition) for p in found)))
                self._listed_at = now
            except TryAgain as trouble:
                self._complain("partitions cannot be listed", trouble)
        if now - self._looked_at >= self.look:
            seen += self._instances(now)
        return seen

    def _instances(self, now: float) -> list[Event]:
        try:
            found = events.Provisioned(now, tuple(self.provisioner.instances()))
        except TryAgain as trouble:
            self._complain("consumers cannot be listed", trouble)
            return []
        self._looked_at = now
        return [found]

    def _carry_out(
        self, instructions: list[Instruction], decisions: list[AnyDecision], seen: list[Event]
    ) -> None:
        """Send in one transaction; provision only what follows from what is persisted."""
        orders = [x for x in instructions if isinstance(x, Order)]
        for persist in (x for x in instructions if isinstance(x, events.Persist)):
            self._unsaved = persist.state
        for decision in decisions:
            level = logging.WARNING if decision.decision in ("warning", "lost") else logging.INFO
            log.log(level, "%s: %s", decision.decision, decision.reason)
        now = self.clock.now()
        urgent = bool(orders or decisions) or self._unsaved is not None
        if urgent or (self._told and now - self._sent_at >= 1):
            if self._told:  # before the decisions that follow from it
                self._unlogged.append(event_log.told(self.policy.group, self._told))
                self._told = []
            self._unlogged += decisions
            try:
                self.mailbox.send(orders, self._unsaved, self._unlogged)
            except TryAgain as trouble:
                self._complain("orders could not be sent and will be sent again", trouble)
                del self._unlogged[:-1000]
                return
            self._unsaved, self._unlogged, self._sent_at = None, [], now
        deletions = (x.consumers for x in instructions if isinstance(x, events.Delete))
        doomed = {n: incarnation for some in deletions for n, incarnation in some.items()}
        try:
            if doomed:
                self.provisioner.delete(doomed)
        except TryAgain as trouble:
            self._complain(f"consumers {sorted(doomed)} could not be deleted", trouble)
        missing = {n for x in instructions if isinstance(x, events.Create) for n in x.consumers}
        if missing:
            self._create(missing, seen)

    def _complain(self, what: str, trouble: TryAgain | str) -> None:
        """Log what is wrong, once a minute: the next turn tries again."""
        now = self.clock.now()
        if now - self._complained_at.get(what, float("-inf")) >= 60:
            self._complained_at[what] = now
            log.warning("%s: %s", what, trouble)

    def _create(self, consumers: set[int], seen: Sequence[Event]) -> None:
        try:
            troubles = dict(self.provisioner.create(sorted(consumers)))
        except TryAgain as trouble:
            troubles = dict.fromkeys(consumers, str(trouble))
        now = self.clock.now()
        if self.observer is not None:
            for event in seen:
                if isinstance(event, events.Measured):
                    self.observer.requested(now - event.at)
        if troubles:
            self._events += [*self._instances(now), events.NotCreated(now, troubles)]
