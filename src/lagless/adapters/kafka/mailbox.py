"""A consumer's side of the mail: orders in, receipts and heartbeats out, its state kept.

Partition 0 of the metadata topic is the controller's, N is consumer N's. The state topic is
compacted; `state_key` names a consumer's entry.
"""

from lagless.adapters.kafka import reading, writing
from lagless.messages import ConsumerState, Heartbeat, Order, Receipt
from lagless.model import Consumer
from lagless.settings import Settings

CONTROLLER = 0


def state_key(consumer: Consumer) -> str:
    """Name a consumer's entry in the state topic."""
    return f"consumer.{consumer}"


def mail_group(settings: Settings) -> str:
    """Name the Kafka group under which readers of the mail store where they stopped."""
    return f"{settings.group}.mail"


class ConsumerMailbox:
    """The mail of consumer N; `send` may be called from any thread."""

    def __init__(self, settings: Settings, consumer: Consumer) -> None:
        self._settings = settings
        self._consumer = consumer
        self._topic = settings.controller.metadata_topic
        self._reader = reading.Reader(
            settings.kafka, self._topic, consumer, "stored", mail_group(settings)
        )
        self._writer = writing.Writer(settings.kafka)

    @property
    def undecodable(self) -> int:
        """Count the messages that were skipped because nobody can read them."""
        return self._reader.undecodable

    def recall(self) -> ConsumerState | None:
        """Give what consumer N persisted last, by whichever incarnation."""
        reader = reading.Reader(self._settings.kafka, self._settings.state_topic, 0, "beginning")
        try:
            for record in reversed(reader.drain_to_end()):
                if record.key == state_key(self._consumer):
                    state = reader.decode(ConsumerState, record, self._settings.group)
                    if state is not None:
                        return state
            return None
        finally:
            reader.close()

    def receive(self, timeout: float) -> list[Order]:
        """Give the orders that arrived, waiting at most `timeout` seconds for the first."""
        orders = (
            self._reader.decode(Order, record, self._settings.group)
            for record in self._reader.drain(timeout)
        )
        return [order for order in orders if order and order.consumer == self._consumer]

    def persist(self, state: ConsumerState) -> None:
        """Persist the state; return when the broker has it."""
        self._writer.write(self._settings.state_topic, 0, state.encode(), state_key(self._consumer))

    def send(self, message: Receipt | Heartbeat) -> None:
        """Send to the controller: a receipt until the broker has it, a heartbeat as it comes."""
        key = state_key(self._consumer)
        if isinstance(message, Heartbeat):
            self._writer.hand_over(self._topic, CONTROLLER, message.encode(), key)
        else:
            self._writer.write(self._topic, CONTROLLER, message.encode(), key)

    def close(self) -> None:
        """Send what is under way and store where reading stopped."""
        self._writer.close()
        self._reader.close()
