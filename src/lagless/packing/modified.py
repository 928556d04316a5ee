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

from lagless.packing import group, pages
from lagless.packing.anyfit import Consumers, Speeds, scattered
from lagless.packing.compiled import kernel, shorthand
from lagless.packing.order import decreasing, ranked


@kernel
def queue(
    speeds: Speeds, before: group.Slots, count: int, largest: bool
) -> tuple[group.Slots, group.Slots]:
    """Return the slots of the previous consumers by decreasing key, and where each one begins.

    The key is the largest or the cumulative speed, summed in the list's order.
    """
    keys, sizes = pages.large(np.empty(count)), pages.large(np.empty(count, np.int32))
    keys[:], sizes[:] = 0.0, 0
    for j in range(len(speeds)):
        slot = before[j]
        if slot >= 0:
            keys[slot] = max(keys[slot], speeds[j]) if largest else keys[slot] + speeds[j]
            sizes[slot] += 1
    there = pages.large(np.empty(count, np.int32))
    known = 0
    for slot in range(count):
        if sizes[slot] > 0:
            there[known] = slot
            keys[known] = keys[slot]
            known += 1
    slots = there[decreasing(keys[:known])]
    starts = np.zeros(known + 1, np.int32)
    for turn in range(known):
        starts[turn + 1] = starts[turn] + sizes[slots[turn]]
    return slots, starts


@kernel
def modified(
    speeds: Speeds, capacity: float, previous: Consumers, rule: int, largest: bool
) -> Consumers:
    """Pack by Algorithm 1, in O(n log n)."""
    before, high = group.slots(previous)
    count = len(speeds) + len(high)
    slots, starts = queue(speeds, before, count, largest)
    order, rates = ranked(speeds)
    # Partitions by their consumer's turn, decreasing within it; those without one come last. So
    # the loop below runs along the memory.
    ends = pages.large(np.empty(count, np.int32))
    ends[:] = starts[-1]
    for turn in range(len(slots)):
        ends[slots[turn]] = starts[turn]
    arrivals = starts[-1]
    members = pages.large(np.empty(len(speeds), np.int32))
    queued = pages.large(np.empty(len(speeds)))
    for rank in range(len(speeds)):
        slot = before[order[rank]]
        if slot >= 0:
            at = ends[slot]
            ends[slot] += 1
        else:
            at = arrivals
            arrivals += 1
        members[at], queued[at] = rank, rates[rank]
    placed = pages.large(np.empty(len(speeds), np.int32))
    placed[:] = -1
    held, links, counts = group.empty(rule, count)
    used, lowest = np.zeros(count, np.bool_), np.zeros(1, np.int64)
    for turn in range(len(slots)):
        start, end = starts[turn], starts[turn + 1]
        while end > start:
            found = group.join(rule, held, links, counts, capacity, queued[end - 1])
            if found < 0:
                break
            end -= 1
            placed[end] = found
        if end == start:
            continue
        load = 0.0
        for at in range(start, end):
            if at > start and load + queued[at] > capacity:
                break
            load += queued[at]
            placed[at] = slots[turn]
        used[slots[turn]] = True
        group.create(rule, held, links, counts, capacity, slots[turn], load)
    by_rank = scattered(placed, members)
    for rank in range(len(speeds)):
        if by_rank[rank] < 0:
            slot = group.join(rule, held, links, counts, capacity, rates[rank])
            if slot < 0:
                slot = group.unused(used, lowest, before[order[rank]])
                group.create(rule, held, links, counts, capacity, slot, rates[rank])
            by_rank[rank] = slot
    return group.numbers(scattered(by_rank, order), high)


@shorthand
def mwf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Worst Fit."""
    return modified(speeds, capacity, previous, group.WORST, False)


@shorthand
def mbf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Best Fit."""
    return modified(speeds, capacity, previous, group.BEST, False)


@shorthand
def mwfp(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Worst Fit Partition."""
    return modified(speeds, capacity, previous, group.WORST, True)


@shorthand
def mbfp(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Modified Best Fit Partition."""
    return modified(speeds, capacity, previous, group.BEST, True)
