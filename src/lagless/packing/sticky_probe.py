"""The question that sticky asks again and again: does all that is free still pack?

What is kept stays; what is free is placed by Best Fit in the order given, decreasing speed. With
nothing kept this is Best Fit Decreasing, so the answer to BFD's own number of consumers is yes.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import group
from lagless.packing.compiled import kernel
from lagless.packing.order import increasing

Speeds: TypeAlias = NDArray[np.float64]
Loads: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

# Up to here moving entries of a sorted row is quicker than a tree.
ROW = 4096


@kernel
def consumers(speeds: Speeds, capacity: float, kept: Flags, loads: Loads, most: int) -> int:
    """Count the consumers that kept and free partitions need, or return most + 1 if more.

    `loads` are those of the kept partitions, by slot; a slot with nothing has -1.
    """
    if len(speeds) <= ROW:
        return in_row(speeds, capacity, kept, loads, most)
    return in_tree(speeds, capacity, kept, loads, most)


@kernel
def in_row(speeds: Speeds, capacity: float, kept: Flags, loads: Loads, most: int) -> int:
    """Count with the open consumers' loads in a sorted row."""
    row = np.empty(len(speeds))
    size, opened = 0, 0
    for load in loads:
        if load >= 0:
            opened += 1
            if load <= capacity:
                row[size] = load
                size += 1
    row[:size].sort()
    if opened > most:
        return most + 1
    for j in range(len(speeds)):
        if kept[j]:
            continue
        low, high = -1, size
        while high - low > 1:
            middle = (low + high) >> 1
            if row[middle] + speeds[j] <= capacity:
                low = middle
            else:
                high = middle
        if low >= 0:
            load = row[low] + speeds[j]
            while low + 1 < size and row[low + 1] < load:
                row[low] = row[low + 1]
                low += 1
            row[low] = load
            continue
        opened += 1
        if opened > most:
            return opened
        if speeds[j] <= capacity:
            place = size
            while place > 0 and row[place - 1] > speeds[j]:
                row[place] = row[place - 1]
                place -= 1
            row[place] = speeds[j]
            size += 1
    return opened


@kernel
def in_tree(speeds: Speeds, capacity: float, kept: Flags, loads: Loads, most: int) -> int:
    """Count with the open consumers' loads in Best Fit's tree.

    Which of equally loaded consumers it is does not change the count, so any slots will do.
    """
    held, links, counts = group.empty(group.BEST, len(speeds))
    full = loads[loads >= 0]
    opened = len(full)
    if opened > most:
        return most + 1
    # By increasing load each one comes beside the last in memory.
    for i in increasing(full.view(np.uint64).copy()):
        group.create(group.BEST, held, links, counts, capacity, i, full[i])
    for j in range(len(speeds)):
        if kept[j]:
            continue
        slot = group.join(group.BEST, held, links, counts, capacity, speeds[j])
        if slot < 0:
            opened += 1
            if opened > most:
                return opened
            group.create(group.BEST, held, links, counts, capacity, opened - 1, speeds[j])
    return opened
