"""Where a leader's epoch ends in a partition's log: OffsetForLeaderEpoch, as in KIP-320.

confluent-kafka has no call for it, so it goes through kafka-python, on a connection of its own.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from lagless.adapters.kafka import log_sizes
from lagless.errors import Away
from lagless.model import TopicPartition
from lagless.settings import KafkaSettings

Epochs = Mapping[TopicPartition, tuple[int, int]]
"""An epoch of each partition, and the epoch of its leader now."""


def ends(kafka: KafkaSettings, epochs: Epochs) -> dict[TopicPartition, int]:
    """Return where the epochs end, for the partitions of which Kafka knows it.

    Raise Away unless each leader's epoch is the one that is named: another may have another log.
    """
    try:
        client = log_sizes.connect(kafka)
        try:
            known: dict[TopicPartition, int] = client._manager.run(
                partial(_ask, client._manager), epochs
            )
        finally:
            client.close()
    except kafka_errors.IncompatibleBrokerVersion:
        return {}
    except (kafka_errors.KafkaError, OSError) as error:
        raise Away(f"asking where leader epochs end: {error}", "kafka") from error
    return known


async def _ask(manager: Any, epochs: Epochs) -> dict[TopicPartition, int]:
    known: dict[TopicPartition, int] = {}
    for broker, mine in (await _by_leader(manager, epochs)).items():
        sent = manager.send(_request(mine), node_id=broker)
        answer = await manager.wait_for(sent, log_sizes.PATIENCE * 1000)
        for topic in answer.topics:
            for entry in topic.partitions:
                if entry.error_code:
                    raise kafka_errors.for_code(entry.error_code)
                if entry.end_offset >= 0:
                    known[TopicPartition(topic.topic, entry.partition)] = entry.end_offset
    return known


async def _by_leader(
    manager: Any, epochs: Epochs
) -> dict[int, dict[TopicPartition, tuple[int, int]]]:
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[topic(name=name) for name in sorted({p.topic for p in epochs})],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    metadata = await manager.wait_for(manager.send(request), log_sizes.PATIENCE * 1000)
    manager.cluster.update_metadata(metadata)
    led: dict[int, dict[TopicPartition, tuple[int, int]]] = defaultdict(dict)
    for described in metadata.topics:
        for entry in described.partitions:
            p = TopicPartition(described.name, entry.partition_index)
            if p in epochs:
                if entry.leader_id < 0:
                    raise kafka_errors.LeaderNotAvailableError(str(p))
                led[entry.leader_id][p] = epochs[p]
    return led


def _request(epochs: Epochs) -> OffsetForLeaderEpochRequest:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = topic.OffsetForLeaderPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for p, (epoch, now) in epochs.items():
        # A broker that only believes that it leads still is refused by the epoch that leads now.
        asked = partition(partition=p.partition, current_leader_epoch=now, leader_epoch=epoch)
        by_topic[p.topic].append(asked)
    topics = [topic(topic=name, partitions=asked) for name, asked in by_topic.items()]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
