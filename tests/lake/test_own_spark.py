"""A consumer with a Spark of its own, as a process: what it starts, reads, and leaves behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from lagless.lab.parts.broker import Broker
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
RECORDS = 500


@pytest.fixture
def consumer(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for seq in range(RECORDS):
        producer.produce(name, json.dumps({"seq": seq}), partition=seq % 2)
    assert producer.flush(30) == 0
    config = tmp_path / "lagless.toml"
    config.write_text(
        f'group = "{name}"\ntopics = ["{name}"]\nkafka.bootstrap = "{broker.bootstrap}"\n'
        f'lake.path = "{tmp_path / "lake"}"\n[spark]\ncores = 1\nmemory = "600m"\n'
        f'archive = false\n[topic."{name}"]\nformat = "json"\nschema = "seq BIGINT"\n'
    )
    command = [sys.executable, "-m", "lagless", "consumer", "1", "--config", str(config)]
    # As a child of a process that has opened a session on a Connect server.
    environment = {**os.environ, "SPARK_CONNECT_MODE_ENABLED": "1"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--assign", f"{name}:0,1"],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env=environment,
        )
    yield process, tmp_path / "lake" / name
    if process.poll() is None:
        process.kill()
    process.wait()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_consumer_with_its_own_spark_reads_all_and_leaves_nothing(
    consumer: tuple["subprocess.Popen[bytes]", Path], how: signal.Signals
) -> None:
    process, table = consumer

    def rows() -> int:
        if process.poll() is not None:
            raise AssertionError((table.parent.parent / "log").read_text())
        return (
            DeltaTable(table).to_pyarrow_table().num_rows if (table / "_delta_log").exists() else 0
        )

    until(lambda: rows() == RECORDS, "all records", 500)
    children = psutil.Process(process.pid).children(recursive=True)
    assert [child.name() for child in children] == ["java"]
    command = children[0].cmdline()
    assert "-Xmx600m" in command
    assert "-XX:+UseSerialGC" in command
    left = sorted(path.name for path in table.parent.iterdir())
    assert left == sorted({table.name, f"{table.name}_rejected"} & set(left))
    os.kill(process.pid, how)
    process.wait(60)
    assert process.returncode == (0 if how is signal.SIGTERM else -how)
    _, alive = psutil.wait_procs(children, 30)
    assert alive == []
