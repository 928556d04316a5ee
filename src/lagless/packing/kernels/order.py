"""Sorting by radix, and carrying arrays from the list's order into another one and back.

The list is the order in which partitions were given. Every sort is stable: equals stay in the
list's order, which is what decides ties.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing.kernels.compiled import Array, kernel, large

Order: TypeAlias = NDArray[np.int32]

BYTE = np.uint64(255)


@kernel
def ranked(speeds: NDArray[np.float64]) -> tuple[Order, NDArray[np.float64]]:
    """Return the order of decreasing speed, and the speeds in this order."""
    keys = large(np.empty(len(speeds), np.uint64))
    bits = keys.view(np.float64)
    for j in range(len(speeds)):
        # The bits of floats from 0 are ordered as the floats are; + 0.0 turns -0.0 into 0.0.
        bits[j] = speeds[j] + 0.0
        keys[j] = ~keys[j]
    order, keys = radix(keys)
    for rank in range(len(keys)):
        keys[rank] = ~keys[rank]
    return order, keys.view(np.float64)


@kernel
def radix(keys: NDArray[np.uint64]) -> tuple[Order, NDArray[np.uint64]]:
    """Sort keys, which are overwritten, byte by byte in O(n); return their order and them in it."""
    n = len(keys)
    order = large(np.empty(n, np.int32))
    counts = np.zeros((8, 256), np.int64)
    for j in range(n):
        order[j] = j
        for byte in range(8):
            counts[byte, np.int64((keys[j] >> np.uint64(8 * byte)) & BYTE)] += 1
    other_keys = large(np.empty(n, np.uint64))
    other_order = large(np.empty(n, np.int32))
    for byte in range(8):
        shift = np.uint64(8 * byte)
        starts = counts[byte]
        total, most = 0, 0
        for value in range(256):
            count = int(starts[value])
            starts[value] = total
            total += count
            most = max(most, count)
        if most == n:  # all keys have the same byte here
            continue
        for j in range(n):
            value = int(np.int64((keys[j] >> shift) & BYTE))
            other_keys[starts[value]] = keys[j]
            other_order[starts[value]] = order[j]
            starts[value] += 1
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
    return order, keys


@kernel
def gathered(values: NDArray[np.int32], order: Order) -> NDArray[np.int32]:
    """Carry values from the list's order into another one."""
    result = large(np.empty_like(values))
    for i in range(len(order)):
        result[i] = values[order[i]]
    return result


@kernel
def scattered(values: Array, order: Order) -> Array:
    """Carry values from another order back into the list's."""
    result = large(np.empty_like(values))
    for i in range(len(order)):
        result[order[i]] = values[i]
    return result
