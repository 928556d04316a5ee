"""`lagless adopt` on a real broker and a group of unmodified members, as a new user types it."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from lagless.adapters.kafka.group_members import GroupWatch
from lagless.lab.parts.broker import Broker
from lagless.settings import KafkaSettings
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SIZE = 1000


class Members:
    """Unmodified members in threads, each held to so many records per second by its own loop."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "log_level": 0,
        }
        self.topic = topic
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def join(self, name: str, rate: float) -> None:
        """Start a member."""
        thread = threading.Thread(target=self._read, args=(name, rate), daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """Let all leave."""
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def _read(self, name: str, rate: float) -> None:
        consumer = Consumer(self.config | {"group.instance.id": name})
        consumer.subscribe([self.topic])
        while not self._ending.is_set():
            consumer.consume(max(1, int(rate / 10)), 0.1)
            self._ending.wait(0.1)
        consumer.close()


@pytest.fixture
def write(broker: Broker) -> Iterator[Callable[[str, dict[int, int]], None]]:
    """Return a function that writes so many records/s to each partition until the test ends."""
    ending = threading.Event()
    threads = []

    def run(topic: str, rates: dict[int, int]) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        due = time.monotonic()
        while not ending.is_set():
            for partition, rate in rates.items():
                for _ in range(rate // 5):
                    producer.produce(topic, b"x" * SIZE, partition=partition)
            producer.flush(10)
            due += 0.2
            ending.wait(max(0.0, due - time.monotonic()))

    def start(topic: str, rates: dict[int, int]) -> None:
        thread = threading.Thread(target=run, args=(topic, rates), daemon=True)
        thread.start()
        threads.append(thread)

    yield start
    ending.set()
    for thread in threads:
        thread.join(30)


def adopt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder without settings."""
    return subprocess.run(
        [sys.executable, "-m", "lagless", "adopt", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def state_of(broker: Broker) -> tuple[Any, ...]:
    """Return what adopting must not change: topics and groups."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    groups = admin.list_consumer_groups(request_timeout=10).result().valid
    return sorted(admin.list_topics(timeout=10).topics), sorted(one.group_id for one in groups)


def test_a_running_group_is_measured_and_nothing_is_changed(
    broker: Broker,
    topic: Callable[..., str],
    write: Callable[[str, dict[int, int]], None],
    tmp_path: Path,
) -> None:
    name, group = topic(partitions=4), f"shop-{uuid.uuid4().hex[:6]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(20_000):  # a backlog for the first member alone
        producer.produce(name, b"x" * SIZE, partition=0)
        producer.poll(0)
    producer.flush(30)
    members = Members(broker, group, name)
    try:
        for each in ("a", "b"):
            members.join(each, rate=300)
        watch = GroupWatch(KafkaSettings(bootstrap=broker.bootstrap), group)

        def held() -> bool:
            return [len(member.held) for member in watch.wait_described().members] == [2, 2]

        until(held, "both members to hold two partitions")
        write(name, dict.fromkeys(range(4), 20))
        before = state_of(broker)
        done = adopt(tmp_path, group, "--bootstrap", broker.bootstrap, "--minutes", "0.6", "--json")
        assert done.returncode == 0, done.stderr
        assert state_of(broker) == before
        assert list(tmp_path.iterdir()) == []
    finally:
        members.close()

    found = json.loads(done.stdout)
    assert found["protocol"] == "consumer"
    assert found["topics"] == [name]
    assert set(found["members"]) == {"a", "b"}
    assert sorted(p for one in found["members"].values() for p in one["partitions"]) == [
        f"{name}:{k}" for k in range(4)
    ]
    assert 40 * SIZE < found["bytes_per_second"] < 160 * SIZE
    assert found["rate"]["source"] == "measured"
    assert found["rate"]["members"] == 1
    # It reads 30 records ten times a second, less what the machine makes it wait.
    assert 50 * SIZE < found["rate"]["value"] < 600 * SIZE
    assert found["lag_bytes"] > 1000 * SIZE
    assert found["now"]["consumers"] == 2
    assert found["then"]["consumers"] >= 1
    assert found["measurements"] >= 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody", "--bootstrap", "BROKER"], "there is no group nobody at BROKER"),
        (["a b", "--bootstrap", "BROKER"], "should be letters, digits"),
        (["shop"], "name the brokers with --bootstrap"),
        (["shop", "--bootstrap", "BROKER", "--rate", "fast"], "--rate fast: expected a rate"),
    ],
)
def test_wrong_words_get_one_sentence(
    broker: Broker, tmp_path: Path, words: list[str], said: str
) -> None:
    done = adopt(tmp_path, *(word.replace("BROKER", broker.bootstrap) for word in words))
    assert done.returncode == 2
    assert said.replace("BROKER", broker.bootstrap) in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
