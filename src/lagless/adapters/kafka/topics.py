"""The topics that lagless creates, and how the metadata topic grows with the group."""

import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from lagless.adapters.kafka import connection, failures
from lagless.errors import TryAgain
from lagless.settings import Settings

ROOM = 32
"""Consumers that a new metadata topic has room for; it grows by doubling."""
TIMEOUT = 15.0
_HOUR = 3_600_000
_DAY = 24 * _HOUR


def plans(settings: Settings) -> dict[str, NewTopic]:
    """Return how each own topic is created; replication is left to the cluster's default."""
    mail = settings.controller.metadata_topic
    configs = {
        # Only the newest speeds matter; a day of them lets people look back.
        settings.monitor.topic: {"retention.ms": str(_DAY), "segment.ms": str(_HOUR)},
        # Orders are repeated until answered, so an hour is more than anyone has to look back.
        mail: {"retention.ms": str(_HOUR), "segment.ms": str(_HOUR // 6)},
        # Small segments, cleaned eagerly: a starting role reads it from its beginning.
        settings.state_topic: {
            "cleanup.policy": "compact",
            "segment.ms": str(_HOUR // 6),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(_DAY),
        },
        # The controller's events are in it too, so that it can be replayed: a week, or 1 GB.
        settings.event_topic: {"retention.ms": str(7 * _DAY), "retention.bytes": str(10**9)},
        settings.leader_topic: {},
    }
    if settings.of_others:
        # The brokers read it from its beginning when they start.
        configs[settings.plan_topic] = {
            "cleanup.policy": "compact",
            "segment.ms": str(_HOUR),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(_DAY),
        }
        # Nothing is ever written to these: a member reads one or the other.
        configs |= {name: {} for name in settings.nudge_topics}
    boxes = 1 + max(ROOM, settings.controller.min_consumers)
    return {
        name: NewTopic(name, num_partitions=boxes if name == mail else 1, config=config)
        for name, config in configs.items()
    }


def ensure(settings: Settings, only: Collection[str] | None = None) -> list[str]:
    """Create the missing own topics (of `only`, or all) and return their names."""
    admin = AdminClient(connection.confluent(settings.kafka))
    wanted = {name: plan for name, plan in plans(settings).items() if only is None or name in only}
    there = _partition_counts(admin)
    new = [plan for name, plan in wanted.items() if name not in there]
    created = {}
    for name, future in (admin.create_topics(new) if new else {}).items():
        try:
            future.result(TIMEOUT)
            created[name] = wanted[name].num_partitions
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                doing = f"topic {name} cannot be created"
                raise failures.named(doing, error.args[0]) from error
    _await(admin, created)
    return list(created)


def grow(settings: Settings, consumers: int) -> int:
    """Return consumers 1 … `consumers` each a partition of mail; return how many there are.

    The topic at least doubles when it grows, since partitions cannot be taken away again.
    """
    topic = settings.controller.metadata_topic
    admin = AdminClient(connection.confluent(settings.kafka))
    count = _partition_counts(admin).get(topic)
    if count is None:
        ensure(settings, only=[topic])
        count = plans(settings)[topic].num_partitions
    if count > consumers:
        return count
    wanted = max(consumers + 1, 2 * count - 1)
    future = admin.create_partitions([NewPartitions(topic, wanted)])[topic]
    try:
        with failures.translated(f"adding partitions to topic {topic}, up to {wanted}"):
            future.result(TIMEOUT)
    except TryAgain:
        # Another process may have grown it at the same moment.
        count = _partition_counts(admin).get(topic, 0)
        if count > consumers:
            return count
        raise
    _await(admin, {topic: wanted})
    return wanted


def boxes(settings: Settings) -> int:
    """Return the number of partitions of the metadata topic."""
    admin = AdminClient(connection.confluent(settings.kafka))
    return _partition_counts(admin).get(settings.controller.metadata_topic, 0)


def _await(admin: AdminClient, wanted: Mapping[str, int]) -> None:
    """Wait until the new topics and partitions have leaders."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        led = _partition_counts(admin, led=True)
        if all(led.get(name, 0) >= count for name, count in wanted.items()):
            return
        if time.monotonic() > deadline:
            raise TryAgain(
                f"topics {', '.join(wanted)}: created, but without a leader after {TIMEOUT:g} s"
            )
        time.sleep(0.1)


def _partition_counts(admin: AdminClient, led: bool = False) -> dict[str, int]:
    with failures.translated("listing topics"):
        topics = admin.list_topics(timeout=TIMEOUT).topics
    return {
        name: sum(partition.leader >= 0 or not led for partition in topic.partitions.values())
        for name, topic in topics.items()
        if topic.error is None
    }
