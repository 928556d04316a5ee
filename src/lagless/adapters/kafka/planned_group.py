"""A consumer group that follows plans: look at it, and make its coordinator assign again.

The nudge is a member of lagless's own that changes only its own subscription, between two small
topics without records: it never reads a partition of anybody's. It joins when it is needed first,
and leaves when nobody else is left, so that it never decides what kind of group it is.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import cycle

from confluent_kafka import Consumer, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lagless.adapters.kafka import connection, failures
from lagless.adapters.kafka.group_members import GroupWatch
from lagless.errors import LaglessError, TryAgain
from lagless.group_ports import Membership, Progress
from lagless.model import TopicPartition
from lagless.settings import Settings

log = logging.getLogger("lagless.kafka")
CLIENT_ID = "lagless-nudge"
TIMEOUT = 15.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # no types


class PlannedGroup:
    """group_ports.Members on Kafka; one thread calls."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watch = GroupWatch(settings.kafka, settings.group)
        self._admin = AdminClient(connection.confluent(settings.kafka))
        self._isolation = IsolationLevel[settings.kafka.isolation.upper()]
        self._nudger: Nudger | None = None
        self._can_nudge = False

    def describe(self) -> Membership:
        """Return the group without the member that nudges; no members if it does not exist."""
        group = self._watch.describe()
        of_interest = self._settings.of_interest
        members = tuple(
            replace(member, held=frozenset(p for p in member.held if of_interest(p.topic)))
            for member in group.members
            if member.client != CLIENT_ID
        )
        # In a classic group it would be the first of another protocol, and convert the group.
        self._can_nudge = bool(members) and group.protocol == "consumer"
        if self._nudger is not None and not members:
            self.close()
        return replace(group, members=members)

    def progress(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Progress]:
        """Return how far the group is; a partition that is not there is left out."""
        if not partitions:
            return {}
        committed = self._watch.committed()
        places = [Place(p.topic, p.partition) for p in partitions]
        with failures.translated("requesting offsets"):
            asked = self._admin.list_offsets(
                dict.fromkeys(places, _LATEST),
                isolation_level=self._isolation,
                request_timeout=TIMEOUT,
            )
        found = {}
        for place, future in asked.items():
            p = TopicPartition(place.topic, place.partition)
            try:
                found[p] = Progress(committed.get(p), future.result(TIMEOUT + 5).offset)
            except KafkaException as error:
                log.debug("the end offset of %s is not known: %s", p, error)
            except TimeoutError as error:
                raise TryAgain(f"requesting offsets: no answer in {TIMEOUT + 5:g} s") from error
        return found

    def nudge(self) -> None:
        """Make the coordinator assign again; return at once."""
        if not self._can_nudge:
            return
        if self._nudger is not None and not self._nudger.is_alive():
            self._nudger = None
        if self._nudger is None:
            self._nudger = Nudger(self._settings)
            self._nudger.start()
        else:
            self._nudger.turn()

    def close(self) -> None:
        """Leave the group."""
        if self._nudger is not None:
            self._nudger.end()
            self._nudger = None


class Nudger(threading.Thread):
    """A member that reads one of two empty topics, and the other one after each turn."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="nudge", daemon=True)
        self._settings = settings
        self._turns = threading.Semaphore(1)
        self._ending = threading.Event()

    def turn(self) -> None:
        """Change the subscription soon."""
        self._turns.release()

    def end(self) -> None:
        """Leave the group, and wait for that a moment."""
        self._ending.set()
        self.join(5)

    def run(self) -> None:
        """Be a member until the end."""
        try:
            self._belong()
        except (KafkaException, LaglessError) as error:
            log.warning("the group could not be made to rebalance, trying again: %s", error)

    def _belong(self) -> None:
        config = connection.confluent(
            self._settings.kafka,
            group_id=self._settings.group,
            client_id=CLIENT_ID,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            allow_auto_create_topics=False,
        )
        config["group.protocol"] = "consumer"
        consumer = Consumer(config)
        topics = cycle(self._settings.nudge_topics)
        try:
            while not self._ending.is_set():
                if self._turns.acquire(blocking=False):
                    consumer.subscribe([next(topics)])
                message = consumer.poll(0.2)
                error = message.error() if message is not None else None
                if error is not None and error.fatal():
                    raise failures.named("nudging the group", error)
        finally:
            consumer.close()
