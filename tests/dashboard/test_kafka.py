"""The page and its source on a real broker, with messages as the real adapters write them."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagless.adapters.kafka import topics
from lagless.adapters.kafka.mail import ConsumerMailbox
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.adapters.kafka.topic_records import Writer
from lagless.adapters.kafka.topic_watch import Watcher
from lagless.messages import Heartbeat, Message, Warned, WriteSpeeds
from lagless.model import TopicPartition
from lagless.settings import Settings, load
from tests.dashboard import plays
from tests.dashboard.conftest import Browser, Served, until

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

A, B = (TopicPartition("orders", n) for n in range(2))
SPEEDS = {A: 900_000.0, B: 600_000.0}


@pytest.fixture
def config(broker: "Broker", tmp_path: Path) -> Path:
    """Write settings of a group of its own, on topics of its own."""
    name = uuid.uuid4().hex[:8]
    file = tmp_path / "lagless.toml"
    file.write_text(
        f"""
        group = "{plays.GROUP}"
        topics = ["orders"]
        [kafka]
        bootstrap = "{broker.bootstrap}"
        [monitor]
        topic = "speeds-{name}"
        [controller]
        metadata_topic = "mail-{name}"
        [consumer]
        max_rate = "2 MB/s"
        [lake]
        path = "{tmp_path / "lake"}"
        """
    )
    return file


@pytest.fixture
def knobs(config: Path) -> Settings:
    """Read the settings."""
    return load(config, environ={})


@pytest.fixture
def watch() -> Iterator[Callable[[Settings], Watcher]]:
    """Return a function that starts a watcher."""
    started: list[Watcher] = []

    def start(settings: Settings) -> Watcher:
        started.append(Watcher(settings))
        return started[-1]

    yield start
    for watcher in started:
        watcher.close()


class Roles:
    """The real adapters through which the roles send messages."""

    def __init__(self, knobs: Settings) -> None:
        self._knobs = knobs
        self._speeds = SpeedsOut(knobs)
        self._log = Writer(knobs.kafka)
        self._mail = {n: ConsumerMailbox(knobs, n) for n in (1, 2)}

    def send(self, *messages: Message) -> None:
        """Send each message the way that its role does."""
        for message in messages:
            if isinstance(message, WriteSpeeds):
                self._speeds.publish(message)
            elif isinstance(message, Heartbeat):
                self._mail[message.consumer].send(message)
            else:
                self._log.write(self._knobs.event_topic, 0, message.encode())

    def close(self) -> None:
        """End the connections."""
        for mailbox in self._mail.values():
            mailbox.close()
        self._speeds.close()
        self._log.close()


def gather(watcher: Watcher, kinds: set[type[Message]]) -> list[Message]:
    """Read until there is a message of each kind."""
    messages: list[Message] = []

    def all_there() -> bool:
        messages.extend(watcher.read())
        return {type(message) for message in messages} >= kinds

    until(all_there, f"messages of {kinds}; there are {messages}")
    return messages


def test_topics_that_appear_later_are_followed(
    knobs: Settings, watch: Callable[[Settings], Watcher]
) -> None:
    knobs = knobs.model_copy(update={"group": f"late-{uuid.uuid4().hex[:6]}"})
    watcher = watch(knobs)
    until(lambda: watcher.heard, "Kafka answers")
    assert watcher.trouble == ""
    assert watcher.read() == []
    topics.ensure(knobs)
    roles = Roles(knobs)
    try:
        own = {"group": knobs.group}
        now = time.time()
        roles.send(
            plays.speeds(now, SPEEDS).model_copy(update=own),
            plays.speeds(now, SPEEDS),
            plays.heartbeat(now, 1, {A: 1}).model_copy(update=own),
            plays.decision(now, "warning", "oh", "Sentinel", 1).model_copy(update=own),
        )
        messages = gather(watcher, {WriteSpeeds, Heartbeat, Warned})
    finally:
        roles.close()
    assert {message.group for message in messages} == {knobs.group}
    assert len(messages) == 3


def test_undecodable_messages_are_counted_and_skipped(
    knobs: Settings, watch: Callable[[Settings], Watcher]
) -> None:
    topics.ensure(knobs)
    writer = Writer(knobs.kafka)
    mail = knobs.controller.metadata_topic
    writer.write(mail, 0, b"\xff no json")
    writer.write(mail, 0, b'{"group": "orders", "state": "ready"}')
    writer.write(mail, 0, b'{"group": "another", "state": "ready"}')
    writer.write(mail, 0, plays.heartbeat(time.time(), 1, {A: 1}).encode())
    writer.close()
    watcher = watch(knobs)
    assert len(gather(watcher, {Heartbeat})) == 1
    assert watcher.undecodable == 2


def test_an_unreachable_broker_is_a_trouble(
    knobs: Settings, watch: Callable[[Settings], Watcher]
) -> None:
    nowhere = knobs.kafka.model_copy(update={"bootstrap": "127.0.0.1:9"})
    watcher = watch(knobs.model_copy(update={"kafka": nowhere}))
    until(lambda: watcher.trouble, "that nobody answers")
    assert not watcher.heard


def test_reading_continues_when_the_broker_is_back(
    knobs: Settings, watch: Callable[[Settings], Watcher], tmp_path: Path
) -> None:
    from lagless.lab.parts.broker import Broker

    with Broker(tmp_path / "broker") as broker:
        own = knobs.kafka.model_copy(update={"bootstrap": broker.bootstrap})
        knobs = knobs.model_copy(update={"kafka": own})
        topics.ensure(knobs)
        watcher = watch(knobs)
        until(lambda: watcher.heard, "Kafka answers")
        broker.kill()
        until(lambda: watcher.trouble, "that nobody answers")
        broker.start()
        until(lambda: not watcher.trouble, "that Kafka is back")
        writer = Writer(knobs.kafka)
        writer.write(
            knobs.controller.metadata_topic, 0, plays.heartbeat(time.time(), 1, {}).encode()
        )
        writer.close()
        gather(watcher, {Heartbeat})
        watcher.close()


@pytest.mark.browser
def test_the_page_shows_what_is_on_kafka(
    config: Path, knobs: Settings, serve: Callable[..., Served], browser: Browser
) -> None:
    topics.ensure(knobs)
    roles = Roles(knobs)
    group = plays.Group(knobs)
    try:
        now = time.time()
        roles.send(plays.speeds(now, SPEEDS))
        roles.send(*group.reassign(now - 10, SPEEDS, "2 partitions are not read", {A: 1, B: 1}))
        roles.send(*group.beats(now))
        page = serve("dashboard", "--config", str(config), "--port", "0", "--json",
                     module="lagless")  # fmt: skip
        browser.open(page.address)
        until(lambda: browser.columns() == {"1": [str(A), str(B)]}, "both blocks in one bin")
        assert "2 partitions are not read" in browser.text(".log")
        roles.send(*group.reassign(time.time(), SPEEDS, "the interval is up", {A: 1, B: 2}))

        def moved() -> bool:
            roles.send(*group.beats(time.time()))
            return browser.columns() == {"1": [str(A)], "2": [str(B)]}

        until(moved, "the block has moved")
        assert page.end() == 0
    finally:
        roles.close()
    browser.driver.get("about:blank")
    browser.complaints()  # the server has ended before the page was left
