"""Two brokers: leaders only, a broker that is down, a leader that moves."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.adapters.kafka.log_sizes import LogSizes
from lagless.model import TopicPartition
from lagless.monitor.window import Window
from lagless.ports import Measurement
from lagless.settings import parse

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def properties(broker: "Broker", file: str) -> dict[str, str]:
    lines = (broker.data_dir / file).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@dataclass
class Pair:
    """A broker, and a second one in its cluster."""

    first: "Broker"
    second: "subprocess.Popen[bytes]"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Run two brokers in one cluster."""
    from lagless.adapters.spark import jars, java
    from lagless.lab.parts import broker, children

    with broker.Broker() as first:
        folder = tmp_path / "data"
        folder.mkdir()
        cluster = properties(first, "data/meta.properties")["cluster.id"]
        (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=2\n")
        voters = properties(first, "server.properties")["controller.quorum.voters"]
        addresses, found = broker.configure(folder, None, {"node.id": "2"})
        found |= {
            "process.roles": "broker",
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{addresses['PLAINTEXT']}",
        }
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
        second = children.start(
            [java.find().path, "-Xmx512m", "-cp", jars.classpath("broker"), "kafka.Kafka", config],
            tmp_path / "log",
        )
        try:
            admin = AdminClient({"bootstrap.servers": first.bootstrap})
            deadline = time.monotonic() + 120
            while len(admin.list_topics(timeout=10).brokers) < 2:
                assert second.poll() is None, (tmp_path / "log").read_text()[-2000:]
                assert time.monotonic() < deadline
                time.sleep(0.5)
            yield Pair(first, second)
        finally:
            children.end(second)


def test_leaders_alone_count_and_a_broker_that_is_down_stops_nobody(pair: Pair) -> None:
    first = pair.first
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    made = [
        NewTopic("both", 2, replica_assignment=[[1, 2], [2, 1]]),
        NewTopic("single", 2, replica_assignment=[[1], [2]]),
    ]
    for future in admin.create_topics(made).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": first.bootstrap})
    for topic in ("both", "single"):
        for partition in (0, 1):
            for _ in range(100):
                producer.produce(topic, b"x" * 1000, partition=partition)
    assert producer.flush(60) == 0
    sizes = LogSizes(
        parse(
            {
                "group": "g",
                "topics": ["both", "single"],
                "lake": {"path": "lake"},
                "kafka": {"bootstrap": first.bootstrap},
            }
        )
    )
    window = Window(30)
    try:
        before = sizes.measure()
        window.add(before)
        assert not before.failed
        assert {p: size.leader for p, size in before.sizes.items()} == {
            TopicPartition(topic, n): n + 1 for topic in ("both", "single") for n in (0, 1)
        }
        # Once, although two brokers have it.
        assert all(100_000 < size.bytes < 120_000 for size in before.sizes.values())
        window.add(sizes.measure())
        pair.second.terminate()
        after = _settled(sizes, window)
        assert after.failed == {TopicPartition("single", 1)}
        assert after.sizes[TopicPartition("both", 1)].leader == 1
        readings = window.readings()
        assert readings[TopicPartition("single", 1)].stale
        assert not readings[TopicPartition("both", 1)].stale
        assert all(reading.speed == 0 for reading in readings.values())
    finally:
        sizes.close()


def _settled(sizes: LogSizes, window: Window) -> Measurement:
    """Measure until the cluster has chosen new leaders."""
    deadline = time.monotonic() + 60
    while True:
        measurement = sizes.measure()
        window.add(measurement)
        if len(measurement.sizes) == 3:
            return measurement
        assert time.monotonic() < deadline, measurement
        time.sleep(0.5)
