"""The service: what is sent together, what is given again, and what waits for what."""

from collections.abc import Collection, Mapping, Sequence

from lagless.controller.service import Service
from lagless.errors import TryAgain
from lagless.messages import (
    AnyDecision,
    ControllerState,
    Decision,
    Heartbeat,
    Message,
    Order,
    WriteSpeeds,
)
from lagless.model import Consumer, TopicPartition
from lagless.ports import Instance, Post
from tests import policies
from tests.controller.histories import pack


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Mail:
    """A mailbox that fails when told to, and remembers what it sent."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.sent: list[tuple[list[Order], ControllerState | None, list[Message]]] = []
        self.fails = False
        self.deaf = False
        self.there = [TopicPartition("t", 0)]

    def lead(self) -> ControllerState | None:
        return None

    def receive(self, timeout: float) -> Post:
        if self.deaf:
            raise TryAgain("the broker is away")
        return self.posts.pop(0) if self.posts else Post()

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        if self.fails:
            raise TryAgain("the broker is away")
        self.sent.append((list(orders), state, list(log)))

    def partitions(self) -> Collection[TopicPartition]:
        return self.there

    def close(self) -> None: ...


class Starts:
    """A provisioner that fails when told to."""

    def __init__(self) -> None:
        self.created: list[list[Consumer]] = []
        self.deleted: list[dict[Consumer, str]] = []
        self.trouble = ""
        self.found: list[Instance] = []

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        self.created.append(list(consumers))
        if self.trouble:
            raise TryAgain(self.trouble)
        self.found = [Instance(n, "running", 0, birth=f"b{n}") for n in consumers]
        return {}

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        self.deleted.append(dict(consumers))

    def instances(self) -> Sequence[Instance]:
        return self.found


class Observer:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.decisions: list[AnyDecision] = []

    def saw(self, state: object, decisions: Sequence[AnyDecision]) -> None:
        self.decisions += decisions

    def requested(self, seconds: float) -> None:
        self.seconds.append(seconds)


def make() -> tuple[Service, Mail, Starts, Clock, Observer]:
    mail, starts, clock, observer = Mail(), Starts(), Clock(), Observer()
    policy = policies.policy(pack)
    service = Service(mail, starts, clock, policy, observer)
    service.begin()
    service.turn(0)
    return service, mail, starts, clock, observer


def measured(at: float) -> Post:
    return Post((), WriteSpeeds(group="g", at=at, window=30, speeds={"t": {0: 50.0}}))


def turns(service: Service, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds * 2)):
        clock.at += 0.5
        service.turn(0)


def beat(at: float) -> Post:
    message = Heartbeat(group="g", consumer=1, incarnation="b1.x", highest=0, state="ready", at=at)
    return Post((message,))


def test_what_the_monitor_saw_first_is_listed_at_once() -> None:
    service, mail, _, clock, _ = make()
    mail.there = [TopicPartition("t", 0), TopicPartition("t", 1)]
    clock.at += 0.5
    mail.posts = [measured(clock.at)]
    service.turn(0)
    assert set(service.state.partitions or ()) == {TopicPartition("t", 0)}, "it is listed seldom"
    clock.at += 0.5
    speeds = WriteSpeeds(group="g", at=clock.at, window=30, speeds={"t": {0: 50.0, 1: 9.0}})
    mail.posts = [Post((), speeds)]
    service.turn(0)
    assert set(service.state.partitions or ()) == set(mail.there)


def test_the_first_word_persists_the_generation() -> None:
    _, mail, _, _, _ = make()
    state = mail.sent[0][1]
    assert state is not None
    assert state.generation == 1


def test_consumers_are_created_after_the_state_that_asks_for_them_is_persisted() -> None:
    service, mail, starts, clock, _ = make()
    mail.fails = True
    mail.posts = [measured(clock.at)]
    turns(service, clock, 4)
    assert starts.created == [], "nothing follows from what is not persisted"
    mail.fails = False
    turns(service, clock, 6)
    state = next(state for _, state, _ in reversed(mail.sent) if state is not None)
    assert state.team == (1,)
    assert starts.created[0] == [1]
    assert [d.decision for _, _, log in mail.sent for d in log if isinstance(d, Decision)].count(
        "assignment"
    ) == 1, "the log is not lost with a failed transaction"


def test_orders_that_could_not_be_sent_are_given_again() -> None:
    service, mail, _, clock, _ = make()
    mail.posts = [measured(clock.at)]
    turns(service, clock, 1)
    mail.fails = True
    mail.posts = [beat(clock.at)]
    turns(service, clock, 1)
    mail.fails = False
    turns(service, clock, 6)
    kinds = [order.kind for orders, _, _ in mail.sent for order in orders]
    assert kinds == ["start"]


def test_the_time_from_measurement_to_request_is_observed() -> None:
    service, mail, starts, clock, observer = make()
    mail.posts = [measured(clock.at)]
    turns(service, clock, 1)
    assert starts.created == [[1]]
    assert observer.seconds == [0.0]


def test_a_provisioner_that_fails_is_a_reason_that_is_told() -> None:
    service, mail, starts, clock, observer = make()
    starts.trouble = "no room"
    mail.posts = [measured(clock.at)]
    turns(service, clock, 2)
    assert "consumer 1 could not be started: no room" in [d.reason for d in observer.decisions]
    starts.trouble = ""
    turns(service, clock, 20)
    assert starts.found, "it was tried again"


def test_while_the_mailbox_is_away_nobody_is_lost() -> None:
    service, mail, _, clock, observer = make()
    mail.posts = [measured(clock.at)]
    turns(service, clock, 1)
    mail.posts = [beat(clock.at)]
    turns(service, clock, 1)
    mail.deaf = True
    turns(service, clock, 100)
    mail.deaf = False
    turns(service, clock, 15)
    assert "lost" not in [d.decision for d in observer.decisions]
    turns(service, clock, 10)
    assert "lost" in [d.decision for d in observer.decisions]


def test_what_is_told_is_recorded() -> None:
    _, mail, _, _, _ = make()
    kinds = [type(one).__name__ for one in mail.sent[0][2]]
    assert kinds[0] == "Began"
    assert "Told" in kinds
