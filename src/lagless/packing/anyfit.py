"""Next, First, Best and Worst Fit, each on the list as it comes and on the list sorted.

Paper, sections "Approximation Algorithms" and "Approximation Algorithms Adaptation": a partition
that fits no open consumer reopens its previous one if that is unused, else the lowest unused.
"""

import numpy as np
from numpy.typing import NDArray

from lagless.packing import group
from lagless.packing.compiled import kernel

Speeds = NDArray[np.float64]
Consumers = NDArray[np.int64]


@kernel
def decreasing(speeds: Speeds) -> NDArray[np.int64]:
    """Return the order of decreasing speed, equals in the order given."""
    return np.argsort(-speeds, kind="mergesort")


@kernel
def fit(
    speeds: Speeds, capacity: float, previous: Consumers, order: NDArray[np.int64], rule: int
) -> Consumers:
    """Place the partitions in an order by First, Best or Worst Fit, in O(n log n)."""
    before, numbers = group.slots(previous)
    consumers = group.empty(rule, speeds, capacity, numbers)
    current = np.empty(len(speeds), np.int64)
    for j in order:
        current[j] = numbers[group.place(consumers, speeds[j], before[j])]
    return current


@kernel
def next_fit(
    speeds: Speeds, capacity: float, previous: Consumers, order: NDArray[np.int64]
) -> Consumers:
    """Place the partitions in an order by Next Fit: only the consumer created last is open."""
    before, numbers = group.slots(previous)
    used = np.zeros(len(numbers), np.bool_)
    current = np.empty(len(speeds), np.int64)
    last, lowest, load = -1, 0, 0.0
    for j in order:
        if last >= 0 and load + speeds[j] <= capacity:
            load += speeds[j]
        else:
            last = before[j]
            if last < 0 or used[last]:
                while used[lowest]:
                    lowest += 1
                last = lowest
            used[last] = True
            load = 0.0 + speeds[j]
        current[j] = numbers[last]
    return current


@kernel
def nf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Next Fit."""
    return next_fit(speeds, capacity, previous, np.arange(len(speeds)))


@kernel
def nfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Next Fit Decreasing."""
    return next_fit(speeds, capacity, previous, decreasing(speeds))


@kernel
def ff(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit."""
    return fit(speeds, capacity, previous, np.arange(len(speeds)), group.FIRST)


@kernel
def ffd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit Decreasing."""
    return fit(speeds, capacity, previous, decreasing(speeds), group.FIRST)


@kernel
def bf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Best Fit."""
    return fit(speeds, capacity, previous, np.arange(len(speeds)), group.BEST)


@kernel
def bfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Best Fit Decreasing."""
    return fit(speeds, capacity, previous, decreasing(speeds), group.BEST)


@kernel
def wf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Worst Fit."""
    return fit(speeds, capacity, previous, np.arange(len(speeds)), group.WORST)


@kernel
def wfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Worst Fit Decreasing."""
    return fit(speeds, capacity, previous, decreasing(speeds), group.WORST)
