"""Following what the group says, without taking part: nothing is written, stored or committed.

A thread reads the monitor's speeds, the controller's mail and its decisions from some time back,
and goes on from there. Topics that are not there yet are looked for again; a broker that is out of
reach is a trouble that passes.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from lagless import messages
from lagless.adapters.kafka import connection
from lagless.errors import WrongInput
from lagless.messages import Decision, Echo, Heartbeat, Message, Receipt, WriteSpeeds
from lagless.settings import Settings

log = logging.getLogger("lagless.kafka")

LOOK_BACK = 1800.0
"""Seconds of speeds and heartbeats that are read before the present ones."""
DECISIONS = 20_000
"""Records of decisions that are read at least, however old they are."""
AT_ONCE = 5000
"""Messages that one call hands out at most, so that a long past does not hold up the present."""
CHECK = 2.0
"""Seconds between looks at whether Kafka answers and topics appeared."""
TIMEOUT = 4.0
_HEAD = 400
"""Bytes at the beginning of a record that say what it is."""


class Watcher:
    """Follow the messages of one group from a thread of its own, which starts at once."""

    def __init__(self, settings: Settings, look_back: float = LOOK_BACK) -> None:
        self._settings = settings
        self._look_back = look_back
        self._waiting: deque[Message] = deque()
        self._stopping = threading.Event()
        self.heard = False
        """Whether Kafka answered at least once."""
        self.trouble = ""
        """What is wrong with the connection; "" while it works."""
        self.undecodable = 0
        """Messages of this group that were skipped because nobody can read them."""
        self._kinds: Mapping[str, Callable[[dict[str, object]], type[Message] | None]] = {
            settings.monitor.topic: lambda _: WriteSpeeds,
            settings.controller.metadata_topic: _kind_of_mail,
            settings.event_topic: lambda found: Decision if "decision" in found else None,
        }
        self._followed: set[str] = set()
        config = connection.confluent(
            settings.kafka,
            group_id=f"{settings.group}.dashboard",
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            fetch_wait_max_ms=200,
            fetch_message_max_bytes=100_000_000,
        )
        self._consumer = Consumer(config | {"error_cb": self._complain})
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def read(self) -> Sequence[Message]:
        """Give what arrived since the last call, oldest first, without waiting."""
        count = min(len(self._waiting), AT_ONCE)
        return [self._waiting.popleft() for _ in range(count)]

    def close(self) -> None:
        """End the thread and the connection."""
        self._stopping.set()
        self._thread.join(TIMEOUT + CHECK)

    def _complain(self, error: KafkaError) -> None:
        # _TRANSPORT of one broker of several is no trouble of the whole.
        if error.code() != KafkaError._TRANSPORT:
            self.trouble = error.str()

    def _run(self) -> None:
        checked = float("-inf")
        try:
            while not self._stopping.is_set():
                missing = len(self._followed) < len(self._kinds)
                if (self.trouble or missing) and time.monotonic() - checked > CHECK:
                    self._check()
                    checked = time.monotonic()
                self._poll()
        finally:
            self._consumer.close()

    def _check(self) -> None:
        """Ask Kafka for its topics, and begin to follow those that appeared."""
        try:
            there = self._consumer.list_topics(timeout=TIMEOUT).topics
            new = [name for name in self._kinds if name in there and name not in self._followed]
            places = [self._start(name) for name in new]
            if places:
                self._consumer.incremental_assign(places)
                self._followed.update(new)
            self.heard, self.trouble = True, ""
        except KafkaException as error:
            self.trouble = error.args[0].str()

    def _start(self, topic: str) -> Place:
        """Find the offset to begin with."""
        place = Place(topic, 0)
        low, high = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        since = Place(topic, 0, round((time.time() - self._look_back) * 1000))
        (found,) = self._consumer.offsets_for_times([since], timeout=TIMEOUT)
        offset = found.offset if found.offset >= 0 else high
        if topic == self._settings.event_topic:
            offset = min(offset, high - DECISIONS)
        return Place(topic, 0, max(low, offset))

    def _poll(self) -> None:
        if not self._followed:
            self._consumer.poll(0)
            self._stopping.wait(0.2)
            return
        for record in self._consumer.consume(500, 0.2):
            error = record.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    self.trouble = error.str()
                continue
            message = self._decode(record.topic() or "", record.value() or b"")
            if message is not None:
                self._waiting.append(message)

    def _decode(self, topic: str, value: bytes) -> Message | None:
        """Give the message, or None if it is another group's, of no interest or unreadable."""
        if topic == self._settings.event_topic and b'"record"' in value[:_HEAD]:
            return None  # what the machine was told: many, and of no interest here
        try:
            found = json.loads(value)
            if not isinstance(found, dict) or found.get("group") != self._settings.group:
                return None
            kind = self._kinds[topic](found)
            return None if kind is None else messages.decode(kind, value)
        except (ValueError, WrongInput) as error:
            self.undecodable += 1
            log.warning("skipped a message of %s: %s", topic, error)
            return None


def _kind_of_mail(found: dict[str, object]) -> type[Message] | None:
    """Tell apart what comes to the controller, as its fields do."""
    if "echo" in found:
        return Echo
    if "kind" in found:
        return Receipt
    return Heartbeat if "state" in found else None
