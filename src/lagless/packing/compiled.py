"""Compilation of the kernels, kept on disk so that a second process does not compile again.

The cache lies beside the source, or in the user's cache folder if that is read-only, or where
NUMBA_CACHE_DIR says. numba looks at the file of the compiled function only: after a change to a
kernel that kernels of other files call, delete the .nbi files in __pycache__.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit
from numba.extending import register_jitable

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function at its first call; other kernels may call it too."""
    try:
        return cast(Function, njit(cache=True)(function))
    except RuntimeError:  # nowhere to write: compile in each process
        return cast(Function, njit(function))


def shorthand(function: Function) -> Function:
    """Leave a function that only calls a kernel as it is; kernels may call it too.

    Compiling it would compile again all that it calls.
    """
    return cast(Function, register_jitable(function))
