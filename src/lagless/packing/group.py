"""The consumer group that an iteration builds: which consumers are open, and how full.

Consumers are kept by slot, in the order of their numbers: slot i is consumer i + 1 for as many
slots as there are partitions, and the few previous consumers of higher numbers follow. So memory
stays O(n) whatever the numbers are.

A partition fits if load + s ≤ C in float64, the load summed from 0 in the order of placement.
What is faster than C makes a load above C, which nothing joins, not even speed 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagless.packing import bitmap, heap, loads, minima
from lagless.packing.compiled import kernel

FIRST, BEST, WORST = 0, 1, 2
LOWEST, SIZE = 0, 1  # places in Group.counts


class Group(NamedTuple):
    """The open consumers; only the structure of its rule has more than one element."""

    rule: int
    capacity: float
    smallest: float
    numbers: NDArray[np.int64]
    loads: NDArray[np.float64]
    used: NDArray[np.bool_]
    counts: NDArray[np.int64]
    tree: NDArray[np.float64]
    heap_loads: NDArray[np.float64]
    heap_slots: NDArray[np.int32]
    links: NDArray[np.int32]
    filled: NDArray[np.uint64]
    buckets: int


@kernel
def slots(previous: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the slot of each partition's previous consumer (-1: none) and each slot's number."""
    n = len(previous)
    high = np.unique(previous[previous > n])
    numbers = np.empty(n + len(high), np.int64)
    for i in range(n):
        numbers[i] = i + 1
    numbers[n:] = high
    found = np.empty(n, np.int64)
    for j in range(n):
        if previous[j] <= n:
            found[j] = previous[j] - 1
        else:
            found[j] = n + np.searchsorted(high, previous[j])
    return found, numbers


@kernel
def empty(
    rule: int, speeds: NDArray[np.float64], capacity: float, numbers: NDArray[np.int64]
) -> Group:
    """Return the group without consumers."""
    count = len(numbers)
    buckets = loads.buckets(count) if rule == BEST else 1
    links = np.full(2 * count + buckets if rule == BEST else 1, np.int32(-1), np.int32)
    heap_size = count if rule == WORST else 1
    return Group(
        rule,
        capacity,
        speeds.min() if len(speeds) else 0.0,
        numbers,
        np.zeros(count),
        np.zeros(count, np.bool_),
        np.zeros(2, np.int64),
        minima.empty(count if rule == FIRST else 1),
        np.empty(heap_size),
        np.empty(heap_size, np.int32),
        links,
        bitmap.empty(buckets),
        buckets,
    )


@kernel
def join(group: Group, speed: float) -> int:
    """Put a partition into the open consumer that the rule chooses; return its slot, or -1."""
    if group.rule == FIRST:
        slot = minima.find(group.tree, speed, group.capacity)
        if slot >= 0:
            group.loads[slot] += speed
            minima.put(group.tree, slot, group.loads[slot])
        return slot
    if group.rule == BEST:
        slot = loads.find(
            group.loads, group.links, group.filled, group.buckets, speed, group.capacity
        )
        if slot >= 0:
            loads.remove(
                group.loads, group.links, group.filled, group.buckets, slot, group.capacity
            )
            group.loads[slot] += speed
            _order(group, slot)
        return slot
    if group.counts[SIZE] == 0 or group.heap_loads[0] + speed > group.capacity:
        return -1
    slot = group.heap_slots[0]
    group.loads[slot] += speed
    heap.replace(group.heap_loads, group.heap_slots, group.counts[SIZE], group.loads[slot], slot)
    return slot


@kernel
def create(group: Group, slot: int, load: float) -> None:
    """Open a consumer that is unused with what it already has."""
    group.used[slot] = True
    group.loads[slot] = load
    if group.rule == FIRST:
        minima.put(group.tree, slot, load)
    elif group.rule == BEST:
        _order(group, slot)
    elif load <= group.capacity:
        heap.push(group.heap_loads, group.heap_slots, group.counts[SIZE], load, slot)
        group.counts[SIZE] += 1


@kernel
def _order(group: Group, slot: int) -> None:
    """Add a consumer to Best Fit's loads, unless not even the smallest partition fits there."""
    if group.loads[slot] + group.smallest <= group.capacity:
        loads.insert(group.loads, group.links, group.filled, group.buckets, slot, group.capacity)


@kernel
def unused(group: Group, previous: int) -> int:
    """Return h(j, k): the previous consumer's slot if it is unused, else the lowest unused."""
    if previous >= 0 and not group.used[previous]:
        return previous
    lowest = group.counts[LOWEST]
    while group.used[lowest]:
        lowest += 1
    group.counts[LOWEST] = lowest
    return lowest


@kernel
def place(group: Group, speed: float, previous: int) -> int:
    """Put a partition into an open consumer or, if it fits none, into a new one by h(j, k)."""
    slot = join(group, speed)
    if slot < 0:
        slot = unused(group, previous)
        create(group, slot, speed)
    return slot
