"""What Kafka says of the partitions that a consumer reads: ids, bounds and group offsets."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lagless.adapters.kafka import connection, troubles
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
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # no types
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # no types


class Offsets:
    """ports.Offsets on confluent-kafka; any thread may call."""

    def __init__(self, settings: Settings) -> None:
        self._isolation = (
            IsolationLevel.READ_COMMITTED
            if settings.kafka.isolation == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._admin = AdminClient(connection.confluent(settings.kafka))
        # It never joins the group: it only commits and asks for what was committed.
        self._member = Consumer(
            connection.confluent(settings.kafka, group_id=settings.group, enable_auto_commit=False)
        )

    def topics(self, names: Collection[str]) -> Mapping[str, tuple[Topic, int]]:
        """Give each topic and its number of partitions; one that is not there is left out."""
        if not names:
            return {}
        asked = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT)
        found = {}
        for name, future in asked.items():
            described = _answer(f"describing topic {name}", future)
            if described is not None:
                found[name] = (Topic(name, _id(described.topic_id)), len(described.partitions))
        return found

    def bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Give where the logs begin and end now for a reader of this isolation."""
        if not partitions:
            return {}
        places = {p: Place(p.topic, p.partition) for p in partitions}
        # Both at once: each takes a round trip.
        starts = self._list(places.values(), _EARLIEST)
        ends = self._list(places.values(), _LATEST)
        found = {}
        for p, place in places.items():
            earliest = _answer(f"asking for the begin of {p}", starts[place])
            end = _answer(f"asking for the end of {p}", ends[place])
            if earliest is not None and end is not None:
                found[p] = Bounds(earliest.offset, end.offset)
        return found

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Give the group's committed offsets, where there are any."""
        places = [Place(p.topic, p.partition) for p in partitions]
        try:
            with troubles.translated("asking for the group's offsets"):
                answers = self._member.committed(places, timeout=TIMEOUT)
        except TryAgain as error:
            raise Away(str(error), "kafka") from error
        for one in answers:
            if one.error is not None and one.error.code() not in _MISSING:
                raise troubles.named("asking for the group's offsets", one.error)
        return {
            TopicPartition(one.topic, one.partition): one.offset
            for one in answers
            if one.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group without waiting: they are for people and tools."""
        if offsets:
            places = [Place(p.topic, p.partition, offset) for p, offset in offsets.items()]
            with troubles.translated("committing the group's offsets"):
                self._member.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """End the connections; what was committed last still goes out."""
        self._member.close()

    def _list(self, places: Collection[Place], spec: OffsetSpec) -> dict[Place, "Future[Any]"]:
        with troubles.translated("asking for offsets"):
            asked: dict[Place, Future[Any]] = self._admin.list_offsets(
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


def _id(given: object) -> str:
    """Write a topic's id as Kafka does: librdkafka's "/" would split the names of offsets."""
    return str(given).replace("+", "-").replace("/", "_")


def _answer(doing: str, future: "Future[Any]") -> Any:
    """Give an answer, or None where Kafka knows no such topic or partition."""
    try:
        return future.result(TIMEOUT + 5)
    except KafkaException as error:
        if error.args[0].code() in _MISSING:
            return None
        told = troubles.named(doing, error.args[0])
        if type(told) is TryAgain:
            raise Away(str(told), "kafka") from error
        raise told from error
    except TimeoutError as error:
        raise Away(f"{doing}: no answer within {TIMEOUT + 5:g} s", "kafka") from error
