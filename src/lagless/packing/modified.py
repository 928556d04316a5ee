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
from lagless.packing.anyfit import Consumers, Speeds, scattered
from lagless.packing.compiled import kernel
from lagless.packing.order import decreasing


@kernel
def grouped(before: group.Slots, count: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the order by previous slot, and where each slot begins; those without one are last."""
    starts = np.zeros(count + 2, np.int64)
    for slot in before:
        starts[(slot if slot >= 0 else count) + 1] += 1
    for slot in range(count + 1):
        starts[slot + 1] += starts[slot]
    ends = starts.copy()
    order = np.empty(len(before), np.int32)
    for j in range(len(before)):
        slot = before[j] if before[j] >= 0 else count
        order[ends[slot]] = j
        ends[slot] += 1
    return order, starts


@kernel
def keys(speeds: Speeds, before: group.Slots, count: int, largest: bool) -> NDArray[np.float64]:
    """Return each previous slot's largest or cumulative speed, summed in the list's order."""
    found = np.zeros(count)
    for j in range(len(speeds)):
        slot = before[j]
        if slot >= 0:
            found[slot] = max(found[slot], speeds[j]) if largest else found[slot] + speeds[j]
    return found


@kernel
def modified(
    speeds: Speeds, capacity: float, previous: Consumers, rule: int, largest: bool
) -> Consumers:
    """Pack by Algorithm 1, in O(n log n)."""
    before, high = group.slots(previous)
    count = len(speeds) + len(high)
    ranks = decreasing(speeds)
    members, starts = grouped(before[ranks], count)
    rates = speeds[ranks][members]  # by previous consumer, decreasing
    placed = np.full(len(speeds), -1, np.int32)
    held, links, counts = group.empty(rule, count)
    used, lowest = np.zeros(count, np.bool_), np.zeros(1, np.int64)
    for slot in decreasing(keys(speeds, before, count, largest)):
        start, end = starts[slot], starts[slot + 1]
        while end > start:
            found = group.join(rule, held, links, counts, capacity, rates[end - 1])
            if found < 0:
                break
            end -= 1
            placed[end] = found
        if end == start:
            continue
        load = 0.0
        for at in range(start, end):
            if at > start and load + rates[at] > capacity:
                break
            load += rates[at]
            placed[at] = slot
        used[slot] = True
        group.create(rule, held, links, counts, capacity, slot, load)
    by_rank = scattered(placed, members)
    for rank in range(len(speeds)):
        if by_rank[rank] < 0:
            speed = speeds[ranks[rank]]
            slot = group.join(rule, held, links, counts, capacity, speed)
            if slot < 0:
                slot = group.unused(used, lowest, before[ranks[rank]])
                group.create(rule, held, links, counts, capacity, slot, speed)
            by_rank[rank] = slot
    return group.numbers(scattered(by_rank, ranks), high)


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
