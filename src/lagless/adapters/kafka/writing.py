"""Writing one record at a time, and knowing that the broker has it."""

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lagless.adapters.kafka import connection, troubles
from lagless.errors import TryAgain
from lagless.settings import KafkaSettings

PATIENCE = 15.0
"""Seconds until an unanswered record counts as failed."""


def producer(kafka: KafkaSettings, **more: Any) -> Producer:
    """Make a producer that neither loses nor doubles: acks=all and idempotence."""
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
    """A producer whose records are either there on return or an error; any thread may write."""

    def __init__(self, kafka: KafkaSettings, **more: Any) -> None:
        self._kafka = kafka
        self._more = more
        self._producer = producer(kafka, **more)

    def write(self, topic: str, partition: int, value: bytes, key: str | None = None) -> int:
        """Write one record and return its offset when every in-sync replica has it."""
        answers: list[tuple[KafkaError | None, Message]] = []
        doing = f"writing to {topic}"
        self._produce(topic, partition, value, key, answers)
        deadline = time.monotonic() + PATIENCE + 1
        while not answers:
            if time.monotonic() > deadline:
                raise TryAgain(f"{doing}: no answer within {PATIENCE:g} s")
            self._producer.poll(0.1)
        error, message = answers[0]
        if error is not None:
            self._renew(error)
            raise troubles.named(doing, error)
        return message.offset() or 0

    def hand_over(self, topic: str, partition: int, value: bytes, key: str | None = None) -> None:
        """Write one record without waiting: it goes out by itself, or not."""
        self._produce(topic, partition, value, key, [])
        self._producer.poll(0)

    def close(self) -> None:
        """Send what is under way, for a second at most."""
        # A fatal error was told by the write that met it.
        with suppress(KafkaException):
            self._producer.flush(1)

    def _produce(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: str | None,
        answers: list[tuple[KafkaError | None, Message]],
    ) -> None:
        try:
            with troubles.translated(f"writing to {topic}"):
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=lambda error, message: answers.append((error, message)),
                )
        except BufferError as error:
            raise TryAgain(f"writing to {topic}: too many records wait for the broker") from error

    def _renew(self, error: KafkaError) -> None:
        # A fatal error of an idempotent producer never heals: only a new one helps.
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._producer = producer(self._kafka, **self._more)
