"""Reading spans of a topic with Spark."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from lagless.ports import Span, Topic

POLL = 20_000
"""Milliseconds that Spark waits for records before it gives up: below every deadline."""
SWIFT = {
    # The defaults, 64 kB and 500, make a task wait for the network again and again.
    "kafka.receive.buffer.bytes": "-1",
    "kafka.max.poll.records": "5000",
    # After each poll Spark asks where the log begins and ends, on a connection that is taken up by
    # the next fetch: at the end of a log that one waits for so long, in every cycle and partition.
    "kafka.fetch.max.wait.ms": "10",
    # Each cycle makes a client to ask about the partitions; some hundred entries in Java's registry
    # of beans, which nobody reads, take longer than the question.
    "kafka.auto.include.jmx.reporter": "false",
}
"""What Spark's own Kafka consumers are told, unless the settings say otherwise."""


def read(
    spark: SparkSession,
    kafka: Mapping[str, str],
    group: str,
    isolation: str,
    topic: Topic,
    spans: Mapping[int, Span],
    headers: bool,
) -> DataFrame:
    """Give the records of these spans as a frame; nothing is read yet."""
    options = {
        **SWIFT,
        **kafka,
        "assign": json.dumps({topic.name: sorted(spans)}),
        "startingOffsets": _offsets(topic, {p: span.first for p, span in spans.items()}),
        "endingOffsets": _offsets(topic, {p: span.until for p, span in spans.items()}),
        # Without it Spark would silently skip what it cannot find.
        "failOnDataLoss": "true",
        "includeHeaders": str(headers).lower(),
        "kafka.isolation.level": isolation,
        # Executors keep their consumers from cycle to cycle under a name that stays the same. With
        # the topic's id in it they never serve what they had buffered of a deleted topic.
        "kafka.group.id": f"{group}.spark.{topic.id}",
        "kafkaConsumer.pollTimeoutMs": str(POLL),
    }
    return spark.read.format("kafka").options(**options).load()


def _offsets(topic: Topic, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic.name: {str(p): offset for p, offset in sorted(offsets.items())}})
