"""What one broker is asked about the logs it leads, and what its answers say."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from lagless.model import TopicPartition
from lagless.ports import LogSize

EARLIEST, LATEST = -2, -1
_NONE: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, and of which topic it is."""

    broker: int
    topic_id: str


class Answer:
    """One broker's part of a measurement."""

    def __init__(self, leaders: Mapping[TopicPartition, Leader]) -> None:
        self._leaders = leaders
        self.at = time.time()
        """When the sizes were taken."""
        self.took = 0.0
        """Seconds between question and answer: `at` is known to half of it."""
        self.sizes: dict[TopicPartition, LogSize] = {}
        self.moving: set[TopicPartition] = set()
        """Logs whose start moved while they were measured."""
        self.trouble = ""

    def requests(self) -> list[Any]:
        """Give the four requests, in the order in which the broker shall answer them."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for partition in self._leaders:
            by_topic[partition.topic].append(partition.partition)
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        sizes = DescribeLogDirsRequest(
            topics=[topic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]
        )
        starts = _offsets_request(by_topic, EARLIEST)
        return [starts, sizes, _offsets_request(by_topic, LATEST), starts]

    def timer(self, asked_at: float) -> Callable[[object], None]:
        """Note, when the sizes arrive, the moment between question and answer."""

        def note(_: object) -> None:
            self.took = time.time() - asked_at
            self.at = asked_at + self.took / 2

        return note

    def take(self, before: Any, dirs: Any, ends: Any, after: Any) -> None:
        """Put the four answers together."""
        first, start, end = _offsets(before), _offsets(after), _offsets(ends)
        for topic, number, size in self._sizes(dirs):
            begins = start.get(topic, _NONE).get(number)
            begun = first.get(topic, _NONE).get(number)
            until = end.get(topic, _NONE).get(number)
            partition = TopicPartition(topic, number)
            leader = self._leaders.get(partition)
            if begins is None or begun is None or until is None or leader is None:
                continue
            if begins != begun:
                self.moving.add(partition)
                continue
            self.sizes[partition] = LogSize(size, begins, until, leader.topic_id, leader.broker)
        missing = len(self._leaders) - len(self.sizes) - len(self.moving)
        if missing and not self.trouble:
            self.trouble = f"{missing} of {len(self._leaders)} logs were not told"

    def missing(self) -> set[TopicPartition]:
        """Name the partitions that were asked for and not told."""
        if len(self.sizes) + len(self.moving) == len(self._leaders):
            return set()
        return set(self._leaders) - self.sizes.keys() - self.moving

    def fail(self, error: Exception) -> None:
        """Note that the broker did not answer."""
        self.trouble = f"{type(error).__name__}: {error}"

    def _sizes(self, dirs: Any) -> Iterator[tuple[str, int, int]]:
        if dirs.error_code:
            self.trouble = words(dirs.error_code)
        for folder in dirs.results:
            if folder.error_code:
                self.trouble = f"log folder {folder.log_dir}: {words(folder.error_code)}"
            for topic in folder.topics:
                for entry in topic.partitions:
                    # A future log is a copy that is just being made in another folder.
                    if not entry.is_future_key:
                        yield topic.name, entry.partition_index, entry.partition_size


def words(code: int) -> str:
    """Name an error code of Kafka's."""
    return str(kafka_errors.for_code(code).__name__)


def _offsets_request(by_topic: Mapping[str, list[int]], timestamp: int) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    return ListOffsetsRequest(
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=number, timestamp=timestamp, current_leader_epoch=-1)
                    for number in numbers
                ],
            )
            for name, numbers in by_topic.items()
        ],
        min_version=1,
    )


def _offsets(response: Any) -> dict[str, dict[int, int]]:
    # By topic, then by number: ten thousand partitions are not hashed three times more.
    return {
        topic.name: {
            entry.partition_index: entry.offset
            for entry in topic.partitions
            if entry.error_code == 0
        }
        for topic in response.topics
    }
