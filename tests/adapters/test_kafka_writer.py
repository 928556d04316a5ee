"""What a writer does when its client is of no use any more."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lagless.adapters.kafka import topic_records
from lagless.errors import TryAgain
from lagless.settings import KafkaSettings


class Client:
    """A client; a broken one raises its fatal error when it is polled, as librdkafka's does."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken
        self.answered: list[Any] = []

    def produce(self, *_: Any, on_delivery: Any) -> None:
        self.answered.append(on_delivery)

    def poll(self, _: float) -> None:
        if self.broken:
            raise KafkaException(
                KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost its place", True)
            )
        for answer in self.answered:
            answer(None, Message())


class Message:
    def offset(self) -> int:
        return 7


@pytest.mark.parametrize("call", ["write", "hand_over"])
def test_after_a_fatal_error_the_next_write_has_a_new_client(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = iter([Client(True), Client(False)])
    monkeypatch.setattr(topic_records, "producer", lambda *_, **__: next(clients))
    writer = topic_records.Writer(KafkaSettings())
    with pytest.raises(TryAgain, match="writing to mail: lost its place"):
        getattr(writer, call)("mail", 0, b"{}")
    assert writer.write("mail", 0, b"{}") == 7
