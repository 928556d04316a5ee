"""Topics, speeds and mail on a real broker."""

import json
import logging
import random
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from lagless.adapters.kafka import mail, speeds, topic_records, topics
from lagless.errors import TryAgain
from lagless.messages import ConsumerState, Heartbeat, Order, Receipt, WriteSpeeds
from lagless.settings import Settings
from tests.own_group import own_group

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(broker: "Broker") -> Settings:
    """Return settings of a group of its own, with its own shared topics."""
    return own_group(broker.bootstrap)


@pytest.fixture
def writer(settings: Settings) -> Iterator[topic_records.Writer]:
    """Return a writer, for what other roles would send."""
    topics.ensure(settings)
    made = topic_records.Writer(settings.kafka)
    yield made
    made.close()


def order(settings: Settings, consumer: int = 3, **changes: Any) -> Order:
    fields = {
        "group": settings.group,
        "kind": "start",
        "consumer": consumer,
        "incarnation": "i",
        "generation": 1,
        "at": 1.0,
    }
    return Order.model_validate(fields | changes)


def state(settings: Settings, highest: int) -> ConsumerState:
    return ConsumerState(group=settings.group, consumer=3, incarnation="i", highest=highest, at=1.0)


def test_own_topics_are_made_once_as_they_should_be(settings: Settings) -> None:
    assert set(topics.ensure(settings)) == settings.own_topics
    assert topics.ensure(settings) == []
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, settings.state_topic)
    config = admin.describe_configs([resource])[resource].result(10)
    assert config["cleanup.policy"].value == "compact"
    assert len(admin.list_topics(timeout=10).topics[settings.monitor.topic].partitions) == 1


def test_the_metadata_topic_has_room_and_grows(settings: Settings) -> None:
    topic = settings.controller.metadata_topic
    assert topics.grow(settings, 1) == topics.ROOM + 1
    assert topics.grow(settings, topics.ROOM) == topics.ROOM + 1
    grown = topics.grow(settings, topics.ROOM + 1)
    assert grown == 2 * topics.ROOM + 1
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap})
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == grown
    assert topics.grow(settings, 500) == 501


def test_orders_reach_their_consumer_alone(
    settings: Settings, writer: topic_records.Writer
) -> None:
    mine, other = mail.ConsumerMailbox(settings, 3), mail.ConsumerMailbox(settings, 4)
    try:
        sent = order(settings)
        writer.write(settings.controller.metadata_topic, 3, sent.encode())
        assert mine.receive(10) == [sent]
        assert other.receive(0.2) == []
    finally:
        mine.close()
        other.close()


def test_what_nobody_can_read_is_counted_and_skipped_with_its_offset(
    settings: Settings, writer: topic_records.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    box, topic = mail.ConsumerMailbox(settings, 3), settings.controller.metadata_topic
    try:
        newer = order(settings).model_dump() | {"mood": "fine"}
        good = order(settings, generation=2)
        for value in (
            b"\xff\x00",
            b"[]",
            b'{"version": 9, "group": "%s"}' % settings.group.encode(),
        ):
            writer.write(topic, 3, value)
        writer.write(topic, 3, b'{"version": 9, "group": "another"}')
        writer.write(topic, 3, order(settings, group="another").encode())
        writer.write(topic, 3, json.dumps(newer).encode())
        writer.write(topic, 3, good.encode())
        with caplog.at_level(logging.WARNING):
            got: list[Order] = []
            while len(got) < 2:
                got += box.receive(10)
        assert got == [order(settings), good]
        assert box.undecodable == 3
        for offset in range(3):
            assert f"offset {offset} of {topic}:3" in caplog.text
    finally:
        box.close()


def test_a_late_reader_goes_on_where_the_last_one_stopped(
    settings: Settings, writer: topic_records.Writer
) -> None:
    topic = settings.controller.metadata_topic
    writer.write(topic, 3, order(settings, generation=1).encode())
    first = mail.ConsumerMailbox(settings, 3)
    assert first.receive(0.5) == []  # never read: the past is not its business
    writer.write(topic, 3, order(settings, generation=2).encode())
    assert [got.generation for got in first.receive(10)] == [2]
    first.close()
    writer.write(topic, 3, order(settings, generation=3).encode())
    second = mail.ConsumerMailbox(settings, 3)
    assert [got.generation for got in second.receive(10)] == [3]
    second.close()


def test_state_is_recalled_as_it_was_last_persisted(
    settings: Settings, writer: topic_records.Writer
) -> None:
    box = mail.ConsumerMailbox(settings, 3)
    try:
        assert box.recall() is None
        box.persist(state(settings, 1))
        box.persist(state(settings, 2))
        writer.write(settings.state_topic, 0, b"rubbish", mail.state_key(3))
        writer.write(settings.state_topic, 0, state(settings, 9).encode(), mail.state_key(4))
        assert box.recall() == state(settings, 2)
    finally:
        box.close()


def test_receipts_and_heartbeats_reach_the_controller(
    settings: Settings, writer: topic_records.Writer
) -> None:
    box = mail.ConsumerMailbox(settings, 3)
    reader = topic_records.Reader(
        settings.kafka, settings.controller.metadata_topic, 0, "beginning"
    )
    try:
        receipt = Receipt(
            group=settings.group,
            kind="start",
            consumer=3,
            incarnation="i",
            generation=1,
            highest=1,
            at=1.0,
        )
        beat = Heartbeat(
            group=settings.group, consumer=3, incarnation="i", highest=1, state="ready", at=1.0
        )
        box.send(beat)
        box.send(receipt)
        values = [record.value for record in reader.drain_to_end()]
        assert values == [beat.encode(), receipt.encode()]
    finally:
        box.close()
        reader.close()


def test_the_newest_speeds_of_the_own_group_are_found_among_others(settings: Settings) -> None:
    out, latest = speeds.SpeedsOut(settings), speeds.LatestSpeeds(settings)
    try:
        for at in (1.0, 2.0):
            out.publish(WriteSpeeds(group=settings.group, at=at, window=30, speeds={"a": {0: at}}))
        for at in range(10):
            out.publish(WriteSpeeds(group="another", at=at, window=30, speeds={}))
        found = latest.latest()
        assert found is not None
        assert (found.at, found.speeds) == (2.0, {"a": {0: 2.0}})
        out.publish(WriteSpeeds(group=settings.group, at=3.0, window=30, speeds={}))
        deadline = time.monotonic() + 10
        while (newer := latest.latest(1)) == found:
            assert time.monotonic() < deadline
        assert newer is not None
        assert newer.at == 3.0
    finally:
        out.close()
        latest.close()


def test_ten_thousand_speeds_fit_into_one_message_of_the_default_size(settings: Settings) -> None:
    draw = random.Random(0)
    numbers = {
        f"topic-with-a-name-{t}": {p: round(draw.uniform(0, 1e7), 3) for p in range(100)}
        for t in range(100)
    }
    large = WriteSpeeds(
        group=settings.group,
        at=1.0,
        window=30,
        speeds=numbers,
        stale=tuple((topic, p) for topic in numbers for p in range(100)),
        bytes_per_offset={
            t: {p: round(draw.uniform(50, 5000), 3) for p in range(100)} for t in numbers
        },
    )
    out, latest = speeds.SpeedsOut(settings), speeds.LatestSpeeds(settings)
    try:
        out.publish(large)
        assert latest.latest() == large
    finally:
        out.close()
        latest.close()


def test_writing_to_a_topic_that_is_not_there_is_an_error(settings: Settings) -> None:
    with pytest.raises(TryAgain):
        topic_records.Reader(settings.kafka, "nowhere", 0, "end")


def test_a_deleted_topic_of_speeds_is_made_again(settings: Settings) -> None:
    out = speeds.SpeedsOut(settings)
    message = WriteSpeeds(group=settings.group, at=1.0, window=30, speeds={})
    out.publish(message)
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap})
    admin.delete_topics([settings.monitor.topic])[settings.monitor.topic].result(10)
    deadline = time.monotonic() + 60
    while settings.monitor.topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
    while True:
        try:
            out.publish(message)
            break
        except TryAgain:
            assert time.monotonic() < deadline
    out.close()
    names = admin.list_topics(timeout=10).topics
    assert settings.monitor.topic in names


def test_what_was_published_is_read_again_from_a_time_on(settings: Settings) -> None:
    out, began = speeds.SpeedsOut(settings), datetime.now().astimezone()
    group, other = settings.group, f"{settings.group}-other"
    for k in range(3):
        for name in (group, other):
            written = {"t": {0: float(k)}}
            out.publish(WriteSpeeds(group=name, at=k, window=30, speeds=written))
    between = datetime.now().astimezone() + timedelta(seconds=0.2)
    time.sleep(0.5)
    out.publish(WriteSpeeds(group=group, at=3, window=30, speeds={"t": {0: 3.0}}))
    out.close()
    shares: list[float] = []
    assert [found.at for found in speeds.recorded(settings, began, shares.append)] == [0, 1, 2, 3]
    assert shares[-1] == 1
    assert [found.at for found in speeds.recorded(settings, between)] == [3]
    later = datetime.now().astimezone() + timedelta(hours=1)
    assert list(speeds.recorded(settings, later)) == []
