"""The loop of a controller whose members follow plans: look, step the machine, publish, nudge."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lagless.controller.events import Listed, Measured, Persist, Tick
from lagless.controller.group import plan_machine
from lagless.controller.group.group_events import (
    GroupEvent,
    GroupInstruction,
    Looked,
    Nudge,
    PlanLost,
    Publish,
    Scale,
    Show,
)
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.errors import TryAgain
from lagless.group_ports import Members, PlanMailbox, Scaler
from lagless.messages import AnyDecision, ControllerState, Message, Plan, SeenGroup
from lagless.model import TopicPartition
from lagless.ports import Clock

log = logging.getLogger(__name__)
KEPT = 1000
"""Messages for the event log that are kept while they cannot be sent."""


class GroupObserver(Protocol):
    """Hears what happens, for metrics."""

    def saw(self, state: GroupState, decisions: Sequence[AnyDecision]) -> None:
        """See the state after a turn, and what was decided in it."""


@dataclass(slots=True)
class GroupService:
    """One controller that leads a group whose members follow plans."""

    mailbox: PlanMailbox
    members: Members
    clock: Clock
    policy: GroupPolicy
    scaler: Scaler | None = None
    observer: GroupObserver | None = None
    tick: float = 0.5
    """Seconds at most between two events."""
    look: float = 2
    """Seconds between two looks at the group; partitions are listed half as often."""
    state: GroupState = field(init=False)
    _ticked_at: float = field(init=False, default=float("-inf"))
    _looked_at: float = field(init=False, default=float("-inf"))
    _listed_at: float = field(init=False, default=float("-inf"))
    _partitions: tuple[TopicPartition, ...] = field(init=False, default=())
    _complained_at: dict[str, float] = field(init=False, default_factory=dict)
    _plan: Plan | None = field(init=False, default=None)
    _unsaved: ControllerState | None = field(init=False, default=None)
    _unlogged: list[Message] = field(init=False, default_factory=list)
    _nudge: bool = field(init=False, default=False)

    def begin(self) -> None:
        """Wait for the lead, and begin with what was persisted."""
        persisted = self.mailbox.lead()
        self.state = plan_machine.begin(persisted, self.clock.now(), self.policy)

    def run(self, ends: Callable[[], bool]) -> None:
        """Turn until `ends` says so; Fenced is for the caller to hear."""
        while not ends():
            self.turn(self.tick)

    def turn(self, timeout: float) -> None:
        """Take what is there, decide, and carry it out."""
        instructions: list[GroupInstruction] = []
        for event in self._gather(timeout):
            self.state, out = plan_machine.step(self.state, event, self.policy)
            instructions += out
        decisions = [it for it in instructions if isinstance(it, AnyDecision)]
        self._carry_out(instructions, decisions)
        if self.observer is not None:
            self.observer.saw(self.state, decisions)

    def _gather(self, timeout: float) -> list[GroupEvent]:
        try:
            post = self.mailbox.receive(timeout)
        except TryAgain as trouble:
            self._complain("the mailbox cannot be read", trouble)
            self.clock.sleep(timeout)
            return []
        now = self.clock.now()
        seen: list[GroupEvent] = []
        if post.speeds is not None:
            seen.append(Measured(now, post.speeds))
        if now - self._listed_at >= 2 * self.look:
            try:
                self._partitions = tuple(sorted(self.mailbox.partitions()))
                seen.append(Listed(now, tuple((p.topic, p.partition) for p in self._partitions)))
                self._listed_at = now
            except TryAgain as trouble:
                self._complain("partitions cannot be listed", trouble)
        if post.plan_lost:
            seen.append(PlanLost(now))
        if now - self._looked_at >= self.look:
            seen += self._look(now)
        if now - self._ticked_at >= self.tick:
            seen.append(Tick(now))
            self._ticked_at = now
        return seen

    def _look(self, now: float) -> list[GroupEvent]:
        self._looked_at = now
        try:
            group = self.members.describe()
            progress = dict(self.members.progress(self._partitions))
        except TryAgain as trouble:
            self._complain("the group cannot be looked at", trouble)
            return []
        return [Looked(self.clock.now(), group, progress)]

    def _carry_out(
        self, instructions: Sequence[GroupInstruction], decisions: Sequence[AnyDecision]
    ) -> None:
        """Publish in one transaction; nudge and scale only once that is done."""
        scale: Scale | None = None
        seen: SeenGroup | None = None
        for instruction in instructions:
            match instruction:
                case Publish():
                    self._plan = instruction.plan
                case Persist():
                    self._unsaved = instruction.state
                case Nudge():
                    self._nudge = True
                case Scale():
                    scale = instruction
                case Show():
                    seen = instruction.seen
        for decision in decisions:
            level = logging.WARNING if decision.decision == "warning" else logging.INFO
            log.log(level, "%s: %s", decision.decision, decision.reason)
        self._unlogged += decisions
        if self._plan or self._unsaved or self._unlogged or seen:
            try:
                self.mailbox.publish(self._plan, self._unsaved, seen, self._unlogged)
            except TryAgain as trouble:
                self._complain("the plan could not be published and will be again", trouble)
                del self._unlogged[:-KEPT]
                return
            self._plan, self._unsaved, self._unlogged = None, None, []
        if self._nudge:
            self._nudge = False
            self.members.nudge()
        if scale is not None and self.scaler is not None:
            try:
                self.scaler.scale(scale.size, scale.idle)
            except TryAgain as trouble:
                self._complain(f"{scale.size} members could not be asked for", trouble)

    def _complain(self, what: str, trouble: TryAgain) -> None:
        """Log what is wrong, once a minute: the next turn tries again."""
        now = self.clock.now()
        if now - self._complained_at.get(what, float("-inf")) >= 60:
            self._complained_at[what] = now
            log.warning("%s: %s", what, trouble)
