"""The order of decreasing speed, equals in the order given."""

import numpy as np
from numpy.typing import NDArray

from lagless.packing.compiled import kernel


@kernel
def decreasing(speeds: NDArray[np.float64]) -> NDArray[np.int32]:
    """Sort by radix, byte by byte, in O(n): reads and writes run along the memory.

    The bits of floats from 0 are ordered as the floats are; inverted, the largest comes first.
    """
    n = len(speeds)
    keys = ~(speeds + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
    order = np.arange(n).astype(np.int32)
    counts = np.zeros((8, 256), np.int64)
    for key in keys:
        for digit in range(8):
            counts[digit, np.int64((key >> np.uint64(8 * digit)) & np.uint64(255))] += 1
    sorted_keys = np.empty_like(keys)
    sorted_order = np.empty_like(order)
    for digit in range(8):
        shift = np.uint64(8 * digit)
        ends = counts[digit]
        if ends.max() == n:  # this byte is the same in all
            continue
        ends[:] = np.cumsum(ends) - ends  # where each value begins
        for i in range(n):
            value = np.int64((keys[i] >> shift) & np.uint64(255))
            at = ends[value]
            ends[value] = at + 1
            sorted_keys[at] = keys[i]
            sorted_order[at] = order[i]
        keys, sorted_keys = sorted_keys, keys
        order, sorted_order = sorted_order, order
    return order
