"""The sizes of leader replicas: describeLogDirs on every broker, side by side.

kafka-python's public calls ask broker after broker and end at the first error, so its requests
are sent one by one here. Each broker gets four in a row on one connection, which it answers in
order: docs/monitor.md says why.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from lagless.adapters.kafka import connection
from lagless.errors import GiveUp, TryAgain
from lagless.model import TopicPartition
from lagless.ports import LogSize, Measurement
from lagless.settings import KafkaSettings, Settings

log = logging.getLogger("lagless.kafka")
PATIENCE = 10.0
"""Seconds until a broker that does not answer counts as failed for this round."""
TRIES = 3
"""How often a log is asked for whose start moves while it is measured, or whose answer is slow."""
MANY = 1000
BLUR = 0.01
"""Share of the window that an answer may take."""
_NO_SUCH_TOPIC = 3
_EARLIEST, _LATEST = -2, -1
_NONE: dict[int, int] = {}
_REFUSED = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.AuthorizationError)


def connect(kafka: KafkaSettings) -> Any:
    """Open a client of kafka-python."""
    config = connection.kafka_python(
        kafka, request_timeout_ms=int(PATIENCE * 1000), bootstrap_timeout_ms=int(PATIENCE * 1000)
    )
    client = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        client.__init__(**config)
    except BaseException:
        # Its thread and sockets would live on: nobody else has a hand on them.
        if hasattr(client, "_client"):
            client._closed = False
            client.close()
        raise
    return client


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition, and the id of its topic."""

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
        """Return the four requests, in the order in which the broker shall answer them."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for partition in self._leaders:
            by_topic[partition.topic].append(partition.partition)
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        sizes = DescribeLogDirsRequest(
            topics=[topic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]
        )
        starts = _offsets_request(by_topic, _EARLIEST)
        return [starts, sizes, _offsets_request(by_topic, _LATEST), starts]

    def arrive(self, asked_at: float, _: object) -> None:
        """Note, when the sizes arrive, the moment between question and answer."""
        self.took = time.time() - asked_at
        self.at = asked_at + self.took / 2

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
            self.trouble = f"{missing} of {len(self._leaders)} logs are missing from the answer"

    def missing(self) -> set[TopicPartition]:
        """Return the partitions that are missing from the answer."""
        if len(self.sizes) + len(self.moving) == len(self._leaders):
            return set()
        return set(self._leaders) - self.sizes.keys() - self.moving

    def fail(self, error: Exception) -> None:
        """Record that the broker did not answer."""
        self.trouble = f"{type(error).__name__}: {error}"

    def _sizes(self, dirs: Any) -> Iterator[tuple[str, int, int]]:
        if dirs.error_code:
            self.trouble = _words(dirs.error_code)
        for folder in dirs.results:
            if folder.error_code:
                self.trouble = f"log directory {folder.log_dir}: {_words(folder.error_code)}"
            for topic in folder.topics:
                for entry in topic.partitions:
                    # A future log is a copy that Kafka is making in another log directory.
                    if not entry.is_future_key:
                        yield topic.name, entry.partition_index, entry.partition_size


def _words(code: int) -> str:
    """Return the name of a Kafka error code."""
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


class LogSizes:
    """Ask every broker for the sizes of the leader replicas of the partitions of interest."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._worked = False
        self.errors = 0
        """Broker answers that were missing or wrong."""
        quiet = logging.getLogger("kafka")
        if quiet.level == logging.NOTSET:
            quiet.setLevel(logging.CRITICAL)  # LogSizes logs what matters itself

    def measure(self) -> Measurement:
        """Ask every broker once."""
        leaders = self._leaders()
        missing = {partition for partition, leader in leaders.items() if leader.broker < 0}
        left = {p: leader for p, leader in leaders.items() if leader.broker >= 0}
        sizes: dict[TopicPartition, LogSize] = {}
        at = None
        for _ in range(TRIES):
            if not left:
                break
            answers = self._ask_brokers(left)
            at = at or sum(answer.at for answer in answers) / len(answers)
            moving: dict[TopicPartition, Leader] = {}
            for answer in answers:
                sizes |= answer.sizes
                missing |= answer.missing()
                moving |= {partition: left[partition] for partition in answer.moving}
            left = moving
        return Measurement(at or time.time(), sizes, frozenset(missing | left.keys()))

    def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def _leaders(self) -> dict[TopicPartition, Leader]:
        """Request the leaders of the partitions of interest; without an answer the round fails."""
        try:
            if self._client is None:
                self._client = connect(self._settings.kafka)
            metadata = self._client._manager.run(self._metadata)
        except (kafka_errors.KafkaError, OSError) as error:
            self.errors += 1
            self.close()
            if isinstance(error, _REFUSED) and not self._worked:
                raise GiveUp(
                    f"Kafka rejects the connection ({error}); check kafka.security"
                ) from error
            raise TryAgain(f"listing topics: {error}") from error
        self._worked = True
        return self._of_interest(metadata)

    async def _metadata(self) -> Any:
        topic = MetadataRequest.MetadataRequestTopic
        # Names are asked for by name, so that the rights to these topics are enough.
        names = self._settings.topic_names
        request = MetadataRequest(
            topics=None if names is None else [topic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        manager = self._client._manager
        metadata = await manager.wait_for(manager.send(request), PATIENCE * 1000)
        manager.cluster.update_metadata(metadata)
        return metadata

    def _of_interest(self, metadata: Any) -> dict[TopicPartition, Leader]:
        leaders = {}
        for topic in metadata.topics:
            if not self._settings.of_interest(topic.name):
                continue
            if topic.error_code not in (0, _NO_SUCH_TOPIC):
                self._count(f"topic {topic.name}: {_words(topic.error_code)}")
            topic_id = str(topic.topic_id)
            for partition in topic.partitions:
                leaders[TopicPartition(topic.name, partition.partition_index)] = Leader(
                    partition.leader_id, topic_id
                )
        return leaders

    def _ask_brokers(self, leaders: Mapping[TopicPartition, Leader]) -> list[Answer]:
        led: dict[int, dict[TopicPartition, Leader]] = defaultdict(dict)
        for partition, leader in leaders.items():
            led[leader.broker][partition] = leader
        answers = self._ask_quickly(led)
        for broker, answer in answers.items():
            if answer.trouble:
                self._count(f"broker {broker}: {answer.trouble}")
        return list(answers.values())

    def _ask_quickly(self, led: Mapping[int, Mapping[TopicPartition, Leader]]) -> dict[int, Answer]:
        """Ask; if answers were so slow that they blur the time, ask again and take the quickest."""
        monitor = self._settings.monitor
        deadline = time.monotonic() + monitor.interval / 2
        tries = []
        # With very many partitions their number takes the time: asking again does not help.
        most = TRIES if sum(map(len, led.values())) <= MANY else 1
        for _ in range(most):
            answers = {broker: Answer(partitions) for broker, partitions in led.items()}
            self._client._manager.run(self._ask_all, answers)
            slowest = max(answer.took for answer in answers.values())
            missing = sum(len(answer.missing()) for answer in answers.values())
            tries.append((missing, slowest, answers))
            if slowest <= BLUR * monitor.window or time.monotonic() > deadline:
                break
        return min(tries, key=lambda tried: tried[:2])[2]

    async def _ask_all(self, answers: Mapping[int, Answer]) -> None:
        """Send every broker its requests before the first answer is waited for."""
        manager = self._client._manager
        under_way = []
        for broker, answer in answers.items():
            asked_at = time.time()
            try:
                futures = [manager.send(request, node_id=broker) for request in answer.requests()]
            except kafka_errors.KafkaError as error:
                answer.fail(error)
                continue
            futures[1].add_callback(partial(answer.arrive, asked_at))
            under_way.append((answer, futures))
        for answer, futures in under_way:
            try:
                parts = [await manager.wait_for(f, PATIENCE * 1000) for f in futures]
            except (kafka_errors.KafkaError, OSError) as error:
                answer.fail(error)
            else:
                answer.take(*parts)

    def _count(self, trouble: str) -> None:
        self.errors += 1
        log.warning("%s", trouble)
