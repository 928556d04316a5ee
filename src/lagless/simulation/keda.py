"""What a user has today: KEDA's Kafka scaler and Kafka's own assignors, in the latency model.

1. KEDA polls the group's total lag and asks for lag / threshold consumers, rounded up, at least
   one and at most one per partition; within the autoscaler's tolerance of 10 % nothing changes.
2. More consumers start at once. Fewer: only down to the most that was asked for within the
   cooldown (the autoscaler's stabilization window, 300 s), the highest numbers first.
3. Each change of size is a rebalance. With cooperative-sticky only partitions that move are
   stopped for its duration; with range, an eager assignor, all partitions are.
4. The threshold is given in seconds: so many seconds of one consumer's reading at C̄.

Not modelled: the start-up time of a consumer, the autoscaler's limits on the pace of growth,
scaling to zero, lag in records instead of bytes, and rebalances that fail or time out. Like every
assignment in the paper's model, partitions that move leave their backlog behind, which is in
KEDA's favour.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput
from lagless.simulation import latency
from lagless.simulation.distribution import Floats
from lagless.simulation.latency import Numbers

TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Keda:
    """A scaler: its threshold, polling interval and cooldown in seconds, and Kafka's assignor."""

    assignor: Literal["cooperative", "range"]
    threshold: float = 10.0
    polling: float = 30.0
    cooldown: float = 300.0

    def __post_init__(self) -> None:
        for name, value in (("threshold", self.threshold), ("polling", self.polling)):
            if not (math.isfinite(value) and value > 0):
                raise WrongInput(f"KEDA's {name} is a number of seconds above 0, not {value:g}")
        if not (math.isfinite(self.cooldown) and self.cooldown >= 0):
            raise WrongInput(
                f"KEDA's cooldown is a number of seconds, 0 or more, not {self.cooldown:g}"
            )


@dataclass(frozen=True, slots=True)
class Run:
    """What the group's bytes waited, and how often it was rebalanced."""

    latency: latency.Latency
    rebalances: int


def replicas(lag: float, threshold: float, current: int, partitions: int) -> int:
    """Give the number of consumers that KEDA asks for, from bytes of lag and bytes per consumer."""
    if abs(lag / (threshold * current) - 1) <= TOLERANCE:
        return current
    return min(max(math.ceil(lag / threshold), 1), partitions)


def range_assignment(partitions: int, consumers: int) -> Numbers:
    """Split the list into runs of equal length, the first ones longer by one where needed."""
    sizes = np.full(consumers, partitions // consumers)
    sizes[: partitions % consumers] += 1
    return np.repeat(np.arange(1, consumers + 1), sizes)


def sticky_assignment(previous: Numbers, consumers: int) -> Numbers:
    """Level the counts to within one and move as few partitions as that takes.

    Consumers with more partitions keep the larger shares; what is taken from a consumer is its
    last partitions in the list, and it goes to the lowest numbers that have room.
    """
    least, extra = divmod(len(previous), consumers)
    counts = np.bincount(previous, minlength=consumers + 1)[1 : consumers + 1]
    room = np.full(consumers, least)
    room[np.argsort(-counts, kind="stable")[:extra]] += 1
    current = np.zeros_like(previous)
    for j, number in enumerate(previous):
        if 1 <= number <= consumers and room[number - 1] > 0:
            current[j] = number
            room[number - 1] -= 1
    current[current == 0] = np.repeat(np.arange(1, consumers + 1), room)
    return current


def run(keda: Keda, model: latency.Model, speeds: Floats) -> Run:
    """Follow a stream under KEDA; a group starts with one consumer."""
    n = speeds.shape[1]
    size = 1
    current = range_assignment(n, 1)
    ended = np.zeros(1)
    asked: list[tuple[float, int]] = []
    sizes, iterations, lag, rebalances = [size], [], 0.0, 0
    for k in range(1, len(speeds)):
        now = k * model.iteration
        rebalanced: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        if math.floor(now / keda.polling) > math.floor((now - model.iteration) / keda.polling):
            wanted = replicas(lag, keda.threshold * model.max_rate, size, n)
            asked = [(at, many) for at, many in asked if at > now - keda.cooldown] + [(now, wanted)]
            target = max(wanted, min(size, max(many for _, many in asked)))
            if target != size:
                previous, size = current, target
                rebalances += 1
                if keda.assignor == "range":
                    current = range_assignment(n, size)
                    rebalanced[:] = True
                else:
                    current = sticky_assignment(previous, size)
                    rebalanced = current != previous
        iterations.append(latency.iterate(model, speeds[k], current, rebalanced, ended))
        ended = iterations[-1].ended
        lag = float(iterations[-1].backlog[np.unique(current)].sum())
        sizes.append(size)
    return Run(latency.summary(model, speeds, sizes, iterations), rebalances)
