"""Best Fit's open consumers: the set of their loads, in order.

Loads lie in buckets of equal width, of which a bitmap knows the filled ones; within a bucket they
are a treap, ordered by load and then by falling slot, so that the last one that fits is the
fullest, and the lowest of equals. Even if all loads fall into one bucket a step is O(log B).
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import bitmap
from lagless.packing.compiled import kernel

Links: TypeAlias = NDArray[np.int32]
"""The left and right child of slot i at 2i and 2i+1, then each bucket's root; -1 is nothing."""


@kernel
def buckets(slots: int) -> int:
    """Give the number of buckets, a power of 64, for that many slots."""
    count = 64
    while 4 * count < slots and count < 64**3:
        count *= 64
    return count


@kernel
def bucket(load: float, capacity: float, count: int) -> int:
    """Return the bucket of a load; it never falls when the load grows."""
    return min(count - 1, int(load / capacity * count))


@kernel
def priority(slot: int) -> np.uint64:
    """Scatter slots over 64 bits (the mixer of SplitMix64): chance for the treap, yet the same."""
    mixed = np.uint64(slot) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def before(loads: NDArray[np.float64], one: int, other: int) -> bool:
    """Tell whether one slot comes before the other."""
    return loads[one] < loads[other] or (loads[one] == loads[other] and one > other)


@kernel
def find(
    loads: NDArray[np.float64],
    links: Links,
    filled: bitmap.Words,
    count: int,
    speed: float,
    capacity: float,
) -> int:
    """Return the slot of the highest load where load + speed ≤ capacity, or -1."""
    # Rounding can let a load fit that lies a hair above C − s, never a whole bucket above.
    at = min(count - 1, bucket(capacity - speed, capacity, count) + 1)
    while True:
        at = bitmap.up_to(filled, count, at)
        if at < 0:
            return -1
        found = -1
        slot = links[len(links) - count + at]
        while slot >= 0:
            if loads[slot] + speed <= capacity:
                found = slot
                slot = links[2 * slot + 1]
            else:
                slot = links[2 * slot]
        if found >= 0:
            return found
        if at == 0:
            return -1
        at -= 1


@kernel
def insert(
    loads: NDArray[np.float64],
    links: Links,
    filled: bitmap.Words,
    count: int,
    slot: int,
    capacity: float,
) -> None:
    """Add a slot with its load."""
    at = bucket(loads[slot], capacity, count)
    link = len(links) - count + at
    if links[link] < 0:
        bitmap.add(filled, count, at)
    mine = priority(slot)
    while links[link] >= 0 and priority(links[link]) >= mine:
        above = links[link]
        link = 2 * above + (1 if before(loads, above, slot) else 0)
    rest = links[link]
    links[link] = slot
    low, high = 2 * slot, 2 * slot + 1
    while rest >= 0:
        if before(loads, rest, slot):
            links[low] = rest
            low = 2 * rest + 1
            rest = links[low]
        else:
            links[high] = rest
            high = 2 * rest
            rest = links[high]
    links[low] = -1
    links[high] = -1


@kernel
def remove(
    loads: NDArray[np.float64],
    links: Links,
    filled: bitmap.Words,
    count: int,
    slot: int,
    capacity: float,
) -> None:
    """Take a slot out, by the load with which it was inserted."""
    at = bucket(loads[slot], capacity, count)
    root = link = len(links) - count + at
    while links[link] != slot:
        above = links[link]
        link = 2 * above + (1 if before(loads, above, slot) else 0)
    low, high = links[2 * slot], links[2 * slot + 1]
    while low >= 0 and high >= 0:
        if priority(low) >= priority(high):
            links[link] = low
            link = 2 * low + 1
            low = links[link]
        else:
            links[link] = high
            link = 2 * high
            high = links[link]
    links[link] = max(low, high)
    if links[root] < 0:
        bitmap.discard(filled, count, at)
