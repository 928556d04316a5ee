"""The open consumers of an iteration: which exist, how full they are, and which one a rule chooses.

Consumers are kept by slot, in the order of their numbers. Slot i is consumer i + 1 for as many
slots as there are partitions; the previous consumers with higher numbers, which are few, follow.
So memory stays O(n) whatever the numbers are.

The open consumers of a rule are three arrays, `held`, `links` and `counts`, which each rule uses in
its own way: Next Fit keeps the load and the slot of the one open consumer, First Fit a tree of
minima and Worst Fit a heap (below), Best Fit the tree of `trees`. The arrays are passed one by
one, since numba counts references to arrays in a tuple.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing.kernels import trees
from lagless.packing.kernels.compiled import aligned, kernel, large
from lagless.packing.kernels.order import radix
from lagless.packing.kernels.trees import Counts, Links, Loads

FIRST, BEST, WORST, NEXT, LOWEST = 0, 1, 2, 3, 4
"""The rules. LOWEST is Next Fit whose first consumer is the lowest number, whatever was before."""

Slots: TypeAlias = NDArray[np.int32]

BRANCHES = 32
"""Children of a node in First Fit's tree of minima."""


@kernel
def slots(previous: NDArray[np.int64]) -> tuple[Slots, NDArray[np.int64]]:
    """Return the slot of each partition's previous consumer (-1: none), and the high numbers."""
    n = len(previous)
    slot_of = large(np.empty(n, np.int32))
    beyond = 0
    for j in range(n):
        if previous[j] <= n:
            slot_of[j] = previous[j] - 1
        else:
            beyond += 1
    if beyond == 0:
        return slot_of, np.empty(0, np.int64)
    where, keys = np.empty(beyond, np.int32), np.empty(beyond, np.uint64)
    at = 0
    for j in range(n):
        if previous[j] > n:
            where[at], keys[at] = j, np.uint64(previous[j])
            at += 1
    high = np.empty(beyond, np.int64)
    distinct = 0
    for i in radix(keys)[0]:
        number = previous[where[i]]
        if distinct == 0 or high[distinct - 1] != number:
            high[distinct] = number
            distinct += 1
        slot_of[where[i]] = n + distinct - 1
    return slot_of, high[:distinct]


@kernel
def numbers(placed: Slots, high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the consumers' numbers of a list of slots, the reverse of `slots`."""
    n = len(placed)
    result = large(np.empty(n, np.int64))
    for j in range(n):
        result[j] = placed[j] + 1 if placed[j] < n else high[placed[j] - n]
    return result


@kernel
def tally(
    speeds: Loads, previous: NDArray[np.int64], current: NDArray[np.int64]
) -> tuple[int, float, int]:
    """Return the number of consumers, the migrated speed and the migrations: `scores.tally`."""
    seen = np.zeros(current.max() + 1, np.bool_)
    consumers, rate, migrations = 0, 0.0, 0
    for j in range(len(current)):
        if not seen[current[j]]:
            seen[current[j]] = True
            consumers += 1
        if previous[j] > 0 and previous[j] != current[j]:
            rate += speeds[j]
            migrations += 1
    return consumers, rate, migrations


@kernel
def empty(rule: int, count: int) -> tuple[Loads, Links, Counts]:
    """Return the arrays of a group without open consumers, for so many slots."""
    if rule == FIRST:
        return no_minima(count), np.empty(0, np.int32), np.empty(0, np.int64)
    if rule == BEST:
        return trees.empty(count)
    if rule in (NEXT, LOWEST):
        return np.full(1, np.inf), np.empty(1, np.int32), np.empty(0, np.int64)
    return aligned(count, 1), large(np.empty(count, np.int32)), np.zeros(1, np.int64)


@kernel
def create(
    rule: int, held: Loads, links: Links, counts: Counts, capacity: float, slot: int, load: float
) -> None:
    """Open the consumer of a slot with its first load."""
    if rule == FIRST:
        set_load(held, slot, load)
    elif rule in (NEXT, LOWEST):
        held[0], links[0] = load, slot
    elif load > capacity:
        return
    elif rule == BEST:
        trees.insert(held, links, counts, slot, load)
    else:
        push(held, links, counts[0], load, slot)
        counts[0] += 1


@kernel
def join(
    rule: int, held: Loads, links: Links, counts: Counts, capacity: float, speed: float
) -> int:
    """Add a partition to the open consumer that the rule chooses; return its slot, or -1."""
    if rule == FIRST:
        slot = first_fitting(held, speed, capacity)
        if slot >= 0:
            set_load(held, slot, held[len(held) // BRANCHES + slot] + speed)
        return slot
    if rule == BEST:
        slot = trees.find(held, links, counts, speed, capacity)
        if slot >= 0:
            load = trees.take(held, links, counts) + speed
            trees.insert(held, links, counts, slot, load)
        return slot
    if rule in (NEXT, LOWEST):
        if held[0] + speed > capacity:
            return -1
        held[0] += speed
        return int(links[0])
    if counts[0] == 0 or held[0] + speed > capacity:
        return -1
    slot = int(links[0])
    replace_top(held, links, counts[0], held[0] + speed, slot)
    return slot


@kernel
def unused(used: NDArray[np.bool_], lowest: NDArray[np.int64], previous: int) -> int:
    """Return h(j, k) and mark it used: the previous slot if unused, else the lowest unused slot.

    No slot below lowest[0] is unused, so all searches together take O(n).
    """
    slot = previous
    if slot < 0 or used[slot]:
        while used[lowest[0]]:
            lowest[0] += 1
        slot = lowest[0]
    used[slot] = True
    return slot


# First Fit: a tree of minima over slots. The children of node i are 32i + 1 … 32i + 32, in whole
# cache lines. Slots that are not open have an infinite load, so nothing fits there.


@kernel
def no_minima(slots: int) -> Loads:
    """Return the tree of minima of a group without consumers."""
    leaves = 1
    while leaves < slots:
        leaves *= BRANCHES
    tree = aligned((BRANCHES * leaves - 1) // (BRANCHES - 1), 1)
    tree[:] = np.inf
    return tree


@kernel
def first_fitting(tree: Loads, speed: float, capacity: float) -> int:
    """Return the lowest slot where load + speed ≤ capacity, or -1, in O(log B).

    Rounded addition is monotone, so if the least load below a node does not fit, none there does.
    """
    if tree[0] + speed > capacity:
        return -1
    inner = len(tree) // BRANCHES
    node = 0
    while node < inner:
        node = BRANCHES * node + 1
        while tree[node] + speed > capacity:
            node += 1
    return node - inner


@kernel
def set_load(tree: Loads, slot: int, load: float) -> None:
    """Set the load of a slot, in O(log B)."""
    node = len(tree) // BRANCHES + slot
    tree[node] = load
    while node > 0:
        node = (node - 1) // BRANCHES
        least = tree[BRANCHES * node + 1]
        for child in range(BRANCHES * node + 2, BRANCHES * node + BRANCHES + 1):
            least = min(least, tree[child])
        if tree[node] == least:
            return
        tree[node] = least


# Worst Fit: a heap with four branches per node, by load and then by slot. The least loaded consumer
# is on top: a partition that does not fit there fits nowhere.


@kernel
def push(loads: Loads, slots: Slots, size: int, load: float, slot: int) -> None:
    """Add a consumer to a heap of this size, in O(log B)."""
    hole = size
    while hole > 0:
        above = (hole - 1) >> 2
        if loads[above] < load or (loads[above] == load and slots[above] < slot):
            break
        loads[hole] = loads[above]
        slots[hole] = slots[above]
        hole = above
    loads[hole] = load
    slots[hole] = slot


@kernel
def replace_top(loads: Loads, slots: Slots, size: int, load: float, slot: int) -> None:
    """Replace the consumer on top of a heap of this size, in O(log B)."""
    hole = 0
    while 4 * hole + 1 < size:
        least = 4 * hole + 1
        for child in range(least + 1, min(least + 4, size)):
            if loads[child] < loads[least] or (
                loads[child] == loads[least] and slots[child] < slots[least]
            ):
                least = child
        if load < loads[least] or (load == loads[least] and slot < slots[least]):
            break
        loads[hole] = loads[least]
        slots[hole] = slots[least]
        hole = least
    loads[hole] = load
    slots[hole] = slot
