"""Follow the messages of a group without taking part: nothing is written, stored or committed.

A thread reads the monitor's speeds, the controller's mail and its decisions from some time back,
and goes on from there. Topics that are not there yet are looked for again; a broker that is out of
reach is a trouble that passes.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from lagless import messages
from lagless.adapters.kafka import connection
from lagless.adapters.kafka.topic_records import Skipped
from lagless.errors import WrongInput
from lagless.messages import Decision, Message, WriteSpeeds
from lagless.settings import Settings

log = logging.getLogger("lagless.kafka")

LOOK_BACK = 1800.0
"""Seconds of speeds and heartbeats that are read before the present ones."""
DECISIONS = 20_000
"""Decisions that are read at least, regardless of their age."""
AT_ONCE = 5000
"""Messages that one call hands out at most, so that a long past does not hold up the present."""
WAITING = 50_000
"""Messages that may wait to be handed out; a flood stays in Kafka, so that it fills no memory."""
CHECK = 2.0
"""Seconds between looks at whether Kafka answers and topics appeared."""
TIMEOUT = 4.0


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
        """The problem of the connection; "" while it works."""
        self._skipped = Skipped()
        self._kinds: Mapping[str, type[Message]] = {
            settings.monitor.topic: WriteSpeeds,
            settings.controller.metadata_topic: Message,
            settings.event_topic: Decision,
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
        """Return what arrived since the last call, oldest first, without waiting."""
        count = min(len(self._waiting), AT_ONCE)
        return [self._waiting.popleft() for _ in range(count)]

    @property
    def undecodable(self) -> int:
        """Count the messages of this group that were skipped because they cannot be parsed."""
        return self._skipped.count

    def close(self) -> None:
        """End the thread and the connection."""
        self._stopping.set()
        self._thread.join(TIMEOUT + CHECK)

    def _complain(self, error: KafkaError) -> None:
        # One unreachable broker of several does not affect the whole.
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
        (first,) = self._consumer.offsets_for_times([since], timeout=TIMEOUT)
        offset = first.offset if first.offset >= 0 else high
        if topic == self._settings.event_topic:
            offset = min(offset, high - DECISIONS)
        return Place(topic, 0, max(low, offset))

    def _poll(self) -> None:
        if len(self._waiting) > WAITING:
            self._stopping.wait(0.2)
            return
        if not self._followed:
            self._consumer.poll(0)
            self._stopping.wait(0.2)
            return
        for record in self._consumer.consume(500, 0.2):
            error, topic = record.error(), record.topic() or ""
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    self.trouble = error.str()
                continue
            try:
                kind, value = self._kinds[topic], record.value() or b""
                message = messages.read(value, kind, group=self._settings.group)
            except WrongInput as wrong:
                self._skipped.note(f"{topic}:0", record.offset() or 0, wrong)
                continue
            if message is not None:  # else it is another group's, or of no interest
                self._waiting.append(message)
