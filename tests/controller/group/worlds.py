"""A group that follows plans, in memory and in virtual time: members, offsets, an assignor.

The assignor is the contract of `assignor/README.md`: it acts only when the group changes or is
nudged, may not have read the newest plan yet, gives the rest to those who have least, and moves
nothing without reason. Members let go of a partition one look before another has it.
"""

from dataclasses import replace
from typing import Any

from lagless.controller.events import Listed, Measured, Persist, Tick
from lagless.controller.group import plan_machine
from lagless.controller.group.group_events import (
    GroupEvent,
    GroupInstruction,
    Looked,
    Nudge,
    Publish,
    Scale,
    Show,
)
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.group_ports import GroupMember, Membership, Progress
from lagless.messages import ControllerState, Decision, Plan, SeenGroup, WriteSpeeds
from lagless.model import TopicPartition
from tests import policies
from tests.controller.histories import pack

TOPIC = "t"


def policy(rate: float | None = None, *, scales: bool = False, **more: Any) -> GroupPolicy:
    """Return a policy whose capacity is 5/6 of the rate."""
    return GroupPolicy(
        packing=policies.policy(pack),
        rate=rate,
        share=5 / 6,
        follow_deadline=30,
        scales=scales,
        **more,
    )


class World:
    """A group, its brokers and the controller's machine."""

    def __init__(self, chosen: GroupPolicy, speeds: dict[int, float]) -> None:
        self.policy = chosen
        self.at = 1000.0
        self.speeds = {TopicPartition(TOPIC, k): speed for k, speed in speeds.items()}
        self.members: dict[str, set[TopicPartition]] = {}
        self.assigned: dict[str, set[TopicPartition]] = {}
        self.committed = dict.fromkeys(self.speeds, 0.0)
        self.end = dict.fromkeys(self.speeds, 0.0)
        self.rates: dict[str, float] = {}
        self.published: list[Plan] = []
        self.read: Plan | None = None
        self.reads_plans = True
        self.protocol, self.assignor = "consumer", "lagless"
        self.persisted: ControllerState | None = None
        self.seen: SeenGroup | None = None
        self.scaled: list[Scale] = []
        self.nudges: list[float] = []
        self.decisions: list[Decision] = []
        self.state = plan_machine.begin(None, self.at, chosen)

    def restart(self) -> None:
        """Kill the controller, and start another one."""
        self.state = plan_machine.begin(self.persisted, self.at, self.policy)

    def join(self, *names: str, rate: float = 1e9) -> None:
        """Let members join."""
        for name in names:
            self.members[name], self.rates[name] = set(), rate
        self.assign()

    def leave(self, *names: str) -> None:
        """Let members leave."""
        for name in names:
            del self.members[name], self.rates[name]
        self.assign()

    def assign(self) -> None:
        """Have the coordinator call the assignor."""
        if self.reads_plans and self.published:
            self.read = self.published[-1]
        if not self.members:
            return
        planned = self.read.members if self.read is not None else {}
        wanted: dict[str, set[TopicPartition]] = {name: set() for name in self.members}
        for name, topics in planned.items():
            for topic, numbers in topics.items():
                if name in wanted:
                    wanted[name] |= {TopicPartition(topic, k) for k in numbers} & set(self.speeds)
        placed = set().union(*wanted.values())
        rest = sorted(set(self.speeds) - placed)
        for name, held in self.members.items():
            most = -(-len(rest) // len(wanted))
            stays = [p for p in rest if p in held][:most]
            wanted[name] |= set(stays)
            rest = [p for p in rest if p not in stays]
        for p in rest:
            wanted[min(wanted, key=lambda name: (len(wanted[name]), name))].add(p)
        self.assigned = wanted

    def settle(self) -> None:
        """Let members let go of what they lose, and then take what they get."""
        free = set(self.speeds)
        for name, held in self.members.items():
            held.intersection_update(self.assigned.get(name, set()))
            free -= held
        for name, held in self.members.items():
            held.update(self.assigned.get(name, set()) & free)

    def flow(self, seconds: float) -> None:
        """Write, read and commit."""
        for p, speed in self.speeds.items():
            self.end[p] = self.end.get(p, 0.0) + speed * seconds
        for name, held in self.members.items():
            room = self.rates[name] * seconds
            for p in sorted(held):
                step = min(room, self.end[p] - self.committed.get(p, 0.0))
                self.committed[p] = self.committed.get(p, 0.0) + step
                room -= step

    def run(self, seconds: float, *, measured: bool = True) -> None:
        """Let time go by: the controller looks every two seconds."""
        for _ in range(int(seconds / 2)):
            self.at += 2
            self.flow(2)
            self.settle()
            if measured:
                table = {TOPIC: {p.partition: speed for p, speed in self.speeds.items()}}
                ones = {TOPIC: {p.partition: 1.0 for p in self.speeds}}
                speeds = WriteSpeeds(
                    group="g", at=self.at, window=30, speeds=table, bytes_per_offset=ones
                )
                self.tell(Measured(self.at, speeds))
            self.tell(Listed(self.at, tuple((p.topic, p.partition) for p in self.speeds)))
            self.look()
            self.tell(Tick(self.at + 1))

    def look(self) -> None:
        """Let the controller look at the group."""
        members = tuple(
            GroupMember(f"id-{name}", name, held=frozenset(held & set(self.speeds)))
            for name, held in sorted(self.members.items())
        )
        group = Membership("stable", self.protocol, self.assignor, members)
        progress = {
            p: Progress(int(self.committed.get(p, 0.0)), int(self.end[p])) for p in self.speeds
        }
        self.tell(Looked(self.at, group, progress))

    def tell(self, event: GroupEvent) -> list[GroupInstruction]:
        """Step the machine, and carry out what it says."""
        before = self.state
        self.state, out = plan_machine.step(before, event, self.policy)
        assert plan_machine.step(before, event, self.policy) == (self.state, out)
        for instruction in out:
            match instruction:
                case Publish():
                    self.published.append(instruction.plan)
                case Persist():
                    self.persisted = instruction.state
                case Nudge():
                    assert self.published
                    self.nudges.append(self.at)
                    self.assign()
                case Scale():
                    self.scaled.append(instruction)
                case Show():
                    self.seen = instruction.seen
                case Decision():
                    self.decisions.append(instruction)
        return out

    def held(self) -> dict[str, set[int]]:
        """Return the partitions of each member."""
        return {name: {p.partition for p in held} for name, held in self.members.items()}

    def said(self, kind: str) -> list[str]:
        """Return the reasons of all decisions of a kind."""
        return [it.reason for it in self.decisions if it.decision == kind]

    def known(self, **changes: Any) -> GroupState:
        """Return the state with changes."""
        return replace(self.state, **changes)
