"""Kafka's data about the partitions that a consumer reads: ids, bounds and group offsets."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lagless.adapters.kafka import connection, failures
from lagless.errors import Away, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Bounds, Topic
from lagless.settings import Settings

TIMEOUT = 10.0
_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_STALE = {
    # Leader epochs of a topic that was created again start over. librdkafka keeps the higher one of
    # the deleted topic for as long as the client lives.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    # It keeps the epoch of a leader that was elected again, or that lost a follower.
    KafkaError.FENCED_LEADER_EPOCH,
    # It waits for the broker that it takes for the controller, even if that one is gone for good.
    KafkaError._TIMED_OUT,
    # It remembers that a partition had no leader, after it has one again.
    KafkaError._NOENT,
}
"""What a client cannot get over by itself until its metadata expires, which takes minutes."""
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # no types
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # no types


class Offsets:
    """ports.Offsets on confluent-kafka; any thread may call."""

    def __init__(self, settings: Settings) -> None:
        self._isolation = IsolationLevel[settings.kafka.isolation.upper()]
        self._kafka = settings.kafka
        self._admin = AdminClient(connection.confluent(settings.kafka))
        # It never joins the group: it only commits and reads committed offsets.
        self._member = Consumer(
            connection.confluent(settings.kafka, group_id=settings.group, enable_auto_commit=False)
        )

    def partitions(self, of_interest: Callable[[str], bool]) -> list[TopicPartition]:
        """Return the partitions of all topics of interest."""
        with failures.translated("listing topics"):
            known = self._admin.list_topics(timeout=TIMEOUT).topics
        return [
            TopicPartition(name, number)
            for name, topic in sorted(known.items())
            if of_interest(name)
            for number in sorted(topic.partitions)
        ]

    def topics(self, names: Collection[str]) -> Mapping[str, tuple[Topic, int]]:
        """Return each topic and its number of partitions; one that is not there is left out."""
        if not names:
            return {}
        admin = self._admin
        asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT)
        known = {}
        for name, future in asked.items():
            described = self._answered(admin, f"describing topic {name}", future)
            if described is not None:
                # As Kafka writes it: librdkafka's "/" would split the names of offsets.
                topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
                known[name] = (Topic(name, topic_id), len(described.partitions))
        return known

    def bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return where the logs begin and end now for a reader of this isolation."""
        if not partitions:
            return {}
        places = {p: Place(p.topic, p.partition) for p in partitions}
        admin = self._admin
        # Both requests at once: each takes a round trip.
        starts = self._list(admin, places.values(), _EARLIEST)
        ends = self._list(admin, places.values(), _LATEST)
        known = {}
        for p, place in places.items():
            earliest = self._answered(admin, f"requesting the start offset of {p}", starts[place])
            end = self._answered(admin, f"requesting the end offset of {p}", ends[place])
            if earliest is not None and end is not None:
                epoch = -1 if end.leader_epoch is None else end.leader_epoch
                known[p] = Bounds(earliest.offset, end.offset, epoch)
        return known

    def ends(
        self, epochs: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int]:
        """Return where leader epochs end now; see ports.Offsets."""
        # Importing kafka-python takes a tenth of a consumer's start, and leaders change rarely.
        from lagless.adapters.kafka import leader_epochs

        return leader_epochs.ends(self._kafka, {p: (e, bounds[p].epoch) for p, e in epochs.items()})

    def at_time(
        self, partitions: Collection[TopicPartition], at: float
    ) -> Mapping[TopicPartition, int]:
        """Return the first offset that is not older than a time; none where all are older."""
        places = {p: Place(p.topic, p.partition) for p in partitions}
        admin = self._admin
        answers = self._list(admin, places.values(), OffsetSpec.for_timestamp(int(at * 1000)))
        known = {}
        for p, place in places.items():
            found = self._answered(admin, f"requesting the offset of a time in {p}", answers[place])
            if found is not None and found.offset >= 0:
                known[p] = int(found.offset)
        return known

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets, where there are any."""
        places = [Place(p.topic, p.partition) for p in partitions]
        try:
            with failures.translated("requesting the group's offsets"):
                answers = self._member.committed(places, timeout=TIMEOUT)
        except TryAgain as error:
            raise Away(str(error), "kafka") from error
        for answer in answers:
            if answer.error is not None and answer.error.code() not in _MISSING:
                raise failures.named("asking for the group's offsets", answer.error)
        return {
            TopicPartition(answer.topic, answer.partition): answer.offset
            for answer in answers
            if answer.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group without waiting: they serve lag tools only."""
        if offsets:
            places = [Place(p.topic, p.partition, offset) for p, offset in offsets.items()]
            with failures.translated("committing the group's offsets"):
                self._member.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Close the connections; the last commits are still sent."""
        self._member.close()

    def _answered(self, admin: AdminClient, doing: str, future: "Future[Any]") -> Any:
        """Return an answer; with a new client from the next question on if this one is stale."""
        try:
            return _answer(doing, future)
        except Away as error:
            cause = error.__cause__
            stale = isinstance(cause, KafkaException) and cause.args[0].code() in _STALE
            if stale and self._admin is admin:
                self._admin = AdminClient(connection.confluent(self._kafka))
            raise

    def _list(
        self, admin: AdminClient, places: Collection[Place], spec: OffsetSpec
    ) -> dict[Place, "Future[Any]"]:
        with failures.translated("requesting offsets"):
            asked: dict[Place, Future[Any]] = admin.list_offsets(
                dict.fromkeys(places, spec),
                isolation_level=self._isolation,
                request_timeout=TIMEOUT,
            )
        return asked


def delete_topics(settings: Settings, names: Collection[str]) -> None:
    """Delete topics; one that is not there is a success."""
    admin = AdminClient(connection.confluent(settings.kafka))
    for name, future in admin.delete_topics(list(names)).items():
        _answer(f"deleting topic {name}", future)


def _answer(doing: str, future: "Future[Any]") -> Any:
    """Return an answer, or None where Kafka knows no such topic or partition."""
    try:
        return future.result(TIMEOUT + 5)
    except KafkaException as error:
        if error.args[0].code() in _MISSING:
            return None
        translated = failures.named(doing, error.args[0])
        if type(translated) is TryAgain:
            raise Away(str(translated), "kafka") from error
        raise translated from error
    except TimeoutError as error:
        raise Away(f"{doing}: no answer within {TIMEOUT + 5:g} s", "kafka") from error
