"""The real broker: data that last, clear errors, and an end with its parent."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.errors import GiveUp, WrongInput
from lagless.lab.parts import children
from lagless.lab.parts.broker import Broker, configure
from tests.lab.parts.ended import gone

pytestmark = pytest.mark.kafka


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, timeout=30)
        return [(message.value() or b"").decode() for message in messages]
    finally:
        consumer.close()


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


@pytest.mark.slow
def test_data_and_port_outlive_a_stop_and_a_crash(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as first:
        port = first.port
        create(first.bootstrap, "kept")
        produce(first.bootstrap, "kept", 5)
        first.kill()
        first.start()
        assert first.port == port
        assert consume(first.bootstrap, "kept", 5) == ["0", "1", "2", "3", "4"]
        pid = first.pid
    assert gone(pid)
    with Broker(tmp_path / "kafka", port=port) as second:
        assert second.bootstrap == f"127.0.0.1:{port}"
        assert consume(second.bootstrap, "kept", 5) == ["0", "1", "2", "3", "4"]


def test_a_folder_in_use_is_refused(broker: Broker) -> None:
    with pytest.raises(GiveUp, match=f"{broker.data_dir} is in use"), Broker(broker.data_dir):
        pass
    assert children.answers(broker.port)


def test_a_port_in_use_is_refused(broker: Broker, tmp_path: Path) -> None:
    with (
        pytest.raises(GiveUp, match=f"port {broker.port} is in use"),
        Broker(tmp_path, port=broker.port),
    ):
        pass


def test_a_setting_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(GiveUp, match=r"num\.io\.threads"),
        Broker(tmp_path, settings={"num.io.threads": "many"}),
    ):
        pass


def test_listeners_are_added_to_the_plain_one(tmp_path: Path) -> None:
    known, properties = configure(
        tmp_path,
        9092,
        {"listeners": "PODS://0.0.0.0:0", "listener.security.protocol.map": "PODS:PLAINTEXT"},
    )
    assert known["PLAINTEXT"] == "127.0.0.1:9092"
    port = known["PODS"].removeprefix("127.0.0.1:")
    assert int(port) > 0
    assert f"PODS://0.0.0.0:{port}" in properties["listeners"]
    assert properties["listener.security.protocol.map"].endswith(",PODS:PLAINTEXT")


@pytest.mark.parametrize("text", ["SASL_SSL:9093", "SSL://host", "PLAINTEXT://127.0.0.1:1"])
def test_a_listener_that_cannot_be_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=text):
        configure(tmp_path, None, {"listeners": text})


PARENT = """
import sys, threading, time
from lagless.lab.parts.broker import Broker

def start():
    print(broker.start().pid, flush=True)

broker = Broker(sys.argv[1])
# From a thread that ends: the broker must not end with it, only with the process.
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""


def test_the_broker_dies_with_its_parent_and_not_with_a_thread(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            time.sleep(0.5)
            assert psutil.pid_exists(pid)
        finally:
            parent.kill()
    assert gone(pid)


def run(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", "from lagless.cli.app import main; main()", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )


def test_the_command_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with run("--data-dir", str(tmp_path), "--set", "num.partitions=7", "--json") as command:
        try:
            assert command.stdout is not None
            told = json.loads(command.stdout.readline())
            create(told["bootstrap"], "here")
            assert "num.partitions=7\n" in (tmp_path / "server.properties").read_text()
            assert Path(told["log"]).exists()
        finally:
            command.send_signal(signal.SIGTERM)
        rest, _ = command.communicate(timeout=60)
    assert (command.returncode, rest) == (0, "")
    assert gone(told["pid"])


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [(("--set", "nonsense"), 2, "KEY=VALUE"), (("--port", "{port}"), 1, "is in use")],
)
def test_the_command_fails_in_one_sentence(
    broker: Broker, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    given = [text.format(port=broker.port) for text in arguments]
    with run(*given, "--json") as command:
        out, err = command.communicate(timeout=60)
    assert command.returncode == status
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_topics_are_made_only_on_purpose(broker: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 2
    assert admin.list_topics("no-such-topic", timeout=10).topics["no-such-topic"].error is not None
    assert "no-such-topic" not in admin.list_topics(timeout=10).topics
