"""`lagless scaler` on a real broker, asked by a real gRPC client."""

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.adapters.keda import scaler_messages as messages
from lagless.adapters.spark.guard import guarded
from lagless.errors import WrongSettings
from lagless.lab.parts.broker import Broker
from lagless.messages import WriteSpeeds
from lagless.model import TopicPartition
from lagless.operations.member_count import MemberCount, weigh
from lagless.settings import parse
from tests.waiting import until

P = TopicPartition("orders", 0)
RECORDS = 1000
SIZE = 1000.0


def test_a_backlog_weighs_what_it_takes_to_read_it_in_time() -> None:
    assert weigh({P: 10.0}, {P: 700}, {P: 1.0}, 60) == {P: 10.0 + 600 / 60}
    assert weigh({P: 10.0}, {P: 100}, {P: 1.0}, 60) == {P: 10.0}, "commits come every few seconds"
    assert weigh({P: 10.0}, {P: 700}, {P: 1.0}, 0) == {P: 10.0}
    assert weigh({P: 10.0}, {P: 700}, {}, 60) == {P: 10.0}, "its bytes are not known yet"


def test_members_that_lagless_starts_itself_are_not_counted_for_keda() -> None:
    own = parse({"group": "g", "topics": ["t"], "lake": {"path": "lake"}})
    with pytest.raises(WrongSettings, match=r'members\.kind is "lagless"'):
        MemberCount(own, lambda weights, capacity, previous: {})


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_keda_is_told_what_speeds_and_backlog_need(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    group, name = f"g{uuid.uuid4().hex[:8]}", topic(4)
    document = {
        "group": group,
        "topics": [name],
        "kafka": {"bootstrap": broker.bootstrap},
        "monitor": {"topic": f"{group}.speeds", "interval": 0.5},
        "members": {"kind": "group", "rate": "12 kB/s"},
        "controller": {"catch_up": 10},
        "provisioner": {"kind": "keda", "scale_to_zero": True},
    }
    settings = parse(document)
    file = tmp_path / "lagless.toml"
    file.write_text(toml(document))
    command = [sys.executable, "-m", "lagless", "scaler", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(
        guarded([*command, "--config", str(file), "--json"]), stdout=subprocess.PIPE, text=True
    )
    speeds = SpeedsOut(settings)

    def told(speed: float) -> Any:
        """Return what KEDA is told once these speeds were published."""
        values = {name: dict.fromkeys(range(4), speed)}
        density = {name: dict.fromkeys(range(4), SIZE)}
        message = WriteSpeeds(
            group=group, at=time.time(), window=30, speeds=values, bytes_per_offset=density
        )
        speeds.publish(message)
        return ask(channel)

    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        with grpc.insecure_channel(address) as channel, closing(speeds):
            assert ask(channel) == grpc.StatusCode.UNAVAILABLE, "nothing is measured yet"
            until(lambda: told(0) == (0, False), "a group with nothing to do", 300)
            # C is 10 kB/s: no two partitions with 5.1 kB/s each fit.
            until(lambda: told(5100) == (4, True), "a member for each partition")
            produce(broker, name)
            # 1 MB that should be read in 10 s makes one partition heavy, and three are light.
            until(lambda: told(100) == (2, True), "one for the backlog and one for the rest")
            read_all(broker, group, name)
            until(lambda: told(100) == (1, True), "one for what is left")
            until(lambda: told(0) == (0, False), "nothing to do again")
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
    assert status == 0


def ask(channel: grpc.Channel) -> Any:
    """Return the members that are asked for and whether there is work, or the error's code."""
    reference = messages.ScaledObjectRef(name="reader")
    request = messages.GetMetricsRequest(scaledObjectRef=reference, metricName="members")
    path = f"/{messages.SERVICE}/"
    try:
        metrics = channel.unary_unary(path + "GetMetrics")(request.SerializeToString(), timeout=30)
        active = channel.unary_unary(path + "IsActive")(reference.SerializeToString(), timeout=30)
    except grpc.RpcError as error:
        call: Any = error
        return call.code()
    (metric,) = messages.GetMetricsResponse.FromString(metrics).metricValues
    return metric.metricValue, messages.IsActiveResponse.FromString(active).result


def produce(broker: Broker, topic: str) -> None:
    """Write a backlog to partition 0."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    for _ in range(RECORDS):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0


def read_all(broker: Broker, group: str, topic: str) -> None:
    """Commit the end of partition 0, as a member does that has read everything."""
    member = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 3,
        }
    )
    member.commit(offsets=[Place(topic, 0, RECORDS)], asynchronous=False)
    member.close()


def toml(document: dict[str, Any]) -> str:
    """Write settings as TOML."""
    top = [f"{key} = {json.dumps(value)}" for key, value in document.items() if key in TOP]
    for section, values in document.items():
        if section not in TOP:
            top += [f"[{section}]", *(f"{key} = {json.dumps(v)}" for key, v in values.items())]
    return "\n".join(top) + "\n"


TOP = ("group", "topics")
