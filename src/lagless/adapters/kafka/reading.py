"""Reading one partition from a place that is known before anything else happens."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from lagless import messages
from lagless.adapters.kafka import connection, troubles
from lagless.errors import TryAgain, WrongInput
from lagless.settings import KafkaSettings

log = logging.getLogger("lagless.kafka")
TIMEOUT = 10.0
SETTLING = 5.0
"""Seconds that a topic which was just made or grown has to become readable."""
_PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
}
Start = Literal["beginning", "end", "stored"]
M = TypeVar("M", bound=messages.Message)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read."""

    offset: int
    key: str | None
    value: bytes


class Reader:
    """Read one partition, committed records only.

    `start` is "beginning", "end", an offset (negative: from the end), or "stored": where this
    `group` stopped reading, and the end where it never did. The offset is settled on construction,
    so that what is written from then on is seen. "stored" also stores as it goes on.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        partition: int,
        start: Start | int,
        group: str = connection.CLIENT_ID,
        **more: Any,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.undecodable = 0
        """Messages that were skipped because nobody can read them."""
        self._store = start == "stored"
        self._at_end = False
        self._next = 0
        self._consumer = Consumer(
            connection.confluent(
                kafka,
                group_id=group,
                isolation_level="read_committed",
                enable_auto_commit=self._store,
                enable_auto_offset_store=False,
                auto_commit_interval_ms=1000,
                # Retention went past us: what is gone is gone, orders are repeated.
                auto_offset_reset="earliest",
                enable_partition_eof=True,
                # Where the end is what is looked for, an empty answer should come at once.
                fetch_wait_max_ms=50 if start == "beginning" else 500,
                **more,
            )
        )
        try:
            offset = self._next = self._settled(start)
            with troubles.translated(f"reading {topic}:{partition}"):
                self._consumer.assign([Place(topic, partition, offset)])
        except BaseException:
            self._consumer.close()
            raise

    def _settled(self, start: Start | int) -> int:
        deadline = time.monotonic() + SETTLING
        while True:
            try:
                with troubles.translated(f"reading {self.topic}:{self.partition}"):
                    return self._offset(start)
            except TryAgain:
                if time.monotonic() > deadline:
                    raise
                self._consumer.poll(0.1)

    def _offset(self, start: Start | int) -> int:
        place = Place(self.topic, self.partition)
        low, high = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        if start == "beginning":
            return int(low)
        if start == "stored":
            (stored,) = self._consumer.committed([place], timeout=TIMEOUT)
            start = stored.offset if 0 <= stored.offset <= high else "end"
        if start == "end":
            return int(high)
        offset = int(start)
        return max(offset if offset >= 0 else int(high) + offset, int(low))

    def drain(self, timeout: float) -> list[Record]:
        """Give what has arrived, waiting at most `timeout` seconds for the first record."""
        records: list[Record] = []
        deadline = time.monotonic() + timeout
        while True:
            left = 0.0 if records else max(0.0, deadline - time.monotonic())
            batch = list(self._poll(left))
            records += batch
            if not batch and (records or time.monotonic() >= deadline):
                return records

    def drain_to_end(self, timeout: float = TIMEOUT) -> list[Record]:
        """Give everything up to the partition's present end; more may be among it."""
        place = Place(self.topic, self.partition)
        with troubles.translated(f"reading {self.topic}:{self.partition}"):
            _, end = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        self._at_end = False
        records: list[Record] = []
        deadline = time.monotonic() + timeout
        # The last offset may be a transaction's mark, which is no record: hence also _at_end.
        while self._next < end and not self._at_end:
            if time.monotonic() > deadline:
                raise TryAgain(f"reading {self.topic}:{self.partition}: no end within {timeout} s")
            records += self._poll(0.2)
        return records

    def _poll(self, timeout: float) -> Iterator[Record]:
        with troubles.translated(f"reading {self.topic}:{self.partition}"):
            # consume() alone would wait until its thousand is full.
            first = self._consumer.poll(timeout)
            polled = [] if first is None else [first, *self._consumer.consume(999, 0)]
        for message in polled:
            error = message.error()
            if error is None:
                if self._store:
                    self._consumer.store_offsets(message)
                self._next = (message.offset() or 0) + 1
                key = message.key()
                yield Record(
                    message.offset() or 0,
                    key.decode(errors="replace") if isinstance(key, bytes) else key,
                    message.value() or b"",
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end = True
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and not self._store:
                continue  # the group is a formality of the client: nothing is stored in it
            elif error.code() in _PASSING:
                log.info("reading %s:%s: %s", self.topic, self.partition, error.str())
            else:
                raise troubles.named(f"reading {self.topic}:{self.partition}", error)

    def decode(self, kind: type[M], record: Record, group: str) -> M | None:
        """Give a record's message, or None if it is another group's or cannot be read."""
        try:
            message = messages.decode(kind, record.value)
        except WrongInput as error:
            if messages.group_of(record.value) in (group, None):
                self.undecodable += 1
                log.warning(
                    "skipped offset %s of %s:%s: %s",
                    record.offset,
                    self.topic,
                    self.partition,
                    error,
                )
            return None
        return message if message.group == group else None

    def close(self) -> None:
        """Leave, and store the place where reading stopped."""
        self._consumer.close()
