"""A monitor and a consumer whose settings file changes: processes of their own, on real parts."""

import contextlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lagless import messages
from lagless.messages import WriteSpeeds
from lagless.settings import load
from tests import waiting

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker
    from lagless.lab.parts.connect import ConnectServer

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@contextlib.contextmanager
def running(folder: Path, *words: str) -> Iterator["tuple[subprocess.Popen[bytes], Path]"]:
    """Run a role in a process of its own, and ask it to end."""
    log = folder / f"{words[0]}.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "lagless", *words, "--config", "lagless.toml"]
        process = subprocess.Popen(command, cwd=folder, stderr=out, stdout=out)
    try:
        yield process, log
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(60)


def said(log: Path) -> str:
    return " ".join(log.read_text().split())


def test_monitor_and_consumer_take_over_what_they_can_and_name_the_rest(
    broker: "Broker", connect: "ConnectServer", topic: Callable[..., str], tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    from lagless.adapters.kafka import topic_records

    name, group = topic(), f"g{uuid.uuid4().hex[:8]}"
    file = tmp_path / "lagless.toml"

    def write(seconds: float, kind: str, heartbeat: float) -> None:
        file.write_text(
            f'group = "{group}"\ntopics = ["{name}"]\n[lake]\npath = "lake"\n'
            f'[kafka]\nbootstrap = "{broker.bootstrap}"\n[spark]\nurl = "{connect.url}"\n'
            f'[topic."{name}"]\nformat = "{kind}"\n'
            f'[monitor]\ntopic = "{group}-speeds"\ninterval = {seconds}\n'
            f"shortest_interval = {seconds}\nwindow = {4 * seconds}\n"
            f'[controller]\nmetadata_topic = "{group}-mail"\n'
            f"[consumer]\nheartbeat = {heartbeat}\n"
            f"wait_seconds = {seconds}\nshortest_wait = {seconds}\n"
        )

    def rows() -> int:
        path = str(tmp_path / "lake" / name)
        is_table = DeltaTable.is_deltatable(path)
        return DeltaTable(path).to_pyarrow_table().num_rows if is_table else 0

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    write(600, "text", 1)
    with (
        running(tmp_path, "monitor") as (monitor, measured),
        running(tmp_path, "consumer", "1", "--assign", f"{name}:0") as (consumer, read),
    ):
        waiting.until(lambda: "measuring" in said(measured), "the monitor", 120)
        waiting.until(lambda: f"reading {name}" in said(read), "the consumer", 120)
        producer.produce(name, b"x")
        assert producer.flush(30) == 0
        write(1, "raw", 2)
        for process in (monitor, consumer):
            process.send_signal(signal.SIGHUP)
        sentence = "the settings changed; in effect from now on: "
        waiting.until(lambda: sentence in said(measured), "the monitor's sentence", 60)
        taken = "monitor.interval, monitor.shortest_interval, monitor.window"
        waiting.until(lambda: sentence in said(read), "the consumer's sentence", 60)
        waiting.until(lambda: rows() == 1, "the row that was to wait for ten minutes", 120)
        speeds = topic_records.Reader(load(file, {}).kafka, f"{group}-speeds", 0, "beginning")
        found: list[WriteSpeeds] = []

        def published() -> bool:
            for record in speeds.drain(0.5):
                message = messages.read(record.value)
                assert isinstance(message, WriteSpeeds)
                found.append(message)
            return [it.window for it in found[:1] + found[-3:]] == [2400, 4, 4, 4]

        waiting.until(published, "speeds of the new window", 120)
    assert f"{sentence}{taken}" in said(measured)
    assert "in effect after a restart" not in said(measured)
    left = "in effect after a restart: consumer.heartbeat, topic"
    assert f"consumer.wait_seconds, consumer.shortest_wait; {left}" in said(read)
