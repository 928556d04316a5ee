"""Reading one partition from a start offset that is fixed in the constructor."""

import logging
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from lagless import messages
from lagless.adapters.kafka import connection, failures
from lagless.errors import TryAgain, WrongInput
from lagless.settings import KafkaSettings

log = logging.getLogger("lagless.kafka")
TIMEOUT = 10.0
AT_ONCE = 32_000_000
"""Bytes after which a call returns what it has, so that a flood of messages fits into memory."""
COMPLAINTS = 10
"""Skipped messages that are logged one by one in a minute; the others are only counted."""
SETTLING = 5.0
"""Seconds within which a new or enlarged topic must become readable."""
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


class Skipped:
    """Count messages that cannot be parsed, and log them; of a flood only the number."""

    def __init__(self) -> None:
        self.count = 0
        self._before = 0
        self._since = time.monotonic()

    def note(self, place: str, offset: int, error: WrongInput) -> None:
        """Note one."""
        now = time.monotonic()
        if now - self._since >= 60:
            unlogged = self.count - self._before - COMPLAINTS
            if unlogged > 0:
                log.warning("skipped %s more messages, the last ones in %s", unlogged, place)
            self._since, self._before = now, self.count
        self.count += 1
        if self.count - self._before <= COMPLAINTS:
            log.warning("skipped offset %s of %s: %s", offset, place, error)


class Reader:
    """Read one partition, committed records only.

    `start` is "beginning", "end", an offset (negative: from the end), a time, or "stored": where
    this `group` stopped reading, and the end where it never did. The offset is settled on
    construction, so that what is written from then on is seen. "stored" also stores as it goes on.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        partition: int,
        start: Start | int | datetime,
        group: str = connection.CLIENT_ID,
        **more: Any,
    ) -> None:
        self._place = Place(topic, partition)
        self._name = f"{topic}:{partition}"
        self._doing = f"reading {self._name}"
        self._skipped = Skipped()
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
                # Retention deleted what we have not read yet; orders are repeated.
                auto_offset_reset="earliest",
                enable_partition_eof=True,
                # A reader that looks for the end wants an empty answer at once.
                fetch_wait_max_ms=50 if start == "beginning" else 500,
                **more,
            )
        )
        try:
            offset = self._next = self._settled(start)
            with failures.translated(self._doing):
                self._consumer.assign([Place(topic, partition, offset)])
        except BaseException:
            self._consumer.close()
            raise

    @property
    def undecodable(self) -> int:
        """Count the messages that were skipped because they cannot be parsed."""
        return self._skipped.count

    def _settled(self, start: Start | int | datetime) -> int:
        deadline = time.monotonic() + SETTLING
        while True:
            try:
                with failures.translated(self._doing):
                    return self._offset(start)
            except TryAgain:
                if time.monotonic() > deadline:
                    raise
                self._consumer.poll(0.1)

    def _offset(self, start: Start | int | datetime) -> int:
        low, high = self._consumer.get_watermark_offsets(self._place, timeout=TIMEOUT)
        if start == "beginning":
            return int(low)
        if start == "stored":
            (stored,) = self._consumer.committed([self._place], timeout=TIMEOUT)
            start = stored.offset if 0 <= stored.offset <= high else "end"
        if isinstance(start, datetime):
            topic, partition = self._place.topic, self._place.partition
            since = Place(topic, partition, round(start.timestamp() * 1000))
            (first,) = self._consumer.offsets_for_times([since], timeout=TIMEOUT)
            start = first.offset if first.offset >= 0 else "end"
        if start == "end":
            return int(high)
        offset = int(start)
        return max(offset if offset >= 0 else int(high) + offset, int(low))

    def drain(self, timeout: float) -> list[Record]:
        """Return what has arrived, waiting at most `timeout` seconds for the first record."""
        records: list[Record] = []
        size = 0
        deadline = time.monotonic() + timeout
        while True:
            left = 0.0 if records else max(0.0, deadline - time.monotonic())
            batch = list(self._poll(left))
            records += batch
            size += sum(len(record.value) for record in batch)
            if size > AT_ONCE or (not batch and (records or time.monotonic() >= deadline)):
                return records

    def drain_to_end(self, timeout: float = TIMEOUT) -> Iterator[Record]:
        """Yield everything up to the partition's present end; more may be among it."""
        with failures.translated(self._doing):
            _, end = self._consumer.get_watermark_offsets(self._place, timeout=TIMEOUT)
        self._at_end = False
        deadline = time.monotonic() + timeout
        # The last offset may be a transaction's marker instead of a record: hence also _at_end.
        while self._next < end and not self._at_end:
            if time.monotonic() > deadline:
                raise TryAgain(f"{self._doing}: end not reached within {timeout} s")
            yield from self._poll(0.2)

    def batches(self, patience: float = TIMEOUT) -> Iterator[tuple[list[Record], float]]:
        """Yield everything up to the partition's present end, with the share that is read by then.

        For what is too much to be held at once; `patience` is for one batch.
        """
        with failures.translated(self._doing):
            _, end = self._consumer.get_watermark_offsets(self._place, timeout=TIMEOUT)
        begin, self._at_end = self._next, False
        deadline = time.monotonic() + patience
        while self._next < end and not self._at_end:
            if time.monotonic() > deadline:
                raise TryAgain(f"{self._doing}: nothing arrived for {patience} s before its end")
            if records := list(self._poll(0.2)):
                deadline = time.monotonic() + patience
                yield records, min(1.0, (self._next - begin) / (end - begin))

    def _poll(self, timeout: float) -> Iterator[Record]:
        with failures.translated(self._doing):
            # consume() alone would wait until it has a thousand records.
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
                continue  # the client requires a group, but nothing is stored in it
            elif error.code() in _PASSING:
                log.info("%s: %s", self._doing, error.str())
            else:
                raise failures.named(self._doing, error)

    def decode(self, kind: type[M], record: Record, group: str | None) -> M | None:
        """Return a record's message, or None if it is not of this kind and group, or unreadable."""
        try:
            return messages.read(record.value, kind, group=group)
        except WrongInput as error:
            self._skipped.note(self._name, record.offset, error)
            return None

    def newest(
        self, kind: type[M], records: Iterable[Record], group: str, keys: Container[str | None]
    ) -> M | None:
        """Return the newest readable message of this kind and group under one of the keys."""
        newest: M | None = None
        kept: deque[Record] = deque()
        size = 0
        for record in records:
            if record.key not in keys:
                continue
            kept.append(record)
            size += len(record.value)
            while size > AT_ONCE:  # of a flood, so that it fits into memory
                oldest = kept.popleft()
                size -= len(oldest.value)
                newest = self.decode(kind, oldest, group) or newest
        for record in reversed(kept):
            if (message := self.decode(kind, record, group)) is not None:
                return message
        return newest

    def rest(self, kind: type[M], group: str | None, timeout: float) -> Iterator[M]:
        """Read the messages up to the partition's present end, and close."""
        with closing(self):
            for record in self.drain_to_end(timeout):
                if (message := self.decode(kind, record, group)) is not None:
                    yield message

    def close(self) -> None:
        """Close the client, and store the offset at which reading stopped."""
        self._consumer.close()


PATIENCE = 15.0
"""Seconds after which an unacknowledged record counts as failed."""


def producer(kafka: KafkaSettings, **more: Any) -> Producer:
    """Return a producer that neither loses nor duplicates records: acks=all and idempotence."""
    config = connection.confluent(
        kafka,
        acks="all",
        enable_idempotence=True,
        linger_ms=0,
        delivery_timeout_ms=int(PATIENCE * 1000),
        **more,
    )
    return Producer(config)


class Writer:
    """A producer whose writes either succeed or raise; any thread may write."""

    def __init__(self, kafka: KafkaSettings, **more: Any) -> None:
        self._kafka = kafka
        self._more = more
        self._producer = producer(kafka, **more)

    def write(self, topic: str, partition: int, value: bytes, key: str | None = None) -> int:
        """Write one record and return its offset when every in-sync replica has it."""
        doing = f"writing to {topic}"
        answers = self._produce(topic, partition, value, key)
        deadline = time.monotonic() + PATIENCE + 1
        while not answers:
            if time.monotonic() > deadline:
                raise TryAgain(f"{doing}: no answer within {PATIENCE:g} s")
            self._serve(doing, 0.1)
        error, message = answers[0]
        if error is not None:
            raise self._failed(doing, error)
        return message.offset() or 0

    def hand_over(self, topic: str, partition: int, value: bytes, key: str | None = None) -> None:
        """Write one record without waiting for the result."""
        self._produce(topic, partition, value, key)
        self._serve(f"writing to {topic}", 0)

    def close(self) -> None:
        """Send pending messages, for a second at most."""
        # The write that met a fatal error has raised it.
        with suppress(KafkaException):
            self._producer.flush(1)

    def _serve(self, doing: str, timeout: float) -> None:
        """Let the client call back; it raises a fatal error, of whichever record."""
        try:
            self._producer.poll(timeout)
        except KafkaException as error:
            raise self._failed(doing, error.args[0]) from error

    def _failed(self, doing: str, error: KafkaError) -> Exception:
        # After a fatal error an idempotent producer is useless: create a new one.
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._producer = producer(self._kafka, **self._more)
        return failures.named(doing, error)

    def _produce(
        self, topic: str, partition: int, value: bytes, key: str | None
    ) -> list[tuple[KafkaError | None, Message]]:
        """Give a record to the client, and return the list in which the answer will appear."""
        answers: list[tuple[KafkaError | None, Message]] = []
        try:
            with failures.translated(f"writing to {topic}"):
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=lambda error, message: answers.append((error, message)),
                )
        except BufferError as error:
            raise TryAgain(f"writing to {topic}: the producer's queue is full") from error
        return answers
