"""What a user has today: KEDA's Kafka scaler and Kafka's own assignors, in the latency model.

docs/evaluation.md says what is modelled, what is not, and what that does to the results. A group
that shrinks loses its highest numbers first.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput
from lagless.lab.model import latency
from lagless.lab.model.streams import Floats, Numbers

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
            if not 0 < value < math.inf:
                raise WrongInput(f"KEDA's {name} is a number of seconds above 0, not {value:g}")
        if not 0 <= self.cooldown < math.inf:
            raise WrongInput(
                f"KEDA's cooldown is a number of seconds, 0 or more, not {self.cooldown:g}"
            )


@dataclass(frozen=True, slots=True)
class Run:
    """What the group's bytes waited, and how often it was rebalanced."""

    latency: latency.Latency
    rebalances: int


def replicas(lag: float, threshold: float, current: int, partitions: int) -> int:
    """Return how many consumers KEDA asks for, from bytes of lag and bytes per consumer."""
    if abs(lag / (threshold * current) - 1) <= TOLERANCE:
        return current
    return min(max(math.ceil(lag / threshold), 1), partitions)


@dataclass(frozen=True, slots=True)
class StepUp:
    """The most that the autoscaler adds at one look: the larger of a share and a number."""

    share: float
    number: int

    def most(self, size: int) -> int:
        """Return the largest size that may follow."""
        return max(math.floor(size * (1 + self.share)), size + self.number)


STEP_UP = StepUp(1.0, 4)
"""Kubernetes' default: every 15 s, twice as many or four more."""


@dataclass(slots=True)
class Scaler:
    """KEDA and the autoscaler behind it: from lag to a number of consumers."""

    size: int
    threshold: float
    """Lag per consumer, in the lag's unit."""
    partitions: int
    cooldown: float
    step_up: StepUp | None = None
    """None adds all that is asked for at once."""
    _asked: list[tuple[float, int]] = field(default_factory=list)

    def look(self, now: float, lag: float) -> int:
        """Return the size that the group should have: up at once, down after the cooldown."""
        wanted = replicas(lag, self.threshold, self.size, self.partitions)
        if self.step_up is not None:
            wanted = min(wanted, self.step_up.most(self.size))
        self._asked = [(at, n) for at, n in self._asked if at > now - self.cooldown]
        # Nobody knows what was asked for before the first look: the size stands for it.
        if not self._asked and now < self.cooldown:
            self._asked.append((0.0, self.size))
        self._asked.append((now, wanted))
        self.size = max(wanted, min(self.size, max(n for _, n in self._asked)))
        return self.size


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
    current = range_assignment(n, 1)
    ended = np.zeros(1)
    scaler = Scaler(1, keda.threshold * model.max_rate, n, keda.cooldown)
    sizes, iterations, lag = [1], [], 0.0
    for k in range(1, len(speeds)):
        now = k * model.iteration
        rebalanced: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        polls = math.floor(now / keda.polling) > math.floor((now - model.iteration) / keda.polling)
        if polls and scaler.look(now, lag) != sizes[-1]:
            if keda.assignor == "range":
                current = range_assignment(n, scaler.size)
                rebalanced[:] = True
            else:
                previous, current = current, sticky_assignment(current, scaler.size)
                rebalanced = current != previous
        iterations.append(latency.iterate(model, speeds[k], current, rebalanced, ended))
        ended = iterations[-1].ended
        lag = float(iterations[-1].backlog[np.unique(current)].sum())
        sizes.append(scaler.size)
    rebalances = sum(before != after for before, after in itertools.pairwise(sizes))
    return Run(latency.summary(model, speeds, sizes, iterations), rebalances)
