"""The mail between controller and consumers, and the lead: one controller acts at a time.

Who leads, and how a new leader fences the earlier one, is in docs/controller.md.
"""

import logging
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import TypeAlias

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from lagless.adapters.kafka import connection, failures, topic_records, topics
from lagless.adapters.kafka.speeds import LatestSpeeds
from lagless.adapters.kafka.topic_records import M
from lagless.errors import Fenced, TryAgain
from lagless.messages import (
    ConsumerState,
    ControllerState,
    Echo,
    Heartbeat,
    Message,
    Operation,
    Order,
    Receipt,
)
from lagless.model import Consumer, TopicPartition
from lagless.ports import Post
from lagless.settings import Settings

CONTROLLER = 0


def state_key(consumer: Consumer) -> str:
    """Return a consumer's key in the state topic."""
    return f"consumer.{consumer}"


class ConsumerMailbox:
    """The mail of consumer N; `send` may be called from any thread."""

    def __init__(self, settings: Settings, consumer: Consumer) -> None:
        self._settings = settings
        self._consumer = consumer
        self._key = state_key(consumer)
        self._topic = settings.controller.metadata_topic
        self._reader = topic_records.Reader(
            settings.kafka, self._topic, consumer, "stored", f"{settings.group}.mail"
        )
        self._writer = topic_records.Writer(settings.kafka)

    @property
    def undecodable(self) -> int:
        """Count the messages that were skipped because they cannot be parsed."""
        return self._reader.undecodable

    def recall(self) -> ConsumerState | None:
        """Return what consumer N persisted last, by whichever incarnation."""
        return _newest(self._settings, ConsumerState, self._key)

    def receive(self, timeout: float) -> list[Order]:
        """Return the orders that arrived, waiting at most `timeout` seconds for the first."""
        orders = (
            self._reader.decode(Order, record, self._settings.group)
            for record in self._reader.drain(timeout)
        )
        return [order for order in orders if order and order.consumer == self._consumer]

    def persist(self, state: ConsumerState) -> None:
        """Persist the state; return when the broker has it."""
        self._writer.write(self._settings.state_topic, 0, state.encode(), self._key)

    def send(self, message: Receipt | Heartbeat) -> None:
        """Send to the controller: a receipt until the broker has it, a heartbeat as it comes."""
        writer = self._writer
        write = writer.hand_over if isinstance(message, Heartbeat) else writer.write
        write(self._topic, CONTROLLER, message.encode(), self._key)

    def close(self) -> None:
        """Send what is pending and store the offset at which reading stopped."""
        self._writer.close()
        self._reader.close()


log = logging.getLogger("lagless.kafka")
Produced: TypeAlias = tuple[str, bytes, str, int]
"""Topic, value, key and partition of a record."""
STATE_KEY = "controller"
SESSION = 6.0
"""Seconds of silence after which Kafka makes another controller the leader."""
TRANSACTION = 10.0
ECHO = 2.0
"""Seconds between messages to oneself."""
DEAF = 6.0
"""Seconds without our own echo after which the mailbox counts as unreachable."""
GONE = 10.0
"""Seconds for which a partition must be missing before it counts as gone."""
COUNT_EVERY = 5.0
"""Seconds between two looks at how many consumers the metadata topic has room for."""
SLICE = 0.05
"""Seconds to wait for mail before looking for measurements, and so on in turn."""
TIMEOUT = 10.0


class ControllerMailbox:
    """ports.ControllerMailbox on Kafka; one thread calls."""

    def __init__(self, settings: Settings, ends: Callable[[], bool] = lambda: False) -> None:
        self._settings = settings
        self._ends = ends
        self._name = uuid.uuid4().hex[:12]
        self._member: Client | None = None
        self._leads = False
        self._producer: Producer | None = None
        self._reader: topic_records.Reader | None = None
        self._speeds: LatestSpeeds | None = None
        self._measured_at = float("-inf")
        self._echo: Producer | None = None
        self._echoed_at = self._heard_at = float("-inf")
        self._room = 0
        self._counted_at = self._warned_at = float("-inf")
        self._seen: dict[TopicPartition, float] = {}
        self._broken = False

    def lead(self) -> ControllerState | None:
        """Wait for the lead, fence the earlier leader, and return what it persisted."""
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
        # Sticky: a controller that stands by or comes back does not replace a leader that works.
        config["partition.assignment.strategy"] = "cooperative-sticky"
        member = self._member = Client(config)
        member.subscribe(
            [self._settings.leader_topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        while not self._leads:
            if self._ends():
                raise Fenced("stopped while standing by")
            self._poll_member(0.2)
        return self._take_over()

    def receive(self, timeout: float) -> Post:
        """Return what arrived, waiting at most `timeout` seconds for the first."""
        self._check()
        assert self._reader is not None
        assert self._speeds is not None
        now = time.monotonic()
        if now - self._echoed_at >= ECHO:
            self._send_echo(now)
        received: list[Receipt | Heartbeat | Operation] = []
        until = now + timeout
        while True:
            # Mail and measurements are two topics: poll them in turn, each for a short time.
            received += self._mail(max(0.0, min(SLICE, until - time.monotonic())))
            speeds = self._speeds.latest()
            if speeds is not None and speeds.at <= self._measured_at:
                speeds = None
            if received or speeds is not None or time.monotonic() >= until:
                break
        if speeds is not None:
            self._measured_at = speeds.at
        return Post(
            tuple(message for message in received if not isinstance(message, Operation)),
            speeds,
            tuple(message for message in received if isinstance(message, Operation)),
            deaf=time.monotonic() - self._heard_at > DEAF,
        )

    def _mail(self, timeout: float) -> list[Receipt | Heartbeat | Operation]:
        assert self._reader is not None
        received: list[Receipt | Heartbeat | Operation] = []
        for record in self._reader.drain(timeout):
            message = self._reader.decode(Message, record, self._settings.group)
            if isinstance(message, Echo):
                if message.echo == self._name:
                    self._heard_at = time.monotonic()
            elif isinstance(message, Receipt | Heartbeat):
                received += [message] if self._has_mail(message.consumer) else []
            elif isinstance(message, Operation):
                received.append(message)
        return received

    def _has_mail(self, consumer: Consumer) -> bool:
        """Return whether a consumer has a partition of mail: without one it cannot be real.

        Believed, a forged number would make the topic grow to that many partitions.
        """
        now = time.monotonic()
        if consumer >= self._room and now - self._counted_at >= COUNT_EVERY:
            self._counted_at = now
            self._room = max(self._room, topics.boxes(self._settings))
        if consumer < self._room:
            return True
        if now - self._warned_at >= 60:
            self._warned_at = now
            topic = self._settings.controller.metadata_topic
            log.warning(
                "ignored messages of a consumer %s in %s:0, which has no partition for it",
                consumer,
                topic,
            )
        return False

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        """Send orders, the state to persist and the event log in one transaction, or nothing."""
        self._check()
        settings = self._settings
        highest = max([o.consumer for o in orders] + list(state.team if state else ()), default=0)
        if highest >= self._room:
            self._room = topics.grow(settings, highest)
        mail = settings.controller.metadata_topic
        records = [(mail, order.encode(), settings.group, order.consumer) for order in orders]
        self._transact([*records, *self._memory(state, log)])

    def _memory(self, state: ControllerState | None, log: Sequence[Message]) -> list[Produced]:
        """Return the records of the state and the event log, for later controllers and people."""
        settings = self._settings
        records = [(settings.event_topic, it.encode(), settings.group, 0) for it in log]
        if state is not None:
            records.insert(0, (settings.state_topic, state.encode(), STATE_KEY, 0))
        return records

    def _transact(self, records: Sequence[Produced]) -> None:
        """Write all of these in one transaction, or none."""
        producer = self._producer
        assert producer is not None
        try:
            if self._broken:
                producer.abort_transaction(TIMEOUT)
                self._broken = False
            producer.begin_transaction()
            self._broken = True
            for topic, value, key, partition in records:
                producer.produce(topic, value, key, partition)
            producer.commit_transaction(TIMEOUT)
            self._broken = False
        except BufferError as error:
            raise TryAgain("sending orders: the producer's queue is full") from error
        except KafkaException as error:
            raise self._explained(error) from error

    def partitions(self) -> Collection[TopicPartition]:
        """Return the partitions of interest; one that is missing for a moment is still there."""
        self._check()
        assert self._member is not None
        with failures.translated("listing topics"):
            known = self._member.list_topics(timeout=TIMEOUT).topics
        self._saw(known)
        now = time.monotonic()
        for name, topic in known.items():
            if topic.error is None and self._settings.of_interest(name):
                for number in topic.partitions:
                    self._seen[TopicPartition(name, number)] = now
        self._seen = {p: at for p, at in self._seen.items() if now - at < GONE}
        return list(self._seen)

    def _saw(self, names: Collection[str]) -> None:
        """Hear which topics there are."""

    def close(self) -> None:
        """Give up the lead, so that another need not wait for this one's silence."""
        for part in (self._member, self._reader, self._speeds):
            if part is not None:
                part.close()
        self._member = self._reader = self._speeds = self._producer = self._echo = None
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
                    raise failures.named("taking over", error.args[0]) from error
                self._poll_member(0.2)
        self._broken = False
        self._room = topics.grow(settings, settings.controller.min_consumers)
        self._echo = Producer(connection.confluent(settings.kafka, linger_ms=0))
        topic = settings.controller.metadata_topic
        self._reader = topic_records.Reader(settings.kafka, topic, 0, "end")
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
            raise TryAgain("the broker has accepted nothing for too long") from error
        self._echo.poll(0)
        self._echoed_at = now

    def _check(self) -> None:
        if self._member is None:
            raise Fenced("this controller is not the leader")
        self._poll_member(0)
        if not self._leads:
            raise Fenced("another controller is the leader now")

    def _poll_member(self, timeout: float) -> None:
        assert self._member is not None
        message = self._member.poll(timeout)
        error = message.error() if message is not None else None
        if error is not None:
            log.info("joining the leader election: %s", error.str())

    def _assigned(self, consumer: Client, places: list[Place]) -> None:
        if places:
            self._leads = True
            consumer.incremental_assign(places)

    def _revoked(self, consumer: Client, places: list[Place]) -> None:
        if places:
            self._leads = False
            consumer.incremental_unassign(places)

    def _explained(self, error: KafkaException) -> Exception:
        cause: KafkaError = error.args[0]
        if cause.fatal():
            return Fenced(f"sending orders: another controller has taken over ({cause.str()})")
        translated = failures.named("sending orders", cause)
        if isinstance(translated, Fenced) or cause.code() == KafkaError._STATE:
            return Fenced(f"sending orders: the transaction was taken away ({cause.str()})")
        return translated


def operate(settings: Settings, operation: Operation, patience: float) -> ControllerState:
    """Send a command until the controller has taken it; return the state that it persisted.

    TryAgain if none takes it within `patience` seconds.
    """
    topic = settings.controller.metadata_topic
    until = time.monotonic() + patience
    with closing(topic_records.Writer(settings.kafka)) as writer:
        while time.monotonic() < until:
            try:
                writer.write(topic, CONTROLLER, operation.encode(), settings.group)
            except TryAgain as error:
                log.info("%s", error)
            time.sleep(0.5)
            state = persisted(settings)
            if state is not None and operation.id in state.mode.taken:
                return state
    raise TryAgain(
        f"no controller of group {settings.group} took the command within {patience:g} s: it may "
        "not be running (`lagless controller`), or be of an earlier version"
    )


def persisted(settings: Settings) -> ControllerState | None:
    """Return the state that a controller persisted last."""
    return _newest(settings, ControllerState, STATE_KEY, 30)


def _newest(
    settings: Settings, kind: type[M], key: str, timeout: float = topic_records.TIMEOUT
) -> M | None:
    """Return the newest state that was persisted under a key."""
    reader = topic_records.Reader(settings.kafka, settings.state_topic, 0, "beginning")
    with closing(reader):
        return reader.newest(kind, reader.drain_to_end(timeout), settings.group, {key})
