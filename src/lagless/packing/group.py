"""The consumer group that an iteration builds: which consumers are open, and how full.

Consumers are kept by slot, in the order of their numbers: slot i is consumer i + 1 for as many
slots as there are partitions, and the few previous consumers of higher numbers follow. So memory
stays O(n) whatever the numbers are.

A partition fits if load + s ≤ C in float64, the load summed from 0 in the order of placement.
What is faster than C makes a load above C, which nothing joins, not even speed 0.

The open consumers of a rule are three arrays, which `minima`, `loads` and `heap` read each in
their own way; Next Fit has the load and the slot of the one that is open. They are handed on one
by one, since numba counts references to those in a tuple.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import heap, loads, minima, pages
from lagless.packing.compiled import kernel
from lagless.packing.order import increasing

FIRST, BEST, WORST, NEXT = 0, 1, 2, 3

Loads: TypeAlias = NDArray[np.float64]
Links: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]
Slots: TypeAlias = NDArray[np.int32]


@kernel
def slots(previous: NDArray[np.int64]) -> tuple[Slots, NDArray[np.int64]]:
    """Return the slot of each partition's previous consumer (-1: none) and the high numbers."""
    n = len(previous)
    found = pages.large(np.empty(n, np.int32))
    beyond = 0
    for j in range(n):
        if previous[j] <= n:
            found[j] = previous[j] - 1
        else:
            beyond += 1
    if beyond == 0:
        return found, np.empty(0, np.int64)
    where, keys = np.empty(beyond, np.int32), np.empty(beyond, np.uint64)
    at = 0
    for j in range(n):
        if previous[j] > n:
            where[at], keys[at] = j, np.uint64(previous[j])
            at += 1
    high = np.empty(beyond, np.int64)
    distinct = 0
    for i in increasing(keys):
        number = previous[where[i]]
        if distinct == 0 or high[distinct - 1] != number:
            high[distinct] = number
            distinct += 1
        found[where[i]] = n + distinct - 1
    return found, high[:distinct]


@kernel
def numbers(placed: Slots, high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the consumers in slots."""
    n = len(placed)
    found = pages.large(np.empty(n, np.int64))
    for j in range(n):
        found[j] = placed[j] + 1 if placed[j] < n else high[placed[j] - n]
    return found


@kernel
def empty(rule: int, count: int) -> tuple[Loads, Links, Counts]:
    """Return the open consumers of a group that has none yet."""
    if rule == FIRST:
        return minima.empty(count), np.empty(0, np.int32), np.empty(0, np.int64)
    if rule == BEST:
        return loads.empty(count)
    if rule == NEXT:
        return np.full(1, np.inf), np.empty(1, np.int32), np.empty(0, np.int64)
    loads_of, slots_of = pages.lined_up(count, 1), pages.large(np.empty(count, np.int32))
    return loads_of, slots_of, np.zeros(1, np.int64)


@kernel
def create(
    rule: int,
    held: Loads,
    links: Links,
    counts: Counts,
    capacity: float,
    slot: int,
    load: float,
) -> None:
    """Open the consumer of a slot with what it already has."""
    if rule == FIRST:
        minima.put(held, slot, load)
    elif rule == NEXT:
        held[0], links[0] = load, slot
    elif load > capacity:
        return
    elif rule == BEST:
        loads.insert(held, links, counts, slot, load)
    else:
        heap.push(held, links, counts[0], load, slot)
        counts[0] += 1


@kernel
def join(
    rule: int, held: Loads, links: Links, counts: Counts, capacity: float, speed: float
) -> int:
    """Put a partition into the open consumer that the rule chooses; return its slot, or -1."""
    if rule == FIRST:
        slot = minima.find(held, speed, capacity)
        if slot >= 0:
            minima.put(held, slot, minima.load(held, slot) + speed)
        return slot
    if rule == BEST:
        slot = loads.find(held, links, counts, speed, capacity)
        if slot >= 0:
            load = loads.take(held, links, counts) + speed
            loads.insert(held, links, counts, slot, load)
        return slot
    if rule == NEXT:
        if held[0] + speed > capacity:
            return -1
        held[0] += speed
        return int(links[0])
    if counts[0] == 0 or held[0] + speed > capacity:
        return -1
    slot = int(links[0])
    heap.replace(held, links, counts[0], held[0] + speed, slot)
    return slot


@kernel
def unused(used: NDArray[np.bool_], lowest: NDArray[np.int64], previous: int) -> int:
    """Return h(j, k), and mark it used: the previous slot if it is unused, else the lowest unused.

    No slot below lowest[0] is unused, so that all searches together are O(n).
    """
    slot = previous
    if slot < 0 or used[slot]:
        while used[lowest[0]]:
            lowest[0] += 1
        slot = lowest[0]
    used[slot] = True
    return slot
