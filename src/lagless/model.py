"""The nouns: partitions, consumers, and who reads what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Consumer: TypeAlias = int
"""A number from 1; consumer N reads partition N of the metadata topic, the controller 0."""


@dataclass(frozen=True, order=True, slots=True)
class TopicPartition:
    """A partition of a Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


Assignment: TypeAlias = Mapping[TopicPartition, Consumer]
Speeds: TypeAlias = Mapping[TopicPartition, float]
"""Bytes per second, as stored in the log, in the order that the online algorithms take."""


LONG_CYCLE = 5.0
"""Seconds that a consumer's cycle should take at most: orders wait for its end."""


def capacity(max_rate: float, iteration: float, rebalance: float) -> float:
    """Give the speed C that a consumer of max rate C̄ may be given.

    Paper, section "Comparison with Kafka's Assignment Strategy": what is written while partitions
    move must be read within the same iteration, so C = C̄ · (1 − rebalance/iteration).
    """
    return max_rate * (1 - rebalance / iteration)
