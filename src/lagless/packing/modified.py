"""Modified Any Fit: the paper's Algorithm 1, with Best or Worst Fit and two orders of consumers.

1. The previous consumers are taken by decreasing key, equals by lower number. The key is their
   cumulative speed (MWF, MBF) or the speed of their fastest partition (MWFP, MBFP).
2. A consumer's partitions are tried in the consumers that are already created, slowest first, up
   to the first that fits in none.
3. If any are left the consumer is created again and takes them, fastest first, up to the first
   that does not fit. The first one is always accepted.
4. Leftovers and partitions without a previous consumer are placed at the end, fastest first.

`plain.modified` has the same steps beside the lines of the paper.
"""

import numpy as np

from lagless.packing import kernels
from lagless.packing.inputs import Consumers, Speeds
from lagless.packing.kernels import kernel, packer


@kernel
def queue(
    speeds: Speeds, before: kernels.Slots, count: int, largest: bool
) -> tuple[kernels.Slots, kernels.Slots]:
    """Return the slots of the previous consumers by decreasing key, and where their runs begin.

    The key is the largest or the cumulative speed, summed in the list's order.
    """
    keys, sizes = kernels.large(np.empty(count)), kernels.large(np.empty(count, np.int32))
    keys[:], sizes[:] = 0.0, 0
    for j in range(len(speeds)):
        slot = before[j]
        if slot >= 0:
            keys[slot] = max(keys[slot], speeds[j]) if largest else keys[slot] + speeds[j]
            sizes[slot] += 1
    present = kernels.large(np.empty(count, np.int32))
    known = 0
    for slot in range(count):
        if sizes[slot] > 0:
            present[known] = slot
            keys[known] = keys[slot]
            known += 1
    slots = present[kernels.ranked(keys[:known])[0]]
    starts = np.zeros(known + 1, np.int32)
    for turn in range(known):
        starts[turn + 1] = starts[turn] + sizes[slots[turn]]
    return slots, starts


@kernel
def modified(
    speeds: Speeds, capacity: float, previous: Consumers, rule: int, largest: bool
) -> Consumers:
    """Pack by Algorithm 1, in O(n log n)."""
    before, high = kernels.slots(previous)
    count = len(speeds) + len(high)
    slots, starts = queue(speeds, before, count, largest)
    order, rates = kernels.ranked(speeds)
    # Partitions by their consumer's turn, decreasing within it, and those without a consumer last,
    # so that the loop below reads memory in order.
    ends = kernels.large(np.empty(count, np.int32))
    ends[:] = starts[-1]
    for turn in range(len(slots)):
        ends[slots[turn]] = starts[turn]
    arrivals = starts[-1]
    members = kernels.large(np.empty(len(speeds), np.int32))
    queued = kernels.large(np.empty(len(speeds)))
    for rank in range(len(speeds)):
        slot = before[order[rank]]
        if slot >= 0:
            at = ends[slot]
            ends[slot] += 1
        else:
            at = arrivals
            arrivals += 1
        members[at], queued[at] = rank, rates[rank]
    placed = kernels.large(np.empty(len(speeds), np.int32))
    placed[:] = -1
    held, links, counts = kernels.empty(rule, count)
    used, lowest = np.zeros(count, np.bool_), np.zeros(1, np.int64)
    for turn in range(len(slots)):
        start, end = starts[turn], starts[turn + 1]
        while end > start:
            slot = kernels.join(rule, held, links, counts, capacity, queued[end - 1])
            if slot < 0:
                break
            end -= 1
            placed[end] = slot
        if end == start:
            continue
        load = 0.0
        for at in range(start, end):
            if at > start and load + queued[at] > capacity:
                break
            load += queued[at]
            placed[at] = slots[turn]
        used[slots[turn]] = True
        kernels.create(rule, held, links, counts, capacity, slots[turn], load)
    by_rank = kernels.scattered(placed, members)
    for rank in range(len(speeds)):
        if by_rank[rank] < 0:
            slot = kernels.join(rule, held, links, counts, capacity, rates[rank])
            if slot < 0:
                slot = kernels.unused(used, lowest, before[order[rank]])
                kernels.create(rule, held, links, counts, capacity, slot, rates[rank])
            by_rank[rank] = slot
    return kernels.numbers(kernels.scattered(by_rank, order), high)


mwf = packer(modified, kernels.WORST, False)
mbf = packer(modified, kernels.BEST, False)
mwfp = packer(modified, kernels.WORST, True)
mbfp = packer(modified, kernels.BEST, True)
