"""Memory for a million partitions: arrays that are read at random lie on large pages.

With pages of 4 KiB most of those reads miss the processor's table of pages, and a packing of a
million partitions takes up to twice as long as its steps do.
"""

import sys
from typing import TypeVar

import numpy as np
from numba import types
from numpy.typing import NDArray

from lagless.packing.compiled import kernel

Values = TypeVar(
    "Values", NDArray[np.float64], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]
)

LARGE = 1 << 21
"""Bytes of a large page; smaller arrays stay as they are."""
ADVICE = 14
"""Linux's MADV_HUGEPAGE."""
LINUX = sys.platform == "linux"
madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@kernel
def large(array: Values) -> Values:
    """Ask for large pages under an array that nothing was written to yet; return the array."""
    if LINUX and array.nbytes >= LARGE:
        first = (array.ctypes.data + 4095) // 4096 * 4096
        madvise(first, array.ctypes.data + array.nbytes - first, ADVICE)
    return array


@kernel
def lined_up(size: int, lead: int) -> NDArray[np.float64]:
    """Return room for floats in which a line of the cache begins after the first `lead` ones."""
    room = large(np.empty(size + 8))
    shift = (64 - (room.ctypes.data + 8 * lead) % 64) % 64 // 8
    return room[shift : shift + size]
