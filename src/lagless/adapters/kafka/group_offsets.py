"""A group's committed offsets with the text beside each, for members that use assign()."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lagless.adapters.kafka import failures
from lagless.adapters.kafka.leases import Mark
from lagless.errors import GiveUp, TryAgain
from lagless.model import TopicPartition

ANSWER = 5.0
"""Seconds for Kafka to answer."""
_EARLIEST = {"earliest", "smallest", "beginning"}
_OTHERS = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.NON_EMPTY_GROUP,
}
_CONNECTION = (
    *("bootstrap.", "metadata.broker.list", "client.", "security.", "sasl.", "ssl.", "enable.ssl."),
    *("enable.sasl.", "socket.", "broker.", "connections.", "reconnect.", "retry.", "log", "debug"),
    *("oauth", "error_cb", "throttle_cb", "stats_cb", "api.version.", "resolve_cb", "https."),
)


class GroupOffsets:
    """Look at and commit the offsets of a group that nobody is subscribed in."""

    def __init__(self, config: Mapping[str, Any], group: str) -> None:
        self._group = group
        self._reset = str(config.get("auto.offset.reset", "latest"))
        # The admin client warns of properties that only a consumer has.
        self._admin = AdminClient({k: v for k, v in config.items() if k.startswith(_CONNECTION)})

    def marks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Mark | None]:
        """Return what is committed, with None for nothing; what failed is left out."""
        doing = f"requesting the offsets of group {self._group}"
        places = [Place(p.topic, p.partition) for p in sorted(partitions)]
        wanted = [ConsumerGroupTopicPartitions(self._group, places)]
        asked = self._admin.list_consumer_group_offsets(
            wanted, require_stable=False, request_timeout=ANSWER
        )
        marks: dict[TopicPartition, Mark | None] = {}
        for place in _answer(doing, asked[self._group]).topic_partitions:
            if place.error is None:
                partition = TopicPartition(place.topic, place.partition)
                committed = place.offset >= 0
                marks[partition] = Mark(place.offset, place.metadata or "") if committed else None
        return marks

    def commit(
        self, offsets: Mapping[TopicPartition, int], note: str, within: float
    ) -> frozenset[TopicPartition]:
        """Commit offsets with a note within so many seconds; return those that Kafka confirmed."""
        if not offsets:
            return frozenset()
        doing = f"committing offsets of group {self._group}"
        places = [
            Place(p.topic, p.partition, offset, note) for p, offset in sorted(offsets.items())
        ]
        asked = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, places)], request_timeout=within
        )
        done = set()
        for place in _answer(doing, asked[self._group]).topic_partitions:
            if place.error is None:
                done.add(TopicPartition(place.topic, place.partition))
            elif place.error.code() in _OTHERS:
                raise GiveUp(self._others())
        return frozenset(done)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where to begin without an offset; a partition that is not there is left out."""
        if not partitions:
            return {}
        if self._reset == "error":
            raise GiveUp(
                f"group {self._group} has no offset for {min(partitions)}, and auto.offset.reset "
                'is "error"'
            )
        edge: Callable[[], OffsetSpec] = (
            OffsetSpec.earliest if self._reset in _EARLIEST else OffsetSpec.latest
        )
        places = {Place(p.topic, p.partition): p for p in partitions}
        asked = self._admin.list_offsets(dict.fromkeys(places, edge()), request_timeout=ANSWER)
        starts = {}
        for place, answer in asked.items():
            try:
                found = _answer(f"requesting the start and end offsets of {places[place]}", answer)
            except TryAgain as error:
                if not _missing(error):
                    raise
            else:
                starts[places[place]] = int(found.offset)
        return starts

    def _others(self) -> str:
        return (
            f"group {self._group} has members that subscribe to topics, and their partitions are "
            "assigned by Kafka: stop them first, a planned consumer cannot share a group with them"
        )


def _missing(error: TryAgain) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    )


def _answer(doing: str, asked: "Future[Any]") -> Any:
    with failures.translated(doing):
        return asked.result()
