"""The service of groups that follow plans: what is sent together, and what waits for what."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lagless.controller.group.service import GroupService
from lagless.errors import TryAgain
from lagless.group_ports import GroupMember, Membership, Progress
from lagless.messages import Assigned, ControllerState, Message, Plan, SeenGroup, WriteSpeeds
from lagless.model import TopicPartition
from lagless.ports import Post
from tests.controller.group.worlds import policy

HELD = {"a": (0, 1), "b": (2,)}


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Mail:
    clock: Clock
    fails: bool = False
    plans: list[Plan] = field(default_factory=list)
    states: list[ControllerState] = field(default_factory=list)
    seen: list[SeenGroup] = field(default_factory=list)
    log: list[Message] = field(default_factory=list)
    lost: bool = False

    def lead(self) -> ControllerState | None:
        return None

    def receive(self, timeout: float) -> Post:
        speeds = WriteSpeeds(
            group="g", at=self.clock.at, window=30, speeds={"t": {0: 80.0, 1: 40.0, 2: 10.0}}
        )
        lost, self.lost = self.lost, False
        return Post(speeds=speeds, plan_lost=lost)

    def publish(
        self,
        plan: Plan | None,
        state: ControllerState | None,
        seen: SeenGroup | None = None,
        log: Sequence[Message] = (),
    ) -> None:
        if self.fails:
            raise TryAgain("the broker is away")
        self.plans += [plan] if plan else []
        self.states += [state] if state else []
        self.seen += [seen] if seen else []
        self.log += log

    def partitions(self) -> Collection[TopicPartition]:
        return [TopicPartition("t", k) for k in range(3)]

    def close(self) -> None: ...


@dataclass
class Group:
    mail: Mail
    fails: bool = False
    nudged: list[int] = field(default_factory=list)
    """How many plans were published when it was nudged."""

    def describe(self) -> Membership:
        if self.fails:
            raise TryAgain("no coordinator")
        members = tuple(
            GroupMember(f"id-{name}", name, held=frozenset(TopicPartition("t", k) for k in ks))
            for name, ks in HELD.items()
        )
        return Membership("stable", "consumer", "lagless", members)

    def progress(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Progress]:
        return {p: Progress(None, 100) for p in partitions}

    def nudge(self) -> None:
        self.nudged.append(len(self.mail.plans))

    def close(self) -> None: ...


@dataclass
class Scales:
    asked: list[tuple[int, int]] = field(default_factory=list)
    ordered: bool = False

    def scale(self, size: int, idle: Collection[GroupMember]) -> None:
        self.asked.append((size, len(idle)))


def make(rate: float | None = None) -> tuple[GroupService, Mail, Group, Clock, Scales]:
    clock, scales = Clock(), Scales()
    mail = Mail(clock)
    group = Group(mail)
    service = GroupService(mail, group, clock, policy(rate, scales=rate is not None), scales)
    service.begin()
    return service, mail, group, clock, scales


def turns(service: GroupService, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds * 2)):
        clock.at += 0.5
        service.turn(0)


def test_a_plan_is_published_with_its_state_before_anyone_is_nudged() -> None:
    service, mail, group, clock, _ = make()
    turns(service, clock, 5)
    (plan,) = mail.plans
    assert plan.members == {"a": {"t": (0,)}, "b": {"t": (1, 2)}}
    assert mail.states[-1].generation == plan.generation
    assert mail.states[-1].members == {1: "a", 2: "b"}
    assert group.nudged[0] == 1
    assert [member.lag_bytes for member in mail.seen[-1].members] == [None, None]


def test_what_could_not_be_published_is_published_later_and_nudged_then() -> None:
    service, mail, group, clock, _ = make()
    mail.fails = True
    turns(service, clock, 20)
    assert group.nudged == []
    mail.fails = False
    turns(service, clock, 1)
    assert len(mail.plans) == 1
    assert group.nudged[0] == 1
    assert len([it for it in mail.log if isinstance(it, Assigned)]) == 1


def test_nothing_is_planned_while_the_group_cannot_be_seen() -> None:
    service, mail, group, clock, _ = make()
    group.fails = True
    turns(service, clock, 60)
    assert mail.plans == []
    group.fails = False
    turns(service, clock, 5)
    assert len(mail.plans) == 1


def test_a_lost_topic_is_written_again() -> None:
    service, mail, _, clock, _ = make()
    turns(service, clock, 5)
    mail.lost = True
    turns(service, clock, 1)
    assert len(mail.plans) == 2


def test_members_are_asked_for_again_and_again() -> None:
    service, _, _, clock, scales = make(rate=60.0)
    turns(service, clock, 20)
    assert len(scales.asked) >= 3
    assert set(scales.asked) == {(2, 0)}
