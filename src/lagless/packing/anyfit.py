"""Next, First, Best and Worst Fit, each on the list as it comes and on the list sorted.

Paper, sections "Approximation Algorithms" and "Approximation Algorithms Adaptation": a partition
that fits no open consumer reopens its previous one if that is unused, else the lowest unused.
"""

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagless.packing import group, pages
from lagless.packing.compiled import kernel, shorthand
from lagless.packing.order import ranked

Speeds: TypeAlias = NDArray[np.float64]
Consumers: TypeAlias = NDArray[np.int64]
Values = TypeVar("Values", NDArray[np.int64], NDArray[np.int32])


@kernel
def fit(speeds: Speeds, capacity: float, previous: Consumers, rule: int) -> Consumers:
    """Place the partitions as they come by a rule, in O(n log n)."""
    before, high = group.slots(previous)
    return group.numbers(placed(speeds, capacity, before, len(high), rule), high)


@kernel
def fit_decreasing(speeds: Speeds, capacity: float, previous: Consumers, rule: int) -> Consumers:
    """Place the partitions by decreasing speed by a rule, in O(n log n)."""
    order, rates = ranked(speeds)
    before, high = group.slots(previous)
    found = placed(rates, capacity, gathered(before, order), len(high), rule)
    return group.numbers(scattered(found, order), high)


@kernel
def placed(
    speeds: Speeds, capacity: float, before: group.Slots, high: int, rule: int
) -> group.Slots:
    """Return the slots in which a rule puts the partitions; `high` follow those of low numbers."""
    count = len(speeds) + high
    held, links, counts = group.empty(rule, count)
    used, lowest = np.zeros(count, np.bool_), np.zeros(1, np.int64)
    found = pages.large(np.empty(len(speeds), np.int32))
    for j in range(len(speeds)):
        slot = group.join(rule, held, links, counts, capacity, speeds[j])
        if slot < 0:
            slot = group.unused(used, lowest, before[j])
            group.create(rule, held, links, counts, capacity, slot, speeds[j])
        found[j] = slot
    return found


@kernel
def gathered(values: group.Slots, order: NDArray[np.int32]) -> group.Slots:
    """Return in another order what is given in the list's."""
    found = pages.large(np.empty_like(values))
    for i in range(len(order)):
        found[i] = values[order[i]]
    return found


@kernel
def scattered(values: Values, order: NDArray[np.int32]) -> Values:
    """Return in the list's order what is given in another."""
    found = pages.large(np.empty_like(values))
    for i in range(len(order)):
        found[order[i]] = values[i]
    return found


@shorthand
def nf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Next Fit: only the consumer created last is open."""
    return fit(speeds, capacity, previous, group.NEXT)


@shorthand
def nfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Next Fit Decreasing."""
    return fit_decreasing(speeds, capacity, previous, group.NEXT)


@shorthand
def ff(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit."""
    return fit(speeds, capacity, previous, group.FIRST)


@shorthand
def ffd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit Decreasing."""
    return fit_decreasing(speeds, capacity, previous, group.FIRST)


@shorthand
def bf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Best Fit."""
    return fit(speeds, capacity, previous, group.BEST)


@shorthand
def bfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Best Fit Decreasing."""
    return fit_decreasing(speeds, capacity, previous, group.BEST)


@shorthand
def wf(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Worst Fit."""
    return fit(speeds, capacity, previous, group.WORST)


@shorthand
def wfd(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by Worst Fit Decreasing."""
    return fit_decreasing(speeds, capacity, previous, group.WORST)
