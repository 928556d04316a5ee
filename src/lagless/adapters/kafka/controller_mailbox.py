"""The controller's side of the mail, and the lead: one controller acts at a time.

The leader is the member of the Kafka group `<group>.controller` that holds the one partition of
the topic of that name. Orders, the persisted state and the event log go out in one transaction
whose id is the group's: who leads next fences who led before, whatever that one believes.
"""

import logging
import time
import uuid
from collections.abc import Callable, Collection, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from lagless.adapters.kafka import connection, reading, topics, troubles
from lagless.adapters.kafka.speeds import LatestSpeeds
from lagless.errors import Fenced, TryAgain
from lagless.messages import ControllerState, Echo, Heartbeat, Message, Order, Receipt
from lagless.model import TopicPartition
from lagless.ports import Post
from lagless.settings import Settings

log = logging.getLogger("lagless.kafka")
STATE_KEY = "controller"
SESSION = 6.0
"""Seconds of silence after which Kafka gives a leader's place to another."""
TRANSACTION = 10.0
ECHO = 2.0
"""Seconds between messages to oneself."""
DEAF = 6.0
"""Seconds without an own echo after which the mailbox counts as not heard."""
GONE = 10.0
"""Seconds for which a partition must be missing before it counts as gone."""
SLICE = 0.05
"""Seconds to wait for mail before looking for measurements, and so on in turn."""
TIMEOUT = 10.0


class ControllerMailbox:
    """ports.ControllerMailbox on Kafka; one thread calls."""

    def __init__(self, settings: Settings, ends: Callable[[], bool] = lambda: False) -> None:
        self._settings = settings
        self._ends = ends
        self._name = uuid.uuid4().hex[:12]
        self._member: Consumer | None = None
        self._leads = False
        self._producer: Producer | None = None
        self._reader: reading.Reader | None = None
        self._speeds: LatestSpeeds | None = None
        self._measured_at = float("-inf")
        self._echo: Producer | None = None
        self._echoed_at = self._heard_at = float("-inf")
        self._room = 0
        self._seen: dict[TopicPartition, float] = {}
        self._broken = False

    def lead(self) -> ControllerState | None:
        """Wait until Kafka makes this the leader; fence who led before; give what it persisted."""
        topics.ensure(self._settings)
        config = connection.confluent(
            self._settings.kafka,
            group_id=self._settings.leader_topic,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=int(SESSION * 1000),
            heartbeat_interval_ms=int(SESSION * 1000 / 4),
            max_poll_interval_ms=30_000,
        )
        # Sticky: who stands by or comes back does not take the place of a leader that does well.
        config["partition.assignment.strategy"] = "cooperative-sticky"
        member = self._member = Consumer(config)
        member.subscribe(
            [self._settings.leader_topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        while not self._leads:
            if self._ends():
                raise Fenced("asked to end while standing by")
            self._poll_member(0.2)
        return self._take_over()

    def receive(self, timeout: float) -> Post:
        """Give what arrived, waiting at most `timeout` seconds for the first."""
        self._check()
        assert self._reader is not None
        assert self._speeds is not None
        now = time.monotonic()
        if now - self._echoed_at >= ECHO:
            self._send_echo(now)
        found: list[Receipt | Heartbeat] = []
        until = now + timeout
        while True:
            # Mail and measurements are two topics: neither waits long for the other.
            found += self._mail(max(0.0, min(SLICE, until - time.monotonic())))
            speeds = self._speeds.latest()
            new = speeds is not None and speeds.at > self._measured_at
            if found or new or time.monotonic() >= until:
                break
        if new and speeds is not None:
            self._measured_at = speeds.at
        else:
            speeds = None
        return Post(tuple(found), speeds, deaf=time.monotonic() - self._heard_at > DEAF)

    def _mail(self, timeout: float) -> list[Receipt | Heartbeat]:
        assert self._reader is not None
        found: list[Receipt | Heartbeat] = []
        for record in self._reader.drain(timeout):
            message = self._reader.decode(_kind(record.value), record, self._settings.group)
            if isinstance(message, Echo):
                if message.echo == self._name:
                    self._heard_at = time.monotonic()
            elif isinstance(message, Receipt | Heartbeat):
                found.append(message)
        return found

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        """Send orders, the state to persist and the event log in one transaction, or nothing."""
        self._check()
        producer = self._producer
        assert producer is not None
        settings = self._settings
        highest = max([o.consumer for o in orders] + list(state.team if state else ()), default=0)
        if highest >= self._room:
            self._room = topics.grow(settings, highest)
        try:
            if self._broken:
                producer.abort_transaction(TIMEOUT)
                self._broken = False
            producer.begin_transaction()
            self._broken = True
            for order in orders:
                producer.produce(
                    settings.controller.metadata_topic,
                    order.encode(),
                    settings.group,
                    order.consumer,
                )
            if state is not None:
                producer.produce(settings.state_topic, state.encode(), STATE_KEY, 0)
            for message in log:
                producer.produce(settings.event_topic, message.encode(), settings.group, 0)
            producer.commit_transaction(TIMEOUT)
            self._broken = False
        except BufferError as error:
            raise TryAgain("sending orders: too many records wait for the broker") from error
        except KafkaException as error:
            raise self._explained(error) from error

    def partitions(self) -> Collection[TopicPartition]:
        """Give the partitions of interest; one that is missing for a moment is still there."""
        self._check()
        assert self._member is not None
        with troubles.translated("listing topics"):
            known = self._member.list_topics(timeout=TIMEOUT).topics
        now = time.monotonic()
        for name, topic in known.items():
            if topic.error is None and self._settings.of_interest(name):
                for number in topic.partitions:
                    self._seen[TopicPartition(name, number)] = now
        self._seen = {p: at for p, at in self._seen.items() if now - at < GONE}
        return list(self._seen)

    def close(self) -> None:
        """Give up the lead, so that another need not wait for this one's silence."""
        if self._member is not None:
            self._member.close()
            self._member = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._speeds is not None:
            self._speeds.close()
            self._speeds = None
        self._producer = self._echo = None
        self._leads = False

    def _take_over(self) -> ControllerState | None:
        settings = self._settings
        producer = self._producer = Producer(
            connection.confluent(
                settings.kafka,
                transactional_id=settings.leader_topic,
                transaction_timeout_ms=int(TRANSACTION * 1000),
                delivery_timeout_ms=int(TRANSACTION * 1000) - 1000,
                compression_type="zstd",
                linger_ms=0,
            )
        )
        while True:
            try:
                producer.init_transactions(TIMEOUT)
                break
            except KafkaException as error:
                if not error.args[0].retriable() or self._ends():
                    raise troubles.named("taking over", error.args[0]) from error
                self._poll_member(0.2)
        self._broken = False
        self._room = topics.grow(settings, settings.controller.min_consumers)
        self._echo = Producer(connection.confluent(settings.kafka, linger_ms=0))
        topic = settings.controller.metadata_topic
        self._reader = reading.Reader(settings.kafka, topic, 0, "end")
        self._speeds = LatestSpeeds(settings)
        self._heard_at = time.monotonic()
        return persisted(settings)

    def _send_echo(self, now: float) -> None:
        assert self._echo is not None
        echo = Echo(group=self._settings.group, echo=self._name, at=time.time())
        topic = self._settings.controller.metadata_topic
        try:
            self._echo.produce(topic, echo.encode(), self._settings.group, 0)
        except BufferError as error:
            raise TryAgain("the broker has not taken anything for long") from error
        self._echo.poll(0)
        self._echoed_at = now

    def _check(self) -> None:
        if self._member is None:
            raise Fenced("this controller does not lead")
        self._poll_member(0)
        if not self._leads:
            raise Fenced("Kafka has given the lead to another controller")

    def _poll_member(self, timeout: float) -> None:
        assert self._member is not None
        message = self._member.poll(timeout)
        error = message.error() if message is not None else None
        if error is not None:
            log.info("standing for the lead: %s", error.str())

    def _assigned(self, consumer: Consumer, places: list[Place]) -> None:
        if places:
            self._leads = True
            consumer.incremental_assign(places)

    def _revoked(self, consumer: Consumer, places: list[Place]) -> None:
        if places:
            self._leads = False
            consumer.incremental_unassign(places)

    def _explained(self, error: KafkaException) -> Exception:
        cause: KafkaError = error.args[0]
        if cause.fatal():
            return Fenced(f"sending orders: another controller has taken over ({cause.str()})")
        told = troubles.named("sending orders", cause)
        if isinstance(told, Fenced) or cause.code() == KafkaError._STATE:
            return Fenced(f"sending orders: the transaction was taken away ({cause.str()})")
        return told


def persisted(settings: Settings) -> ControllerState | None:
    """Give what a controller persisted last."""
    reader = reading.Reader(settings.kafka, settings.state_topic, 0, "beginning")
    try:
        for record in reversed(reader.drain_to_end(30)):
            if record.key == STATE_KEY:
                found = reader.decode(ControllerState, record, settings.group)
                if found is not None:
                    return found
        return None
    finally:
        reader.close()


def _kind(value: bytes) -> type[Echo] | type[Receipt] | type[Heartbeat]:
    """Tell mail apart by a field that only one kind has."""
    if b'"echo":' in value:
        return Echo
    return Receipt if b'"kind":' in value else Heartbeat
