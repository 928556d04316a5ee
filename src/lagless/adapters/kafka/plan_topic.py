"""The compacted topic of a group's plan, read from its beginning with no group of its own."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from lagless.adapters.kafka import failures

ANSWER = 5.0
AGAIN = 2.0
"""Seconds between two looks whether the topic is there."""
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}


class PlanTopic:
    """Give every message of the topic, also after it was deleted and created again."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._doing = f"reading {topic}"
        self._consumer = Consumer(
            {
                **config,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
            }
        )
        self.exists = True
        """False once Kafka answered that the topic does not exist."""
        self.caught_up = False
        """Whether all has been given that was there when the topic was found."""
        self._reading = False
        self._look_at = 0.0

    def receive(self, timeout: float) -> Iterator[tuple[str | None, bytes | None]]:
        """Give what has arrived, as keys and values, waiting at most `timeout` seconds."""
        if not self._reading and time.monotonic() >= self._look_at:
            self._look()
        message = self._consumer.poll(timeout)
        while message is not None:
            error = message.error()
            if error is None:
                key = message.key()
                value = message.value()
                assert not isinstance(value, str)
                yield key.decode(errors="replace") if isinstance(key, bytes) else key, value
            elif error.code() == KafkaError._PARTITION_EOF:
                self.caught_up = True
            elif error.code() in _GONE:
                self._lose()
            elif error.code() in _HOPELESS:
                raise failures.named(self._doing, error)
            message = self._consumer.poll(0)
        if self._reading and time.monotonic() >= self._look_at:
            self._look()

    def _look(self) -> None:
        """See whether the topic is there, and read it from its beginning if that is new."""
        self._look_at = time.monotonic() + AGAIN
        with failures.translated(self._doing):
            known = self._consumer.list_topics(self._topic, timeout=ANSWER).topics[self._topic]
        if known.error is not None and known.error.code() not in _GONE:
            raise failures.named(self._doing, known.error)
        if known.error is not None or not known.partitions:
            self._lose()
        elif not self._reading:
            self._consumer.assign([Place(self._topic, 0, OFFSET_BEGINNING)])
            self._reading = self.exists = True
            self.caught_up = False

    def _lose(self) -> None:
        self.exists = False
        if self._reading:
            self._consumer.unassign()
            self._reading = False

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()
