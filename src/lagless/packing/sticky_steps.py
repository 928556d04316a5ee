"""The steps of sticky, compiled: count, keep, refill and return.

All arrays are in the order of decreasing speed, equals in the mapping's order, and loads are
summed in this order. Consumers are slots, as in `group`.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import group, sticky_probe
from lagless.packing.compiled import kernel

Speeds: TypeAlias = NDArray[np.float64]
Loads: TypeAlias = NDArray[np.float64]
Slots: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

# How many partitions all probes of a packing may look at together, so that its time stays near
# n log n: 6,000 probes of 200 partitions, more than ever needed, and 12 of 100,000.
PATIENCE = 1_200_000


@kernel
def fewest(rates: Speeds, capacity: float, slots: int) -> int:
    """Count the consumers that Best Fit Decreasing needs."""
    nothing = np.zeros(len(rates), np.bool_)
    return sticky_probe.consumers(rates, capacity, nothing, np.full(slots, -1.0), len(rates))


@kernel
def stay(
    rates: Speeds, capacity: float, before: Slots, kept: Flags, loads: Loads, first: int, last: int
) -> bool:
    """Keep, of partitions first … last - 1, those that their consumers still hold."""
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

    Invariant: what is kept so far fits, and all else still packs into the target. Runs of
    partitions are tried at once: all of them, then runs of growing length; a run that fails is
    halved until the one partition that cannot stay is found. Long lists are cut in grains, not
    in single partitions, and when patience ends, what was not yet tried moves.
    """
    n = len(rates)
    kept, loads = np.zeros(n, np.bool_), np.full(slots, -1.0)
    probes = max(8, PATIENCE // max(n, 1))
    grain = 1 + 2 * n // probes
    done, length, wall = 0, n, n + 1
    while done < n and probes > 0:
        end = min(done + length, n)
        kept_too, loads_too = kept.copy(), loads.copy()
        fine = True
        if stay(rates, capacity, before, kept_too, loads_too, done, end):
            probes -= 1
            fine = sticky_probe.consumers(rates, capacity, kept_too, loads_too, target) <= target
        if fine:
            kept, loads, done = kept_too, loads_too, end
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
    """Place what is not kept, leaving room where it can be left.

    Invariant: with all of the free partitions placed by Best Fit the target is met, since `keep`
    has probed just that. The fewest that will do are found by bisection.
    """
    free = len(rates) - kept.sum()
    tries = 20 if len(rates) <= sticky_probe.ROW else 4
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
        # Rounding: the kept ones were summed first. Without them the order is that of speed.
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
    for rule in (group.BEST, group.WORST):
        if rule == group.BEST and tight == 0:
            continue
        held, links, counts = group.empty(rule, slots)
        for slot in range(slots):
            if used[slot]:
                group.create(rule, held, links, counts, capacity, slot, loads[slot])
        while j < n and (tight > 0 or rule == group.WORST):
            if not kept[j]:
                slot = group.join(rule, held, links, counts, capacity, rates[j])
                if slot < 0:
                    slot = group.unused(used, lowest, before[j])
                    group.create(rule, held, links, counts, capacity, slot, rates[j])
                    loads[slot] = 0.0
                    opened += 1
                placed[j] = slot
                loads[slot] += rates[j]
                tight -= 1
            j += 1
    return placed, opened


@kernel
def overfull(rates: Speeds, capacity: float, slots: int, placed: Slots) -> bool:
    """Tell whether any consumer has more than it can hold, summed by decreasing speed."""
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
    """Send partitions back to their consumers wherever that is possible.

    Invariant: no consumer is overfull, and no more than the target are open. Each return makes
    room elsewhere, so this goes round until nothing more returns.
    """
    n = len(rates)
    # Each consumer's partitions as a chain, by decreasing speed.
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
            opened += (head[home] < 0) - alone
            unchain(head, following, now, j)
            chain(head, following, home, j)
            placed[j] = home
            again = True


@kernel
def joins(
    rates: Speeds, capacity: float, head: Slots, following: Slots, slot: int, partition: int
) -> bool:
    """Tell whether a consumer that has partitions holds another one as well."""
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
    """Take a partition out of a consumer's chain."""
    if head[slot] == partition:
        head[slot] = following[partition]
        return
    i = head[slot]
    while following[i] != partition:
        i = following[i]
    following[i] = following[partition]


@kernel
def chain(head: Slots, following: Slots, slot: int, partition: int) -> None:
    """Put a partition into a consumer's chain."""
    if head[slot] < 0 or head[slot] > partition:
        following[partition] = head[slot]
        head[slot] = partition
        return
    i = head[slot]
    while following[i] >= 0 and following[i] < partition:
        i = following[i]
    following[partition] = following[i]
    following[i] = partition
