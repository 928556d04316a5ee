"""A small load whose every record is accounted for, over topics that come and go."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.chaos.account import Account
from tests.chaos.evolving import Writing

BAD_EVERY = 53
"""One record of so many is no JSON."""


class Source:
    """Produce to every topic at a steady rate, from a thread."""

    def __init__(
        self, bootstrap: str, topics: dict[str, int], rate: float, size: int, writing: Writing
    ) -> None:
        self.account = Account()
        self._writing = writing
        self.runs: dict[str, list[str]] = {topic: [] for topic in topics}
        self._counts = topics
        self._rate = rate
        self._pad = "x" * size
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 0,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._locks = {topic: threading.Lock() for topic in topics}
        self._seqs: dict[tuple[str, int], int] = {}
        self._waiting = dict.fromkeys(topics, 0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="source", daemon=True)

    def start(self) -> None:
        """Make the topics and begin."""
        for topic in self._counts:
            self._make(topic)
        self._thread.start()

    def stop(self) -> None:
        """End when every record is confirmed."""
        self._end.set()
        self._thread.join()
        while self._producer.flush(1.0):
            pass

    def remake(self, topic: str) -> None:
        """Delete a topic and create it again; what was not read is gone."""
        with self._locks[topic]:
            while self._waiting[topic]:
                self._producer.poll(0.1)
            self._patiently(lambda: self._admin.delete_topics([topic])[topic].result(30))
            time.sleep(1.0)
            self._make(topic)

    def delete_records(self, topic: str, keep: int) -> None:
        """Let retention overtake the reader: delete all but the last records."""
        places: list[Place] = []
        for partition in range(self._counts[topic]):
            run = self.runs[topic][-1]
            last = max(self.account.records.get((run, partition), {0: 0}), default=0)
            if last - keep > 0:
                places.append(Place(topic, partition, last - keep))
        if places:
            self._patiently(
                lambda: [f.result(30) for f in self._admin.delete_records(places).values()]
            )

    def _make(self, topic: str) -> None:
        def make() -> None:
            new = NewTopic(topic, self._counts[topic])
            try:
                self._admin.create_topics([new])[topic].result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            described = self._admin.describe_topics(TopicCollection([topic]))[topic].result(30)
            # As Kafka writes it; librdkafka has "+" and "/".
            run = str(described.topic_id).replace("+", "-").replace("/", "_")
            if self.runs[topic] and run == self.runs[topic][-1]:
                raise KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS))
            self.runs[topic].append(run)

        self._patiently(make)
        for partition in range(self._counts[topic]):
            self._seqs[(topic, partition)] = 0

    def _patiently(self, call: Callable[[], object]) -> None:
        until = time.monotonic() + 90
        while True:
            try:
                call()
                return
            except (KafkaException, TimeoutError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def _work(self) -> None:
        due = 0.0
        last = time.monotonic()
        while not self._end.is_set():
            now = time.monotonic()
            due = min(due + (now - last) * self._rate, 5 * self._rate)
            last = now
            count, due = int(due), due % 1
            for topic, partitions in self._counts.items():
                if self._locks[topic].acquire(blocking=False):
                    try:
                        for partition in range(partitions):
                            for _ in range(count):
                                self._produce(topic, partition)
                    finally:
                        self._locks[topic].release()
            self._producer.poll(0.05)

    def _produce(self, topic: str, partition: int) -> None:
        seq = self._seqs[(topic, partition)]
        self._seqs[(topic, partition)] = seq + 1
        run = self.runs[topic][-1]
        bad = seq % BAD_EVERY == BAD_EVERY - 1
        pad = self._pad[: seq % 400]
        key, value = self._writing.record(topic, partition, run, seq, pad)
        value = f"bad {run} {seq}".encode() if bad else value
        self._waiting[topic] += 1

        def confirmed(error: KafkaError | None, message: Message) -> None:
            self._waiting[topic] -= 1
            if error is None:
                offset = message.offset()
                assert offset is not None
                self.account.note((run, partition), offset, None if bad else seq)

        while True:
            try:
                self._producer.produce(
                    topic, value, key=key, partition=partition, on_delivery=confirmed
                )
                return
            except (BufferError, KafkaException):
                # Full, or the topic was just made and this producer has not heard of it.
                self._producer.poll(0.2)
