"""Modified Any Fit: the paper's Algorithm 1, with Best or Worst Fit and two orders of consumers.

1. The previous consumers are taken by decreasing key, equals by lower number; the key is their
   cumulative speed (MWF, MBF) or their fastest partition (MWFP, MBFP).
2. A consumer's partitions are tried from the slowest in the consumers that are already created,
   up to the first that fits in none.
3. If any are left the consumer is created again; the rest go into it from the fastest, up to the
   first that does not fit. The first one is always accepted.
4. What is left over and what has no previous consumer is placed at the end, fastest first.
"""

import numpy as np
from numpy.typing import NDArray

from lagless.packing import group
from lagless.packing.anyfit import Consumers, Speeds, decreasing
from lagless.packing.compiled import kernel


@kernel
def grouped(
    order: NDArray[np.int64], before: NDArray[np.int64], slots: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the partitions by previous consumer, keeping the order, and where each one begins."""
    starts = np.zeros(slots + 1, np.int64)
    for j in range(len(before)):
        if before[j] >= 0:
            starts[before[j] + 1] += 1
    for slot in range(slots):
        starts[slot + 1] += starts[slot]
    members = np.empty(starts[slots], np.int64)
    ends = starts[:-1].copy()
    for j in order:
        if before[j] >= 0:
            members[ends[before[j]]] = j
            ends[before[j]] += 1
    return members, starts


@kernel
def keys(
    speeds: Speeds, before: NDArray[np.int64], slots: int, largest: bool
) -> NDArray[np.float64]:
    """Return each previous consumer's largest or cumulative speed, summed in the list's order."""
    found = np.zeros(slots)
    for j in range(len(speeds)):
        if before[j] >= 0:
            if largest:
                found[before[j]] = max(found[before[j]], speeds[j])
            else:
                found[before[j]] += speeds[j]
    return found


@kernel
def modified(
    speeds: Speeds, capacity: float, previous: Consumers, rule: int, largest: bool
) -> Consumers:
    """Pack by Algorithm 1, in O(n log n)."""
    before, numbers = group.slots(previous)
    slots = len(numbers)
    order = decreasing(speeds)
    members, starts = grouped(order, before, slots)
    consumers = group.empty(rule, speeds, capacity, numbers)
    placed = np.full(len(speeds), -1, np.int64)
    for slot in decreasing(keys(speeds, before, slots, largest)):
        start, end = starts[slot], starts[slot + 1]
        while end > start:
            found = group.join(consumers, speeds[members[end - 1]])
            if found < 0:
                break
            end -= 1
            placed[members[end]] = found
        if end == start:
            continue
        load = 0.0
        for at in range(start, end):
            j = members[at]
            if at > start and load + speeds[j] > capacity:
                break
            load += speeds[j]
            placed[j] = slot
        group.create(consumers, slot, load)
    for j in order:
        if placed[j] < 0:
            placed[j] = group.place(consumers, speeds[j], before[j])
    return numbers[placed]


@kernel
def mwf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Worst Fit."""
    return modified(speeds, capacity, previous, group.WORST, False)


@kernel
def mbf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Best Fit."""
    return modified(speeds, capacity, previous, group.BEST, False)


@kernel
def mwfp(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Worst Fit Partition."""
    return modified(speeds, capacity, previous, group.WORST, True)


@kernel
def mbfp(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Best Fit Partition."""
    return modified(speeds, capacity, previous, group.BEST, True)
