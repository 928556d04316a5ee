"""Worst Fit's open consumers: a heap with four branches a node, by load, then by slot.

The least loaded consumer is on top: if a partition does not fit there, it fits nowhere.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing.compiled import kernel

Loads: TypeAlias = NDArray[np.float64]
Slots: TypeAlias = NDArray[np.int32]


@kernel
def push(loads: Loads, slots: Slots, size: int, load: float, slot: int) -> None:
    """Add a consumer to a heap of that size, in O(log B)."""
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
def replace(loads: Loads, slots: Slots, size: int, load: float, slot: int) -> None:
    """Put a consumer in the place of the top one, in O(log B)."""
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
