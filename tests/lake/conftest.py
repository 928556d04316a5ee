"""A consumer's tables on the real broker and the real Connect server."""

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker
    from lagless.lab.parts.connect import ConnectServer
    from tests.lake.bench import Bench

Send = Callable[..., None]


@pytest.fixture
def send(broker: "Broker") -> Send:
    """Return `send(topic, [value, …], partition=0, key=None, headers=None)`."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 20_000_000})

    def produce(
        topic: str, values: Iterable[bytes | str | None], partition: int = 0, **more: Any
    ) -> None:
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    return produce


@pytest.fixture
def bench(broker: "Broker", connect: "ConnectServer", tmp_path: Path) -> "Callable[..., Bench]":
    """Return `bench(topic, registry=None, **settings of the topic)`: a lake to ingest into."""
    from tests.lake.bench import Bench

    group = f"group-{uuid.uuid4().hex[:8]}"

    def make(topic: str, registry: str | None = None, **settings: Any) -> "Bench":
        where = tmp_path / "lake"
        return Bench(broker.bootstrap, connect.url, where, group, topic, settings, registry)

    return make
