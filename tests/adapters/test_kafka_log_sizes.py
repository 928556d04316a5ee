"""Log sizes and the monitor on real brokers, against the bytes on their disks."""

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from lagless.adapters.kafka.log_sizes import LogSizes
from lagless.adapters.kafka.speeds import LatestSpeeds
from lagless.model import TopicPartition
from lagless.monitor.service import Monitor
from lagless.monitor.window import Window
from lagless.settings import Settings, parse
from lagless.wiring.clock import RealClock
from tests.monitor import appended
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = pytest.mark.kafka


def settings(bootstrap: str, *topics: str, **monitor: Any) -> Settings:
    name = f"g{uuid.uuid4().hex[:8]}"
    return parse(
        {
            "group": name,
            "topics": list(topics),
            "lake": {"path": "lake"},
            "kafka": {"bootstrap": bootstrap},
            "monitor": {"topic": f"{name}-speeds", **monitor},
        }
    )


def write(bootstrap: str, topic: str, records: int, partition: int = 0, size: int = 1000) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(records):
        producer.produce(topic, b"x" * size, partition=partition)
    assert producer.flush(30) == 0


def on_disk(broker: "Broker", topic: str, partition: int) -> int:
    folder = broker.data_dir / "data" / f"{topic}-{partition}"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


@pytest.fixture
def measured() -> Iterator[Callable[[Settings], LogSizes]]:
    """Make adapters that are closed in the end."""
    made: list[LogSizes] = []

    def make(settings: Settings) -> LogSizes:
        made.append(LogSizes(settings))
        return made[-1]

    yield make
    for sizes in made:
        sizes.close()


def test_sizes_are_those_on_disk(
    broker: "Broker", topic: Callable[..., str], measured: Callable[[Settings], LogSizes]
) -> None:
    name = topic(partitions=3)
    write(broker.bootstrap, name, 100, partition=1)
    sizes = measured(settings(broker.bootstrap, name)).measure().sizes
    assert {p.partition for p in sizes} == {0, 1, 2}
    size = sizes[TopicPartition(name, 1)]
    assert size.bytes == on_disk(broker, name, 1) > 100_000
    assert (size.start_offset, size.end_offset, size.leader) == (0, 100, 1)
    assert re.fullmatch(r"[0-9a-f-]{36}", size.topic_id)
    assert sizes[TopicPartition(name, 0)].bytes == 0


def test_new_topics_and_partitions_are_noticed_and_others_left_out(
    broker: "Broker", topic: Callable[..., str], measured: Callable[[Settings], LogSizes]
) -> None:
    prefix = f"p{uuid.uuid4().hex[:6]}"
    first = topic(name=f"{prefix}-a")
    given = settings(broker.bootstrap, f"{prefix}-.*|__.*")
    sizes = measured(given)
    assert {p.topic for p in sizes.measure().sizes} == {first}
    second = topic(name=f"{prefix}-b")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(first, 4)])[first].result(10)
    wanted = {TopicPartition(first, n) for n in range(4)} | {TopicPartition(second, 0)}
    deadline = time.monotonic() + 10
    while set(sizes.measure().sizes) != wanted:  # brokers hear of it a moment later
        assert time.monotonic() < deadline
    named = measured(settings(broker.bootstrap, "__consumer_offsets", "nowhere"))
    assert {p.topic for p in named.measure().sizes} <= {"__consumer_offsets"}


def test_deleted_records_and_a_topic_created_again_are_seen_as_such(
    broker: "Broker", topic: Callable[..., str], measured: Callable[[Settings], LogSizes]
) -> None:
    name = topic()
    write(broker.bootstrap, name, 50)
    sizes = measured(settings(broker.bootstrap, name))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([Place(name, 0, 20)]).values():
        future.result(10)
    before = sizes.measure().sizes[TopicPartition(name, 0)]
    assert (before.start_offset, before.end_offset) == (20, 50)
    admin.delete_topics([name])[name].result(10)
    deadline = time.monotonic() + 30
    while name in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
    assert not sizes.measure().sizes
    topic(name=name)
    while not (found := sizes.measure().sizes):
        assert time.monotonic() < deadline
    after = found[TopicPartition(name, 0)]
    assert after.topic_id != before.topic_id
    assert after.end_offset == 0


@pytest.mark.slow
def test_speeds_are_what_the_broker_appended_while_retention_deletes(tmp_path: Path) -> None:
    from lagless.lab.parts.broker import Broker

    seconds, interval, window = 24.0, 1.0, 6.0
    shapes = {
        "steady": appended.steady(600e3),
        "step": appended.step(300e3, 900e3, 12),
        "spike": appended.spike(300e3, 1500e3, 12, 15),
    }
    loads = {f"{shape}-{codec}": (shape, codec) for shape in shapes for codec in ("none", "lz4")}
    eager = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
    with Broker(settings=eager) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {**appended.KEEP_DELETED, "retention.bytes": "2000000", "segment.bytes": "1048576"}
        made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name in loads])
        for future in made.values():
            future.result(30)
        ending, kept = threading.Event(), appended.Kept()
        sizes = LogSizes(settings(broker.bootstrap, ".*"))
        monitor = Monitor("g", interval, Window(window), sizes, kept, RealClock(ending))
        truths = {name: appended.Truth(broker.data_dir / "data" / f"{name}-0") for name in loads}
        rates = {name: shapes[shape] for name, (shape, _) in loads.items()}
        codecs = {name: codec for name, (_, codec) in loads.items()}
        assert _is_whole(monitor, len(loads))  # seen while empty, so that all bytes count
        load = appended.Load(broker.bootstrap, rates, codecs)
        began = appended.watch(monitor, ending, truths.values(), load, seconds)
        assert monitor.round()
        for truth in truths.values():
            while not truth.sample():
                pass
        deleted = {file.parent.name for file in (broker.data_dir / "data").glob("*/*.log.deleted")}
        sizes.close()
    assert deleted >= {f"{name}-0" for name in loads if "none" in name}
    late = [m for m in kept.messages if m.at > began + window + 2 * interval]
    for name, truth in truths.items():
        total = monitor.window._logs[TopicPartition(name, 0)].past[-1][1]
        assert total == pytest.approx(truth.sizes[-1], rel=0.02), name
        errors = [abs(m.speeds[name][0] / truth.speed(m.at, window) - 1) for m in late]
        # A busy machine delays single measurements, which a short window shows: hence the median.
        assert median(errors) < 0.05, (name, errors)


def _is_whole(monitor: Monitor, count: int) -> bool:
    deadline = time.monotonic() + 30
    while not (monitor.round() and len(monitor.window._logs) == count):
        assert time.monotonic() < deadline
    return True


@pytest.mark.slow
def test_a_broker_that_restarts_costs_only_the_gap(tmp_path: Path) -> None:
    from lagless.lab.parts.broker import Broker

    with Broker(tmp_path / "kafka") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        given = settings(broker.bootstrap, "orders", interval=0.5, window=5)
        ending, kept = threading.Event(), appended.Kept()
        sizes = LogSizes(given)
        monitor = Monitor("g", 0.5, Window(5), sizes, kept, RealClock(ending))
        loop = threading.Thread(target=monitor.run, args=(ending.is_set,))
        loop.start()
        until(lambda: monitor.published, "a publication", 60)
        write(broker.bootstrap, "orders", 500)
        until(lambda: kept.messages and kept.messages[-1].speeds.get("orders"), "a speed", 60)
        broker.stop()
        until(lambda: monitor.trouble, "a trouble", 60)
        assert monitor.readings[TopicPartition("orders", 0)].stale
        failed = monitor.errors
        broker.start()
        write(broker.bootstrap, "orders", 500)
        until(lambda: not monitor.trouble, "its end", 60)
        until(
            lambda: monitor.readings[TopicPartition("orders", 0)].measured_at > time.time() - 1,
            "a measurement",
            60,
        )
        assert not monitor.readings[TopicPartition("orders", 0)].stale
        assert failed >= 1
        ending.set()
        loop.join(20)
        total = monitor.window._logs[TopicPartition("orders", 0)].past[-1][1]
        size = sizes.measure().sizes[TopicPartition("orders", 0)]
        # Nothing of what was written before, during or after the gap is lost.
        assert size.end_offset == 1000
        assert total == pytest.approx(size.bytes, rel=0.01)
        sizes.close()


def test_the_command_publishes_answers_and_ends_at_once(
    broker: "Broker", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    given = settings(broker.bootstrap, name)
    config = tmp_path / "lagless.toml"
    config.write_text(
        f'group = "{given.group}"\ntopics = ["{name}"]\n'
        f'[kafka]\nbootstrap = "{broker.bootstrap}"\n[lake]\npath = "{tmp_path}"\n'
        f'[monitor]\ntopic = "{given.monitor.topic}"\n'
        "interval = 0.3\nwindow = 3\nmetrics_port = 0\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lagless", "monitor", "--config", str(config), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"port (\d+)", line)
        assert found, line
        base = f"http://127.0.0.1:{found[1]}"
        until(lambda: _status(base + "/health") == 200, "health", 60)
        write(broker.bootstrap, name, 100)
        metric = "lagless_write_speed_bytes_per_second"
        pattern = re.compile(rf'{metric}{{partition="0",topic="{name}"}} [1-9]')
        until(lambda: pattern.search(_page(base + "/metrics")), "metrics", 60)
        assert "lagless_monitor_errors_total 0.0" in _page(base + "/metrics")
        assert "lagless_measurement_age_seconds" in _page(base + "/metrics")
        assert _status(base + "/nothing") == 404
        latest = LatestSpeeds(given)
        speeds = latest.latest()
        assert speeds is not None
        assert speeds.speeds[name][0] > 0
        assert speeds.bytes_per_offset[name][0] == pytest.approx(1000, rel=0.2)
        latest.close()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert '"published": ' in out
    assert out.count("\n") == 1


def test_the_command_ends_at_once_even_if_kafka_does_not_answer(tmp_path: Path) -> None:
    config = tmp_path / "lagless.toml"
    config.write_text(
        'group = "g"\ntopics = ["t"]\n[lake]\npath = "x"\n'
        '[kafka]\nbootstrap = "127.0.0.1:1"\n[monitor]\nmetrics_port = 0\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lagless", "monitor", "--config", str(config), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        # Before that it says that Kafka cannot be reached.
        ports = (re.search(r"port (\d+)$", line) for line in process.stderr)
        found = next(filter(None, ports), None)
        assert found
        assert _status(f"http://127.0.0.1:{found[1]}/health") == 503
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert '"published": 0' in out


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
