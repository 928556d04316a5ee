"""Groups on a broker that has the assignor: members, plans, and the nudge between them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.adapters.spark import jars, java
from lagless.adapters.spark.guard import guarded
from lagless.errors import MissingPart
from lagless.lab.parts import assignor_jar
from lagless.lab.parts.broker import Broker
from tests.waiting import until

Held = dict[str, list[int]]
"""Partitions by topic."""
Planned = Mapping[str, Mapping[str, Iterable[int]]]
"""Partitions by member and topic."""

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "group.consumer.assignors": "lagless.assignor.PlanAssignor,uniform,range",
    "lagless.plan.refresh.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}


def broker_with_assignor() -> Broker:
    """Return the embedded broker with the assignor's jar on its class path."""
    return Broker(settings=SETTINGS, plugins=[jar()])


def jar() -> Path:
    """Return the assignor's jar; skip the test where it cannot be built."""
    try:
        return assignor_jar.built(tested=True)
    except MissingPart as trouble:
        pytest.skip(str(trouble))


class Member:
    """A member in a process of its own, and what it says it reads."""

    def __init__(self, command: list[str], name: str) -> None:
        self.name = name
        self.held: Held = {}
        self._process = subprocess.Popen(
            guarded(command), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def subscribe(self, *topics: str) -> None:
        """Change the subscription."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(topics) + "\n")
        self._process.stdin.flush()

    def hang(self) -> None:
        """Stop the process without ending it."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process continue."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process without a word to the broker."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Close the consumer and wait for the end of its process."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.write("\x04")
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end()

    @property
    def lives(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.held = json.loads(line)

    def _end(self) -> None:
        self._process.wait()
        self._listener.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self.held = {}


class Group:
    """A group with a name of its own, its topics, its members and its plan."""

    def __init__(self, broker: Broker, *, classic: bool = False) -> None:
        self.name = f"g{uuid.uuid4().hex[:8]}"
        self._classic = classic
        self.members: dict[str, Member] = {}
        self._broker = broker
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 4})
        self._generation = 0
        self._nudges = cycle([f"{self.name}.nudge-a", f"{self.name}.nudge-b"])
        self._nudger: Member | None = None

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic whose name begins with the group's."""
        full = f"{self.name}.{name}"
        self._create(full, partitions)
        return full

    def join(
        self, name: str, *topics: str, static: bool = True, assignor: str | None = "lagless"
    ) -> Member:
        """Start a member."""
        config: dict[str, Any] = {
            "bootstrap.servers": self._broker.bootstrap,
            "group.id": self.name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        if assignor:
            config["group.remote.assignor"] = assignor
        if static:
            config["group.instance.id"] = name
        command = [sys.executable, "-m", "tests.assignor.member", json.dumps(config), *topics]
        self.members[name] = Member(command, name)
        return self.members[name]

    def join_classic(self, name: str, *topics: str) -> Member:
        """Start a Java consumer that has the assignor itself; its broker need not know of it."""
        config = {
            "partition.assignment.strategy": "lagless.assignor.ClientPlanAssignor",
            "heartbeat.interval.ms": "500",
            "session.timeout.ms": "6000",
            "lagless.plan.refresh.ms": "1000",
        }
        return self._join_java(name, topics, config, [jar()])

    def join_java(self, name: str, *topics: str) -> Member:
        """Start Kafka's own Java consumer, which asks its broker for the assignor."""
        config = {"group.protocol": "consumer", "group.remote.assignor": "lagless"}
        return self._join_java(name, topics, config, [])

    def _join_java(
        self, name: str, topics: Iterable[str], config: Mapping[str, str], plugins: Iterable[Path]
    ) -> Member:
        common = {
            "bootstrap.servers": self._broker.bootstrap,
            "group.id": self.name,
            "group.instance.id": name,
        }
        command = [
            str(java.find().path),
            *("-XX:TieredStopAtLevel=1", "-Xmx96m"),
            *("-cp", os.pathsep.join((jars.classpath("broker"), *map(str, plugins)))),
            str(ROOT / "tests" / "assignor" / "JavaMember.java"),
            *(f"{key}={value}" for key, value in {**common, **config}.items()),
            *topics,
        ]
        self.members[name] = Member(command, name)
        return self.members[name]

    def plan(self, members: Planned, **fields: Any) -> None:
        """Write the plan."""
        self._generation += 1
        message = {
            "version": 1,
            "message": "plan",
            "group": self.name,
            "generation": self._generation,
            "at": time.time(),
            "members": {
                name: {topic: list(partitions) for topic, partitions in topics.items()}
                for name, topics in members.items()
            },
        }
        self.write(json.dumps(message | fields).encode())

    def write(self, value: bytes | None) -> None:
        """Write any message to the topic of the plan."""
        if f"{self.name}.plan" not in self._admin.list_topics(timeout=30).topics:
            self._create(f"{self.name}.plan", 1, {"cleanup.policy": "compact"})
        self._producer.produce(f"{self.name}.plan", key=self.name, value=value)
        assert self._producer.flush(30) == 0

    def delete_plan_topic(self) -> None:
        """Delete the topic of the plan."""
        self._admin.delete_topics([f"{self.name}.plan"])[f"{self.name}.plan"].result(30)

    def nudge(self) -> None:
        """Make the coordinator assign again: a member changes its own subscription."""
        topic = next(self._nudges)
        if self._nudger is None:
            for each in ("nudge-a", "nudge-b"):
                self.topic(each, 1)
            self._nudger = (self.join_classic if self._classic else self.join)("nudge", topic)
        else:
            self._nudger.subscribe(topic)
        nudger = self._nudger
        until(lambda: nudger.held == {topic: [0]}, "the member that nudges to have its topic")

    def held(self) -> dict[str, Held]:
        """Return what the members read, without the one that nudges."""
        assert all(member.lives for member in self.members.values()), "a member has ended"
        return {name: it.held for name, it in self.members.items() if name != "nudge"}

    def follows(self, expected: Planned) -> None:
        """Nudge until members read exactly this: a broker may not have read the plan yet."""
        wanted = {
            name: {topic: sorted(it) for topic, it in topics.items()}
            for name, topics in expected.items()
        }
        deadline = time.monotonic() + 90
        while self.held() != wanted:
            assert time.monotonic() < deadline, f"{self.held()} is not {wanted}"
            self.nudge()
            self._wait_for(lambda: self.held() == wanted, 5)

    def stays(self, seconds: float = 3) -> None:
        """Nudge, and find nothing changed for a while."""
        before = self.held()
        self.nudge()
        assert not self._wait_for(lambda: self.held() != before, seconds)

    def counts(self) -> list[int]:
        """Return how many partitions each member reads, in order."""
        return sorted(sum(map(len, held.values())) for held in self.held().values())

    def close(self) -> None:
        """Let all members leave."""
        for member in self.members.values():
            member.go_on()
            member.leave()

    def _create(self, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
        made = self._admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])
        made[name].result(30)

    @staticmethod
    def _wait_for(probe: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not probe():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True
