"""The nouns: partitions, consumers, who reads what, and the phases of the controller."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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


class Phase(StrEnum):
    """The states of the paper's figure "Controller State Machine"."""

    SYNCHRONIZE = "Synchronize"
    SENTINEL = "Sentinel"
    REASSIGN = "Reassign"
    MANAGEMENT = "Group Management"


class Cause(StrEnum):
    """Why the controller leaves a phase."""

    SYNCHRONIZED = "all have reported or are lost"
    UNREAD = "a partition has no consumer"
    READ_TWICE = "a partition has two consumers"
    LOST = "a consumer is lost"
    OVERLOAD = "a consumer has more than its capacity"
    REGROUPED = "members joined or left"
    APPEARED = "partitions appeared"
    GONE = "partitions went"
    INTERVAL = "the interval is up"
    ASSIGNED = "a new assignment"
    UNCHANGED = "nothing to change"
    SETTLED = "everyone holds what it should"
    OPERATED = "an operator asked for it"
    CONTRADICTION = "what consumers report is not what is believed"


LONG_CYCLE = 5.0
"""Seconds that a consumer's cycle should take at most: orders wait for its end."""


def capacity(max_rate: float, iteration: float, rebalance: float) -> float:
    """Return the speed C that a consumer of max rate C̄ may be given.

    Paper, section "Comparison with Kafka's Assignment Strategy": what is written while partitions
    move must be read within the same iteration, so C = C̄ · (1 − rebalance/iteration).
    """
    return max_rate * (1 - rebalance / iteration)
