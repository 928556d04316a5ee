"""Worst Fit's open consumers: a heap with four branches a node, by load, then by slot.

The least loaded consumer is on top: if a partition does not fit there, it fits nowhere.
"""

import numpy as np
from numpy.typing import NDArray

from lagless.packing.compiled import kernel


@kernel
def push(
    loads: NDArray[np.float64], slots: NDArray[np.int32], size: int, load: float, slot: int
) -> None:
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
def replace(
    loads: NDArray[np.float64], slots: NDArray[np.int32], size: int, load: float, slot: int
) -> None:
    """Put a consumer in the place of the top one, in O(log B)."""
    hole = 0
    while True:
        first = 4 * hole + 1
        if first >= size:
            break
        least = first
        for child in range(first + 1, min(first + 4, size)):
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
