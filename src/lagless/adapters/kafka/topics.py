"""The topics that lagless makes for itself, and how the metadata topic grows with the group."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from lagless.adapters.kafka import connection, troubles
from lagless.errors import LaglessError, TryAgain
from lagless.settings import Settings

ROOM = 32
"""Consumers that a new metadata topic has room for; it grows by doubling."""
TIMEOUT = 15.0
_HOUR = 3_600_000
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class Plan:
    """How a topic is made."""

    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


def plans(settings: Settings) -> dict[str, Plan]:
    """Say how each own topic is made; replication is left to the cluster's default."""
    room = max(ROOM, settings.controller.min_consumers)
    return {
        # Only the newest speeds matter; a day of them lets people look back.
        settings.monitor.topic: Plan(1, {"retention.ms": str(_DAY), "segment.ms": str(_HOUR)}),
        # Orders are repeated until answered, so an hour is more than anyone has to look back.
        settings.controller.metadata_topic: Plan(
            room + 1, {"retention.ms": str(_HOUR), "segment.ms": str(_HOUR // 6)}
        ),
        # Small segments, cleaned eagerly: who starts reads it from its beginning.
        settings.state_topic: Plan(
            1,
            {
                "cleanup.policy": "compact",
                "segment.ms": str(_HOUR // 6),
                "min.cleanable.dirty.ratio": "0.1",
                "delete.retention.ms": str(_DAY),
            },
        ),
        # What the controller was told is in it too, so that it can be replayed: a week, or 1 GB.
        settings.event_topic: Plan(
            1, {"retention.ms": str(7 * _DAY), "retention.bytes": str(10**9)}
        ),
        settings.leader_topic: Plan(1),
    }


def ensure(settings: Settings, only: Collection[str] | None = None) -> list[str]:
    """Make the own topics that are missing (of `only`, or all) and name those that were made."""
    admin = AdminClient(connection.confluent(settings.kafka))
    wanted = {name: plan for name, plan in plans(settings).items() if only is None or name in only}
    there = _partition_counts(admin)
    new = [
        NewTopic(name, num_partitions=plan.partitions, config=dict(plan.config))
        for name, plan in wanted.items()
        if name not in there
    ]
    made = []
    for name, future in (admin.create_topics(new) if new else {}).items():
        try:
            with troubles.translated(f"topic {name} cannot be made"):
                future.result(TIMEOUT)
            made.append(name)
        except LaglessError as error:
            if not _exists(error):
                raise
    _await(admin, {name: wanted[name].partitions for name in made})
    return made


def grow(settings: Settings, consumers: int) -> int:
    """Give consumers 1 … `consumers` each a partition of mail; return how many there are.

    The topic at least doubles when it grows, since partitions cannot be taken away again.
    """
    topic = settings.controller.metadata_topic
    admin = AdminClient(connection.confluent(settings.kafka))
    count = _partition_counts(admin).get(topic)
    if count is None:
        ensure(settings, only=[topic])
        count = plans(settings)[topic].partitions
    if count > consumers:
        return count
    wanted = max(consumers + 1, 2 * count - 1)
    future = admin.create_partitions([NewPartitions(topic, wanted)])[topic]
    try:
        with troubles.translated(f"topic {topic} cannot grow to {wanted} partitions"):
            future.result(TIMEOUT)
    except TryAgain:
        # Another process may have grown it at the same moment.
        count = _partition_counts(admin).get(topic, 0)
        if count > consumers:
            return count
        raise
    _await(admin, {topic: wanted})
    return wanted


def _await(admin: AdminClient, wanted: Mapping[str, int]) -> None:
    """Wait until brokers know what the cluster has agreed to make, and lead it."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        led = _partition_counts(admin, led=True)
        if all(led.get(name, 0) >= count for name, count in wanted.items()):
            return
        if time.monotonic() > deadline:
            raise TryAgain(f"{', '.join(wanted)}: made, but not there within {TIMEOUT:g} s")
        time.sleep(0.1)


def _partition_counts(admin: AdminClient, led: bool = False) -> dict[str, int]:
    with troubles.translated("Kafka's topics cannot be listed"):
        topics = admin.list_topics(timeout=TIMEOUT).topics
    return {
        name: sum(partition.leader >= 0 or not led for partition in topic.partitions.values())
        for name, topic in topics.items()
        if topic.error is None
    }


def _exists(error: Exception) -> bool:
    cause = error.__cause__
    return (
        isinstance(cause, KafkaException)
        and cause.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    )
