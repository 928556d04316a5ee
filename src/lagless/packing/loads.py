"""Best Fit's open consumers: the set of their loads, in order.

Loads lie in buckets of equal width, of which a bitmap knows the filled ones; within a bucket they
are a treap, ordered by load and then by falling slot, so that the last one that fits is the
fullest, and the lowest of equals. Even if all loads fall into one bucket a step is O(log B).

A slot's load and children lie side by side, for one cache line each: the load of slot i is
loads[2i], its children are links[4i + 2] and links[4i + 3], where links are the same memory seen
as int32. The buckets' roots come last. -1 is nothing.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import bitmap
from lagless.packing.compiled import kernel

Loads: TypeAlias = NDArray[np.float64]
Links: TypeAlias = NDArray[np.int32]


@kernel
def buckets(words: bitmap.Words) -> int:
    """Give the number of buckets of a bitmap, a power of 64."""
    return 63 * len(words) + 1


@kernel
def empty(slots: int) -> tuple[Loads, Links, bitmap.Words]:
    """Return the empty set for that many slots."""
    count = 64
    while 4 * count < slots and count < 64**3:
        count *= 64
    loads = np.empty(2 * slots + count // 2)
    links = loads.view(np.int32)
    links[4 * slots :] = -1
    return loads, links, bitmap.empty(count)


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
def after(loads: Loads, slot: int, other: int) -> int:
    """Return 1 if a slot comes after the other, else 0: the side on which it is found."""
    if loads[2 * other] < loads[2 * slot]:
        return 1
    return 1 if loads[2 * other] == loads[2 * slot] and other > slot else 0


@kernel
def find(loads: Loads, links: Links, words: bitmap.Words, speed: float, capacity: float) -> int:
    """Return the slot of the highest load where load + speed ≤ capacity, or -1."""
    if speed > capacity:
        return -1
    count = buckets(words)
    # Rounding can let a load fit that lies a hair above C − s, never a whole bucket above.
    at = min(count - 1, bucket(capacity - speed, capacity, count) + 1)
    while at >= 0:
        at = bitmap.up_to(words, count, at)
        if at < 0:
            return -1
        found = -1
        slot = links[len(links) - count + at]
        while slot >= 0:
            if loads[2 * slot] + speed <= capacity:
                found = slot
                slot = links[4 * slot + 3]
            else:
                slot = links[4 * slot + 2]
        if found >= 0:
            return found
        at -= 1
    return -1


@kernel
def insert(
    loads: Loads, links: Links, words: bitmap.Words, slot: int, load: float, capacity: float
) -> None:
    """Add a slot with its load."""
    count = buckets(words)
    at = bucket(load, capacity, count)
    link = len(links) - count + at
    loads[2 * slot] = load
    if links[link] < 0:
        bitmap.add(words, count, at)
    mine = priority(slot)
    while links[link] >= 0 and priority(links[link]) >= mine:
        link = 4 * links[link] + 2 + after(loads, slot, links[link])
    rest = links[link]
    links[link] = slot
    low, high = 4 * slot + 2, 4 * slot + 3
    while rest >= 0:
        if after(loads, slot, rest):
            links[low] = rest
            low = 4 * rest + 3
            rest = links[low]
        else:
            links[high] = rest
            high = 4 * rest + 2
            rest = links[high]
    links[low] = -1
    links[high] = -1


@kernel
def remove(loads: Loads, links: Links, words: bitmap.Words, slot: int, capacity: float) -> None:
    """Take a slot out."""
    count = buckets(words)
    at = bucket(loads[2 * slot], capacity, count)
    root = len(links) - count + at
    link = root
    while links[link] != slot:
        link = 4 * links[link] + 2 + after(loads, slot, links[link])
    low, high = links[4 * slot + 2], links[4 * slot + 3]
    while low >= 0 and high >= 0:
        if priority(low) >= priority(high):
            links[link] = low
            link = 4 * low + 3
            low = links[link]
        else:
            links[link] = high
            link = 4 * high + 2
            high = links[link]
    links[link] = max(low, high)
    if links[root] < 0:
        bitmap.discard(words, count, at)
