"""Forged and broken messages on a real broker's topics."""

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lagless.adapters.kafka import mail, speeds, topic_records, topics
from lagless.messages import Heartbeat, WriteSpeeds
from lagless.settings import Settings
from tests import waiting
from tests.own_group import own_group

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(broker: "Broker") -> Settings:
    """Return settings of a group of its own, with its own shared topics."""
    return own_group(broker.bootstrap)


def beat(settings: Settings, consumer: int) -> Heartbeat:
    return Heartbeat(
        group=settings.group,
        consumer=consumer,
        incarnation="i",
        highest=0,
        state="ready",
        at=time.time(),
    )


def test_a_controller_hears_its_consumers_through_a_crowd_of_forgeries(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    topic = settings.controller.metadata_topic
    controller = mail.ControllerMailbox(settings)
    with closing(controller), closing(topic_records.Writer(settings.kafka)) as writer:
        controller.lead()
        room = topics.boxes(settings)
        with caplog.at_level(logging.WARNING, "lagless.kafka"):
            first = writer.write(topic, 0, b'{"group":')
            writer.write(topic, 0, beat(settings, 1_000_000).encode())
            writer.write(topic, 0, beat(settings, 1).encode())
            heard: list[int] = []

            def hears() -> list[int]:
                heard.extend(message.consumer for message in controller.receive(1).messages)
                return heard

            waiting.until(hears, "the consumer is heard", 60)
        assert heard == [1]
        assert topics.boxes(settings) == room
    told = "\n".join(caplog.messages)
    assert f"skipped offset {first} of {topic}:0: not JSON" in told
    assert f"ignored messages of a consumer 1000000 in {topic}:0" in told


def test_speeds_of_the_future_are_not_believed(settings: Settings) -> None:
    now = time.time()
    genuine = WriteSpeeds(group=settings.group, at=now, window=30, speeds={"orders": {0: 5.0}})
    forged = WriteSpeeds(group=settings.group, at=now + 86_400, window=30, speeds={})
    out, latest = speeds.SpeedsOut(settings), speeds.LatestSpeeds(settings)
    with closing(out), closing(latest):
        out.publish(genuine)
        assert latest.latest() == genuine
        out.publish(forged)
        newer = genuine.model_copy(update={"at": now + 1})
        out.publish(newer)
        assert waiting.until(lambda: latest.latest(1) == newer, "the true ones", 60)


def test_a_flood_is_taken_in_parts(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_records, "AT_ONCE", 100_000)
    topics.ensure(settings)
    place = settings.controller.metadata_topic, 0
    with closing(topic_records.Writer(settings.kafka)) as writer:
        for _ in range(3000):
            writer.hand_over(*place, b"x" * 1000)
        writer.write(*place, b"last")
    reader = topic_records.Reader(settings.kafka, *place, "beginning")
    with closing(reader):
        parts: list[list[topic_records.Record]] = []
        while not parts or parts[-1][-1].value != b"last":
            parts.append(reader.drain(30))
            assert parts[-1]
    assert sum(map(len, parts)) == 3001
    assert len(parts) > 1
