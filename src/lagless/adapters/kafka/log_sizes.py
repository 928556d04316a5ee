"""The sizes of leader replicas: describeLogDirs on every broker, side by side.

kafka-python's public calls ask broker after broker and end at the first error, so its requests
are sent one by one here. Each broker gets four in a row on one connection, which it answers in
order: start offsets, sizes, end offsets, start offsets again. A log whose start moved in between
(retention) would have a size that belongs to neither start: it is asked for once more.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from lagless.adapters.kafka import answers, connection
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
_REFUSED = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.AuthorizationError)


def connect(kafka: KafkaSettings) -> Any:
    """Open a client of kafka-python."""
    config = connection.kafka_python(
        kafka,
        request_timeout_ms=int(PATIENCE * 1000),
        bootstrap_timeout_ms=int(PATIENCE * 1000),
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


class LogSizes:
    """Ask every broker for the sizes of the leader replicas of the partitions of interest."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._worked = False
        self.errors = 0
        """Answers of brokers that were missing or wrong."""
        quiet = logging.getLogger("kafka")
        if quiet.level == logging.NOTSET:
            quiet.setLevel(logging.CRITICAL)  # what matters of it is said below

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
            given = self._ask_brokers(left)
            at = at or sum(answer.at for answer in given) / len(given)
            moving: dict[TopicPartition, answers.Leader] = {}
            for answer in given:
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

    def _leaders(self) -> dict[TopicPartition, answers.Leader]:
        """Ask who leads the partitions of interest; without an answer there is no round."""
        try:
            if self._client is None:
                self._client = connect(self._settings.kafka)
            metadata = self._client._manager.run(self._metadata)
        except (kafka_errors.KafkaError, OSError) as error:
            self.errors += 1
            self.close()
            if isinstance(error, _REFUSED) and not self._worked:
                raise GiveUp(
                    f"Kafka refuses the monitor ({error}); check kafka.security"
                ) from error
            raise TryAgain(f"Kafka does not tell its topics: {error}") from error
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

    def _of_interest(self, metadata: Any) -> dict[TopicPartition, answers.Leader]:
        leaders = {}
        for topic in metadata.topics:
            if not self._settings.of_interest(topic.name):
                continue
            if topic.error_code not in (0, _NO_SUCH_TOPIC):
                self._count(f"topic {topic.name}: {answers.words(topic.error_code)}")
            topic_id = str(topic.topic_id)
            for partition in topic.partitions:
                leaders[TopicPartition(topic.name, partition.partition_index)] = answers.Leader(
                    partition.leader_id, topic_id
                )
        return leaders

    def _ask_brokers(
        self, leaders: Mapping[TopicPartition, answers.Leader]
    ) -> list[answers.Answer]:
        led: dict[int, dict[TopicPartition, answers.Leader]] = defaultdict(dict)
        for partition, leader in leaders.items():
            led[leader.broker][partition] = leader
        given = self._ask_quickly(led)
        for broker, answer in given.items():
            if answer.trouble:
                self._count(f"broker {broker}: {answer.trouble}")
        return list(given.values())

    def _ask_quickly(
        self, led: Mapping[int, Mapping[TopicPartition, answers.Leader]]
    ) -> dict[int, answers.Answer]:
        """Ask; if answers were so slow that they blur the time, ask again and take the quickest."""
        monitor = self._settings.monitor
        deadline = time.monotonic() + monitor.interval / 2
        tries = []
        # With very many partitions it is their number that takes time, each time anew.
        most = TRIES if sum(map(len, led.values())) <= MANY else 1
        for _ in range(most):
            given = {broker: answers.Answer(partitions) for broker, partitions in led.items()}
            self._client._manager.run(self._ask_all, given)
            slowest = max(answer.took for answer in given.values())
            untold = sum(len(answer.missing()) for answer in given.values())
            tries.append((untold, slowest, given))
            if slowest <= BLUR * monitor.window or time.monotonic() > deadline:
                break
        return min(tries, key=lambda tried: tried[:2])[2]

    async def _ask_all(self, given: Mapping[int, answers.Answer]) -> None:
        """Send every broker its requests before the first answer is waited for."""
        manager = self._client._manager
        under_way = []
        for broker, answer in given.items():
            asked_at = time.time()
            try:
                futures = [manager.send(request, node_id=broker) for request in answer.requests()]
            except kafka_errors.KafkaError as error:
                answer.fail(error)
                continue
            futures[1].add_callback(answer.timer(asked_at))
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
