"""What another algorithm, slack or capacity would do now, and what plain Kafka would need. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lagless import packing
from lagless.errors import LaglessError
from lagless.model import Assignment, Consumer, Speeds, TopicPartition

SLOW = "exact"
"""The algorithm that takes too long to answer on a page."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a packing would look like, or why it failed."""

    algorithm: str
    assignment: Mapping[TopicPartition, Consumer]
    consumers: int = 0
    migrations: int = 0
    rscore: float = 0
    oversize: tuple[TopicPartition, ...] = ()
    trouble: str = ""


def algorithms() -> list[str]:
    """Return the algorithms to choose from."""
    return [name for name in packing.algorithms() if name != SLOW and not name.startswith("kd_")]


def takes_slack(algorithm: str) -> bool:
    """Return whether the algorithm has a slack."""
    return "slack" in packing.algorithm(algorithm)[0].parameters


def ask(speeds: Speeds, capacity: float, held: Assignment, algorithm: str, slack: float) -> Answer:
    """Pack the current speeds, starting from the current assignment."""
    previous = {partition: held[partition] for partition in speeds if partition in held}
    try:
        parameters = {"slack": slack} if takes_slack(algorithm) else {}
        result = packing.packing(speeds, capacity, previous, algorithm, **parameters)
    except LaglessError as error:
        return Answer(algorithm, {}, trouble=str(error))
    cost = (result.migrations, result.rscore, result.oversize)
    return Answer(algorithm, result.assignment, result.consumers, *cost)


def plain_kafka(speeds: Speeds, capacity: float) -> int:
    """Return the number of consumers that an assignment by count of partitions would need.

    That is the smallest n for which assigning the partitions in turn (kd_n) keeps every consumer
    within the capacity. A partition faster than the capacity counts as fine once it is alone.
    """
    rates = np.fromiter(speeds.values(), float, len(speeds))
    if not len(rates):
        return 0
    turns = np.arange(len(rates))
    fewest = max(1, math.ceil(np.minimum(rates, capacity).sum() / capacity))
    for n in range(min(fewest, len(rates)), len(rates)):
        loads = np.bincount(turns % n, weights=rates, minlength=n)
        alone = np.bincount(turns % n, minlength=n) == 1
        if bool(np.all((loads <= capacity) | alone)):
            return n
    return len(rates)
