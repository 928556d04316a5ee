"""How kernels are compiled, and where their arrays lie in memory.

Compiled code is cached on disk, so that a second process does not compile again: beside the
source, or in the user's cache folder if that is read-only, or where NUMBA_CACHE_DIR says. A
container image brings compiled kernels in a folder that cannot be written to; numba wants to write
where it reads, so LAGLESS_KERNELS names that folder and it is copied first (5 MB). numba checks
only the file of the cached function: after changing a kernel that kernels in other files call,
delete the .nbi files in __pycache__.

Arrays that are read at random lie on large pages: with pages of 4 KiB most of those reads miss
the processor's page table cache (TLB), and packing a million partitions takes up to twice as long.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import register_jitable
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., object])
Array = TypeVar(
    "Array", NDArray[np.float64], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]
)

LARGE = 1 << 21
"""Bytes of a large page; smaller arrays stay on ordinary pages."""
ADVICE = 14
"""Linux's MADV_HUGEPAGE."""
LINUX = sys.platform == "linux"
madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


def take_up(environment: Mapping[str, str]) -> None:
    """Copy the kernels of a container image to numba's cache folder, unless they are there."""
    source, target = environment.get("LAGLESS_KERNELS"), environment.get("NUMBA_CACHE_DIR")
    if source and target and not os.path.isdir(target):
        with suppress(OSError):  # they are compiled instead
            shutil.copytree(source, target)


take_up(os.environ)


def kernel(function: Function) -> Function:
    """Compile a function at its first call; other kernels may call it too."""
    try:
        return cast(Function, njit(cache=True)(function))
    except RuntimeError:  # no writable cache folder: compile in each process
        return cast(Function, njit(function))


def shorthand(function: Function) -> Function:
    """Leave a function that only calls a kernel uncompiled; kernels may call it too.

    Compiling it would compile everything that it calls a second time.
    """
    return cast(Function, register_jitable(function))


def packer(
    kernel: Callable[..., Numbers], *settings: int
) -> Callable[[NDArray[np.float64], float, Numbers], Numbers]:
    """Return a packer that calls a kernel with the rule and settings of an algorithm."""

    @shorthand
    def pack(speeds: NDArray[np.float64], capacity: float, previous: Numbers) -> Numbers:
        return kernel(speeds, capacity, previous, *settings)

    return pack


@kernel
def large(array: Array) -> Array:
    """Ask for large pages under an array that was not written to yet, and return the array."""
    if LINUX and array.nbytes >= LARGE:
        first = (array.ctypes.data + 4095) // 4096 * 4096
        madvise(first, array.ctypes.data + array.nbytes - first, ADVICE)
    return array


@kernel
def aligned(size: int, lead: int) -> NDArray[np.float64]:
    """Return an array of floats in which a cache line begins after the first `lead` floats."""
    buffer = large(np.empty(size + 8))
    shift = (64 - (buffer.ctypes.data + 8 * lead) % 64) % 64 // 8
    return buffer[shift : shift + size]
