"""Sorting: by decreasing speed, equals in the order given, and by any other key."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import pages
from lagless.packing.compiled import kernel

Order: TypeAlias = NDArray[np.int32]

BYTE = np.uint64(255)


@kernel
def decreasing(speeds: NDArray[np.float64]) -> Order:
    """Return the order of decreasing speed, equals in the order given."""
    return ranked(speeds)[0]


@kernel
def increasing(keys: NDArray[np.uint64]) -> Order:
    """Return the order of increasing keys, equals in the order given; keys are used up."""
    return radix(keys)[0]


@kernel
def ranked(speeds: NDArray[np.float64]) -> tuple[Order, NDArray[np.float64]]:
    """Return the order of decreasing speed, equals in the order given, and the speeds in it."""
    keys = pages.large(np.empty(len(speeds), np.uint64))
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
    """Sort by radix, byte by byte, in O(n); return the order and the keys in it."""
    n = len(keys)
    order = pages.large(np.empty(n, np.int32))
    counts = np.zeros((8, 256), np.int64)
    for j in range(n):
        order[j] = j
        for byte in range(8):
            counts[byte, np.int64((keys[j] >> np.uint64(8 * byte)) & BYTE)] += 1
    other_keys = pages.large(np.empty(n, np.uint64))
    other_order = pages.large(np.empty(n, np.int32))
    for byte in range(8):
        shift = np.uint64(8 * byte)
        starts = counts[byte]
        total, most = 0, 0
        for value in range(256):
            count = int(starts[value])
            starts[value] = total
            total += count
            most = max(most, count)
        if most == n:  # this byte is the same in all
            continue
        for j in range(n):
            value = int(np.int64((keys[j] >> shift) & BYTE))
            other_keys[starts[value]] = keys[j]
            other_order[starts[value]] = order[j]
            starts[value] += 1
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
    return order, keys
