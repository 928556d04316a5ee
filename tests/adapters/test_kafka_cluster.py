"""Two brokers: leaders only, a broker that is down, a leader that moves."""

import time
from collections.abc import Iterator
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
    from lagless.lab.parts.brokers import Brokers

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def brokers() -> "Iterator[Brokers]":
    """Run two brokers in one cluster."""
    from lagless.lab.parts.brokers import Brokers

    with Brokers(count=2) as running:
        yield running


def test_leaders_alone_count_and_a_broker_that_is_down_stops_nobody(brokers: "Brokers") -> None:
    first = brokers.members[1]
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
        brokers.members[2].stop()
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
