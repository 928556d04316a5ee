"""What Kafka holds of a load: the topics, and the numbers of the last records."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lagless import extras
from lagless.embedded.tally import Tally
from lagless.errors import GiveUp, WrongInput
from lagless.model import TopicPartition

SEQ = re.compile(rb'"seq":(\d+)')
"""Found even in a record that was spoiled."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a partition holds: numbers of its first and last record; both -1 if it is empty."""

    records: int
    first: int
    last: int


def make_topics(
    bootstrap: str, topics: Mapping[str, int], client: Mapping[str, Any] | None = None
) -> None:
    """Make the topics that are missing; one with too few partitions is an error."""
    with extras.needed("kafka"):
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4, **(client or {})})
    known = admin.list_topics(timeout=30).topics
    new = [NewTopic(name, count, 1) for name, count in topics.items() if name not in known]
    for name, made in (admin.create_topics(new) if new else {}).items():
        try:
            made.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise GiveUp(f"the topic {name} cannot be made ({error.args[0].str()})") from error
    for name, count in topics.items():
        if name in known and len(known[name].partitions) < count:
            raise WrongInput(
                f"the topic {name} has {len(known[name].partitions)} partitions, "
                f"and the load writes to {count}: delete it or take another name"
            )


def look(
    bootstrap: str,
    partitions: Iterable[TopicPartition],
    client: Mapping[str, Any] | None = None,
) -> dict[TopicPartition, Held]:
    """Return what each partition holds, from its first and last record."""
    with extras.needed("kafka"):
        import confluent_kafka as kafka
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "lagless.holdings",
            "enable.auto.commit": False,
            "log_level": 4,
            **(client or {}),
        }
    )
    try:
        held = {}
        for partition in partitions:
            low, high = _ends(consumer, partition)
            numbers = [-1, -1]
            if high > low:
                numbers = [_number(consumer, partition, offset) for offset in (low, high - 1)]
            held[partition] = Held(high - low, *numbers)
        return held
    finally:
        consumer.close()


def next_numbers(
    bootstrap: str,
    partitions: Iterable[TopicPartition],
    client: Mapping[str, Any] | None = None,
) -> dict[TopicPartition, int]:
    """Return the number that each partition's next record gets."""
    return {at: held.last + 1 for at, held in look(bootstrap, partitions, client).items()}


def compare(
    bootstrap: str, tally: Tally, client: Mapping[str, Any] | None = None
) -> dict[TopicPartition, str]:
    """Name the partitions that do not hold what the tally says, and how they differ."""
    told = {
        TopicPartition(topic, number): count
        for topic, counts in tally.produced.items()
        for number, count in counts.items()
    }
    wrong = {}
    for partition, held in look(bootstrap, told, client).items():
        if held.last + 1 != told[partition]:
            wrong[partition] = f"produced {told[partition]}, and the last is {held.last}"
        elif held.records and held.records != held.last - held.first + 1:
            wrong[partition] = f"{held.records} records from {held.first} to {held.last}"
    return wrong


def _ends(consumer: Any, partition: TopicPartition, patience: float = 30.0) -> tuple[int, int]:
    import confluent_kafka as kafka

    there = kafka.TopicPartition(partition.topic, partition.partition)
    until = time.monotonic() + patience
    while True:
        try:
            low, high = consumer.get_watermark_offsets(there, timeout=patience)
            return low, high
        except kafka.KafkaException as error:
            # A topic that was just made has no leader for a moment.
            if time.monotonic() > until:
                raise GiveUp(
                    f"the ends of {partition} cannot be read ({error.args[0].str()})"
                ) from error
            time.sleep(0.05)


def _number(consumer: Any, partition: TopicPartition, offset: int) -> int:
    import confluent_kafka as kafka

    consumer.assign([kafka.TopicPartition(partition.topic, partition.partition, offset)])
    message = consumer.poll(30)
    if message is None or message.error():
        raise GiveUp(f"the record at offset {offset} of {partition} cannot be read")
    found = SEQ.search(message.value() or b"")
    if found is None:
        raise WrongInput(
            f"the record at offset {offset} of {partition} is not a load's: take another topic"
        )
    return int(found[1])
