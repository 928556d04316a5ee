"""The value to report so that a HorizontalPodAutoscaler arrives at the wanted number. No I/O.

With c pods, a value v and a target of 1 per pod, the autoscaler changes nothing if v/c is within
10 % of 1, and asks for ⌈v⌉ pods otherwise. So from ten pods on it would ignore one that is missing.
Too few members fall behind, too many only cost: a value that should add members is therefore raised
until it counts, and one that should take some away is reported as it is.
"""

import math
from dataclasses import dataclass

TOLERANCE = 0.1
"""The autoscaler's default. Where it is set to 0, every change is heard as it is."""
MARGIN = 0.001
"""KEDA hands values on in thousandths."""


@dataclass(frozen=True, slots=True)
class Demand:
    """How many members should run."""

    wanted: int
    present: int
    """How many there are; 0 if Kafka knows of none."""
    active: bool
    """False if the last one may go too."""


def value(demand: Demand, tolerance: float = TOLERANCE) -> float:
    """Return the value to report for a target of 1 per pod.

    At most a tenth more pods than wanted, rounded up, are asked for in this way.
    """
    if not demand.active:
        return 0.0
    wanted, present = demand.wanted, demand.present
    heard = present * (1 + tolerance) + MARGIN
    if present < wanted <= heard:
        return math.ceil(heard / MARGIN) * MARGIN
    return float(wanted)
