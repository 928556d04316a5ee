"""Planned consumers on a real broker that has no assignor: a plan that changes, and a kill."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from lagless.client import PlannedConsumer
from lagless.errors import GiveUp, WrongInput
from lagless.lab.parts.broker import Broker
from tests.client.reader import LEASE
from tests.waiting import until


class Reader:
    """A planned consumer in a process of its own, and what it said."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.name = name
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.client.reader", json.dumps(config), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def said(self, what: str) -> list[dict[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in list(self.lines) if line["what"] == what]

    @property
    def status(self) -> str:
        """Return its status."""
        return str(self.said("status")[-1]["status"]) if self.said("status") else ""

    @property
    def held(self) -> set[int]:
        """Return what it reads."""
        held: set[int] = set()
        for line in list(self.lines):
            if line["what"] == "taken":
                held |= set(line["partitions"])
            elif line["what"] in ("given up", "lost"):
                held -= set(line["partitions"])
        return held

    def kill(self) -> None:
        """End the process without a word."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Let it give up everything and end."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.write("end\n")
            self._process.stdin.flush()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._listener.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Group:
    """A group, its topic of four partitions, its readers and its plan."""

    def __init__(self, broker: Broker, topic: Callable[..., str]) -> None:
        self.name = f"g{uuid.uuid4().hex[:8]}"
        self._make = topic
        self.topic = topic(4)
        self.config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "log_level": 3,
        }
        self.readers: list[Reader] = []
        self.written = [0] * 4
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        self._generation = 0

    def reader(self, name: str) -> Reader:
        """Start a reader."""
        self.readers.append(Reader(self.config, name))
        return self.readers[-1]

    def write(self, count: int) -> None:
        """Write so many records to each partition; a record's value is its number there."""
        for partition in range(4):
            for _ in range(count):
                value = str(self.written[partition])
                self._producer.produce(self.topic, value, partition=partition)
                self.written[partition] += 1
        assert self._producer.flush(30) == 0

    def plan(self, **members: list[int]) -> None:
        """Write the plan."""
        if self._generation == 0:
            self._make(1, f"{self.name}.plan", cleanup_policy="compact")
        self._generation += 1
        message = {
            "version": 1,
            "group": self.name,
            "generation": self._generation,
            "at": time.time(),
            "members": {name: {self.topic: numbers} for name, numbers in members.items()},
        }
        value = json.dumps(message).encode()
        self._producer.produce(f"{self.name}.plan", key=self.name, value=value)
        assert self._producer.flush(30) == 0

    def delete_plan_topic(self) -> None:
        """Delete the plan's topic."""
        self._admin.delete_topics([f"{self.name}.plan"])[f"{self.name}.plan"].result(30)

    def read(self) -> Counter[tuple[int, int]]:
        """Count how often each record was read."""
        lines = [line for reader in self.readers for line in reader.said("read")]
        return Counter((line["partition"], line["value"]) for line in lines)

    def wait_for_all(self) -> Counter[tuple[int, int]]:
        """Wait until every record was read."""
        wanted = {(p, value) for p in range(4) for value in range(self.written[p])}
        until(lambda: self.read().keys() >= wanted, "every record to be read")
        return self.read()


@pytest.fixture
def group(broker: Broker, topic: Callable[..., str]) -> Iterator[Group]:
    """Make a group whose readers end with the test."""
    made = Group(broker, topic)
    yield made
    for reader in made.readers:
        reader.leave()


@pytest.mark.kafka
@pytest.mark.slow
def test_members_follow_a_plan_that_changes_and_take_over_from_one_that_is_killed(
    group: Group,
) -> None:
    a, b = group.reader("a"), group.reader("b")
    group.write(100)
    until(lambda: "there is no plan: a reads nothing" in a.status, "a to say that it has no plan")

    group.plan(a=[0, 1, 2], b=[3])
    until(lambda: (a.held, b.held) == ({0, 1, 2}, {3}), "the first plan to be followed")
    group.wait_for_all()

    group.plan(a=[0], b=[1, 2, 3])
    group.write(100)
    until(lambda: (a.held, b.held) == ({0}, {1, 2, 3}), "the second plan to be followed")
    counts = group.wait_for_all()
    assert set(counts.values()) == {1}, "an orderly handover reads nothing twice"

    killed = time.monotonic()
    a.kill()
    group.plan(b=[0, 1, 2, 3])
    group.write(50)
    until(lambda: b.held == {0, 1, 2, 3}, "what a had to be taken over")
    counts = group.wait_for_all()
    again = {partition for (partition, _), count in counts.items() if count > 1}
    assert again <= {0}, "only what the killed member had may be read again"
    took = next(line["at"] for line in b.said("taken") if 0 in line["partitions"])
    assert took > killed + LEASE / 2, "the lease of a was not waited for"
    assert turns_are_apart(group)

    group.delete_plan_topic()
    until(lambda: "keeps its 4 partitions" in b.status, "b to say that the plan is gone")
    group.write(50)
    group.wait_for_all()
    assert b.held == {0, 1, 2, 3}


def turns_are_apart(group: Group) -> bool:
    """Return whether every reader read a partition's records only before or after the other."""
    for partition in range(4):
        reads = sorted(
            (line["at"], reader.name)
            for reader in group.readers
            for line in reader.said("read")
            if line["partition"] == partition
        )
        names = [name for _, name in reads]
        changes = sum(before != after for before, after in pairwise(names))
        if changes > 1:
            return False
    return True


@pytest.mark.kafka
@pytest.mark.slow
def test_a_group_whose_members_subscribe_is_refused(group: Group) -> None:
    subscribed = Consumer(group.config)
    subscribed.subscribe([group.topic])
    group.plan(a=[0])
    planned = PlannedConsumer(group.config, "a")
    try:
        until(lambda: subscribed.poll(0.2) is None and subscribed.assignment(), "it to join")

        def refused() -> str:
            subscribed.poll(0.1)
            try:
                planned.poll(0.2)
            except GiveUp as error:
                return str(error)
            return ""

        assert "has members that subscribe" in until(refused, "the member to be refused")
        assert planned.held == frozenset()
    finally:
        planned.close()
        subscribed.close()


def test_a_member_that_cannot_renew_its_leases_any_more_says_so_at_every_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_down(topic: object, timeout: float) -> None:
        raise MemoryError("no room for the plan")

    monkeypatch.setattr("lagless.adapters.kafka.plan_topic.PlanTopic.receive", break_down)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
    planned = PlannedConsumer(config, "a")

    def told() -> str:
        try:
            planned.poll(0)
        except GiveUp as error:
            return str(error)
        return ""

    assert until(told, "the failure") == "a cannot continue: no room for the plan"
    assert told() == "a cannot continue: no room for the plan"
    planned.close()


@pytest.mark.parametrize(
    ("config", "more", "trouble"),
    [
        ({}, {}, "group.id is missing"),
        ({"group.id": "g"}, {}, "name is missing"),
        ({"group.id": "g"}, {"name": "a b"}, "should be letters"),
        ({"group.id": "g", "enable.auto.commit": True}, {"name": "a"}, "should be left out"),
        ({"group.id": "g"}, {"name": "a", "lease": 4, "settle": 1}, "at least five times settle"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(
    config: dict[str, Any], more: dict[str, Any], trouble: str
) -> None:
    with pytest.raises(WrongInput, match=trouble):
        PlannedConsumer({"bootstrap.servers": "127.0.0.1:1", **config}, **more)
