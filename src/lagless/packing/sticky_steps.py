"""The compiled steps of sticky: count, keep, refill and return.

All arrays are in the order of decreasing speed, equals in the list's order, and loads are summed
in this order. Consumers are slots, as in `kernels`.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import kernels
from lagless.packing.inputs import Speeds
from lagless.packing.kernels import Slots, kernel

Loads: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

ROW = 4096
"""Up to so many partitions, shifting the entries of a sorted row is faster than a tree."""
PATIENCE = 1_200_000
"""How many partitions all probes of a packing may look at together, so that its time stays near
n log n: 6,000 probes of 200 partitions, more than are ever needed, and 12 of 100,000."""


@kernel
def consumers(speeds: Speeds, capacity: float, kept: Flags, loads: Loads, most: int) -> int:
    """Count the consumers that kept and free partitions need, or return most + 1 if more.

    `loads` are those of the kept partitions, by slot; an unused slot has -1.
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
            at = size
            while at > 0 and row[at - 1] > speeds[j]:
                row[at] = row[at - 1]
                at -= 1
            row[at] = speeds[j]
            size += 1
    return opened


@kernel
def in_tree(speeds: Speeds, capacity: float, kept: Flags, loads: Loads, most: int) -> int:
    """Count with the open consumers' loads in Best Fit's tree.

    Which of equally loaded consumers is chosen does not change the count, so any slots will do.
    """
    held, links, counts = kernels.empty(kernels.BEST, len(speeds))
    full = loads[loads >= 0]
    opened = len(full)
    if opened > most:
        return most + 1
    # By increasing load, each entry lies beside the last one in memory.
    for i in kernels.radix(full.view(np.uint64).copy())[0]:
        kernels.create(kernels.BEST, held, links, counts, capacity, i, full[i])
    for j in range(len(speeds)):
        if kept[j]:
            continue
        slot = kernels.join(kernels.BEST, held, links, counts, capacity, speeds[j])
        if slot < 0:
            opened += 1
            if opened > most:
                return opened
            kernels.create(kernels.BEST, held, links, counts, capacity, opened - 1, speeds[j])
    return opened


@kernel
def fewest(rates: Speeds, capacity: float, slots: int) -> int:
    """Count the consumers that Best Fit Decreasing needs."""
    nothing = np.zeros(len(rates), np.bool_)
    return consumers(rates, capacity, nothing, np.full(slots, -1.0), len(rates))


@kernel
def stay(
    rates: Speeds, capacity: float, before: Slots, kept: Flags, loads: Loads, first: int, last: int
) -> bool:
    """Keep, of partitions first … last - 1, those that still fit; return whether any does."""
    some = False
    for j in range(first, last):
        slot = before[j]
        if slot < 0:
            continue
        if loads[slot] < 0:
            loads[slot] = rates[j]
        elif loads[slot] + rates[j] <= capacity:
            loads[slot] += rates[j]
        else:
            continue
        kept[j] = True
        some = True
    return some


@kernel
def keep(rates: Speeds, capacity: float, before: Slots, slots: int, target: int) -> Flags:
    """Choose the partitions that stay.

    Invariant: what is kept so far fits, and everything else still packs into the target. Runs of
    partitions are tried at once: all of them, then runs of growing length; a run that fails is
    halved until the one partition that cannot stay is found. Long lists are halved down to grains
    instead of single partitions, and what was not tried when the patience ends moves.
    """
    n = len(rates)
    kept, loads = np.zeros(n, np.bool_), np.full(slots, -1.0)
    probes = max(8, PATIENCE // max(n, 1))
    grain = 1 + 2 * n // probes
    done, length, wall = 0, n, n + 1
    while done < n and probes > 0:
        end = min(done + length, n)
        kept_then, loads_then = kept.copy(), loads.copy()
        fine = True
        if stay(rates, capacity, before, kept_then, loads_then, done, end):
            probes -= 1
            fine = consumers(rates, capacity, kept_then, loads_then, target) <= target
        if fine:
            kept, loads, done = kept_then, loads_then, end
            length = 2 * length if wall > n else (wall - done) >> 1
        else:
            wall = end
            length = length >> 1
        if wall <= n and wall - done <= grain:
            done, length, wall = wall, grain, n + 1
        length = max(length, 1)
    return kept


@kernel
def refill(
    rates: Speeds, capacity: float, before: Slots, slots: int, target: int, kept: Flags
) -> Slots:
    """Place what is not kept, leaving as much room as possible.

    Invariant: with all free partitions placed by Best Fit the target is met, since `keep` has
    probed exactly that. The fewest that suffice are found by bisection.
    """
    free = len(rates) - kept.sum()
    tries = 20 if len(rates) <= ROW else 4
    low, high = 0, free
    placed, opened = place(rates, capacity, before, slots, kept, low)
    if opened <= target:
        high = 0
    while low < high and tries > 0:
        tries -= 1
        tight = (low + high) >> 1
        attempt, opened = place(rates, capacity, before, slots, kept, tight)
        if opened <= target:
            placed, high = attempt, tight
        else:
            low = tight + 1
    if opened > target:
        placed, opened = place(rates, capacity, before, slots, kept, high)
    if overfull(rates, capacity, slots, placed):
        # Rounding: the kept ones were summed first. With none kept, loads are summed by speed.
        placed, opened = place(rates, capacity, before, slots, np.zeros_like(kept), len(rates))
    return placed


@kernel
def place(
    rates: Speeds, capacity: float, before: Slots, slots: int, kept: Flags, tight: int
) -> tuple[Slots, int]:
    """Place the free partitions, the first `tight` by Best Fit, the others by Worst Fit."""
    n = len(rates)
    placed, loads = np.full(n, -1, np.int32), np.full(slots, -1.0)
    used, lowest = np.zeros(slots, np.bool_), np.zeros(1, np.int64)
    opened = 0
    for j in range(n):
        if kept[j]:
            slot = before[j]
            if not used[slot]:
                used[slot], loads[slot] = True, 0.0
                opened += 1
            placed[j] = slot
            loads[slot] += rates[j]
    j = 0
    for rule in (kernels.BEST, kernels.WORST):
        if rule == kernels.BEST and tight == 0:
            continue
        held, links, counts = kernels.empty(rule, slots)
        for slot in range(slots):
            if used[slot]:
                kernels.create(rule, held, links, counts, capacity, slot, loads[slot])
        while j < n and (tight > 0 or rule == kernels.WORST):
            if not kept[j]:
                slot = kernels.join(rule, held, links, counts, capacity, rates[j])
                if slot < 0:
                    slot = kernels.unused(used, lowest, before[j])
                    kernels.create(rule, held, links, counts, capacity, slot, rates[j])
                    loads[slot] = 0.0
                    opened += 1
                placed[j] = slot
                loads[slot] += rates[j]
                tight -= 1
            j += 1
    return placed, opened


@kernel
def overfull(rates: Speeds, capacity: float, slots: int, placed: Slots) -> bool:
    """Return whether any consumer is over capacity, its load summed by decreasing speed."""
    loads = np.full(slots, -1.0)
    for j in range(len(rates)):
        if loads[placed[j]] < 0:
            loads[placed[j]] = rates[j]
        else:
            loads[placed[j]] += rates[j]
            if loads[placed[j]] > capacity:
                return True
    return False


@kernel
def return_home(
    rates: Speeds, capacity: float, before: Slots, slots: int, target: int, placed: Slots
) -> None:
    """Send partitions back to their previous consumers wherever that is possible.

    Invariant: no consumer is overfull, and no more than the target are open. Each return makes
    room elsewhere, so the rounds go on until nothing more returns.
    """
    n = len(rates)
    # Each consumer's partitions are a linked list, by decreasing speed.
    head, following = np.full(slots, -1, np.int32), np.empty(n, np.int32)
    opened = 0
    for j in range(n - 1, -1, -1):
        opened += head[placed[j]] < 0
        following[j] = head[placed[j]]
        head[placed[j]] = j
    again = True
    while again:
        again = False
        for j in range(n):
            home, now = before[j], placed[j]
            if home < 0 or home == now:
                continue
            alone = head[now] == j and following[j] < 0
            if head[home] >= 0:
                if not joins(rates, capacity, head, following, home, j):
                    continue
            elif not alone and opened >= target:
                continue
            opened += int(head[home] < 0) - int(alone)
            unchain(head, following, now, j)
            chain(head, following, home, j)
            placed[j] = home
            again = True


@kernel
def joins(
    rates: Speeds, capacity: float, head: Slots, following: Slots, slot: int, partition: int
) -> bool:
    """Return whether another partition fits into a consumer that has some."""
    load, waiting, i = 0.0, True, head[slot]
    while i >= 0:
        if waiting and i > partition:
            load += rates[partition]
            waiting = False
        load += rates[i]
        if load > capacity:
            return False
        i = following[i]
    return not waiting or load + rates[partition] <= capacity


@kernel
def unchain(head: Slots, following: Slots, slot: int, partition: int) -> None:
    """Remove a partition from a consumer's linked list."""
    if head[slot] == partition:
        head[slot] = following[partition]
        return
    i = head[slot]
    while following[i] != partition:
        i = following[i]
    following[i] = following[partition]


@kernel
def chain(head: Slots, following: Slots, slot: int, partition: int) -> None:
    """Insert a partition into a consumer's linked list."""
    if head[slot] < 0 or head[slot] > partition:
        following[partition] = head[slot]
        head[slot] = partition
        return
    i = head[slot]
    while following[i] >= 0 and following[i] < partition:
        i = following[i]
    following[partition] = following[i]
    following[i] = partition
