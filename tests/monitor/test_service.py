"""The monitor's loop in virtual time."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from lagless.errors import GiveUp, TryAgain
from lagless.messages import WriteSpeeds
from lagless.model import TopicPartition
from lagless.monitor import service
from lagless.monitor.window import Window
from lagless.ports import LogSize, Measurement

P = TopicPartition("orders", 0)


@dataclass
class World:
    """Clock, brokers and topic in one: 100 bytes a second are written, offset by offset."""

    time: float = 1000.0
    down: set[int] = field(default_factory=set)
    """Rounds in which Kafka does not answer."""
    deaf: set[int] = field(default_factory=set)
    """Rounds in which it measures and does not take the message."""
    failed: set[int] = field(default_factory=set)
    """Rounds in which the partition's broker does not answer."""
    rounds: int = 0
    slept: list[float] = field(default_factory=list)
    messages: list[WriteSpeeds] = field(default_factory=list)
    takes: float = 0.0
    errors: int = 0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def measure(self) -> Measurement:
        self.rounds += 1
        self.time += self.takes
        if self.rounds in self.down:
            raise TryAgain("Kafka is down")
        if self.rounds in self.failed:
            return Measurement(self.time, {}, frozenset({P}))
        written = round((self.time - 1000) * 100)
        return Measurement(self.time, {P: LogSize(written, 0, written // 10, "id", 1)})

    def publish(self, speeds: WriteSpeeds) -> None:
        if self.rounds in self.deaf:
            raise TryAgain("no answer")
        self.messages.append(speeds)


def monitor(world: World) -> service.Monitor:
    return service.Monitor("g", 5.0, Window(30.0), world, world, world)


def run(world: World, rounds: int) -> service.Monitor:
    made = monitor(world)
    made.run(lambda: world.rounds >= rounds)
    return made


def test_one_message_per_interval() -> None:
    world = World(takes=1.0)
    run(world, 10)
    at = [message.at for message in world.messages]
    assert at == [1001.0 + 5 * n for n in range(10)]
    assert world.messages[0].speeds == {}
    assert world.messages[-1].speeds == {"orders": {0: 100.0}}
    assert world.messages[-1].bytes_per_offset == {"orders": {0: 10.0}}
    assert (world.messages[-1].group, world.messages[-1].window) == ("g", 30.0)


def test_rounds_that_take_longer_than_the_interval_follow_one_another() -> None:
    world = World(takes=7.0)
    run(world, 5)
    assert [message.at for message in world.messages] == [1007.0 + 7 * n for n in range(5)]


def test_quick_rounds_follow_at_the_short_interval_and_slow_ones_leave_the_broker_time() -> None:
    quick, slow, slowest = World(takes=0.01), World(takes=0.1), World(takes=0.4)
    for world in (quick, slow, slowest):
        made = monitor(world)
        made.shortest = 1.0
        made.run(lambda world=world: world.rounds >= 6)  # type: ignore[misc]
    at = [[message.at for message in world.messages] for world in (quick, slow, slowest)]
    # The second round gives the first speed: it is not put off.
    assert np.diff(at[0]) == pytest.approx([1.0] * 5)
    assert np.diff(at[1]) == pytest.approx([1.0, *[2.0] * 4])
    assert np.diff(at[2]) == pytest.approx([1.0, *[5.0] * 4])


def test_a_partition_whose_broker_is_down_is_not_asked_for_in_haste() -> None:
    world = World(failed={2, 3, 4}, takes=0.4)
    made = monitor(world)
    made.shortest = 1.0
    made.run(lambda: world.rounds >= 4)
    assert world.slept[:3] == pytest.approx([0.6, 4.6, 4.6])
    assert made.window.is_incomplete is False


def test_pauses_grow_while_kafka_is_down_and_are_short_again_after() -> None:
    world = World(down={3, 4, 5, 6, 7, 8, 9, 10, 12})
    made = run(world, 12)
    assert world.slept[2:10] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert world.slept[11] == 0.5
    assert (made.errors, made.published) == (9, 3)
    assert made.trouble == "Kafka is down"


def test_a_gap_loses_nothing() -> None:
    world = World(down=set(range(8, 14)))
    run(world, 14)
    assert world.messages[-1].speeds["orders"][0] == pytest.approx(100)
    assert world.messages[-1].stale == ()


def test_a_partition_without_an_answer_keeps_its_speed_and_is_stale() -> None:
    world = World(failed={5})
    run(world, 6)
    assert world.messages[4].stale == (("orders", 0),)
    assert world.messages[4].speeds == world.messages[3].speeds
    assert world.messages[5].stale == ()


def test_a_message_that_did_not_arrive_does_not_lose_the_measurement() -> None:
    world = World(deaf={4})
    made = run(world, 5)
    assert len(world.messages) == 4
    assert not made.readings[P].stale


def test_what_cannot_be_mended_ends_the_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def refuse(speeds: WriteSpeeds) -> None:
        raise GiveUp("no right")

    monkeypatch.setattr(world, "publish", refuse)
    with pytest.raises(GiveUp):
        run(world, 3)


def test_an_interval_that_is_made_shorter_is_in_effect_before_the_old_one_is_over() -> None:
    world = World()
    one = service.Monitor("g", 600.0, Window(30.0), world, world, world, 600.0)

    def ending() -> bool:
        if world.time > 1010:
            one.interval = one.shortest = 2.0
        return world.time > 1030

    one.run(ending)
    ats = [message.at for message in world.messages]
    assert ats[0] == 1000
    assert ats[1] <= 1010 + 2 * service.LONGEST_SLEEP
    assert ats[2:] == [ats[1] + 2 * n for n in range(1, len(ats) - 1)]
