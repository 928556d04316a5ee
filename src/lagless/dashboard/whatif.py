"""What another algorithm, slack or capacity would give now, and what plain Kafka would need."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lagless import packing
from lagless.errors import LaglessError
from lagless.model import Assignment, Consumer, Speeds, TopicPartition

SLOW = frozenset({"exact"})
"""Algorithms that are no answer to a question asked on a page."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a packing would look like, or why there is none."""

    algorithm: str
    capacity: float
    assignment: Mapping[TopicPartition, Consumer]
    consumers: int = 0
    migrations: int = 0
    rscore: float = 0
    oversize: tuple[TopicPartition, ...] = ()
    trouble: str = ""


def algorithms() -> list[str]:
    """Name the algorithms that can be asked for."""
    return [
        name for name in packing.algorithms() if name not in SLOW and not name.startswith("kd_")
    ]


def takes_slack(algorithm: str) -> bool:
    """Say whether slack means anything to the algorithm."""
    return "slack" in packing.algorithm(algorithm)[0].parameters


def ask(speeds: Speeds, capacity: float, held: Assignment, algorithm: str, slack: float) -> Answer:
    """Pack what is written now, starting from what is held now; change nothing."""
    previous = {partition: held[partition] for partition in speeds if partition in held}
    try:
        parameters = {"slack": slack} if takes_slack(algorithm) else {}
        found = packing.packing(speeds, capacity, previous, algorithm, **parameters)
    except LaglessError as error:
        return Answer(algorithm, capacity, {}, trouble=str(error))
    return Answer(
        algorithm,
        capacity,
        found.assignment,
        found.consumers,
        found.migrations,
        found.rscore,
        found.oversize,
    )


def plain_kafka(speeds: Speeds, capacity: float) -> int:
    """Count the consumers that an assignment by number of partitions would need.

    That is the smallest n for which dealing the partitions out in turn (kd_n) gives nobody more
    than the capacity. A partition faster than the capacity is as good as it gets when it is alone.
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
