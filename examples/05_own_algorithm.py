"""Write your own packing algorithm, and use it by its name.

It takes arrays, in the mapping's order: speeds, the capacity, and each partition's previous
consumer (0: none). It answers consumers from 1. Keyword-only parameters, with defaults, can be set
behind the name: `own_algorithm:even:consumers=4`.
"""

import sys
import types

import numpy as np
from numpy.typing import NDArray

import lagless


def even(
    speeds: NDArray[np.float64], capacity: float, previous: NDArray[np.int64], *, consumers: int = 3
) -> NDArray[np.int64]:
    """Assign each partition, fastest first, to the least loaded of `consumers` consumers."""
    loads = np.zeros(consumers)
    answer = np.zeros(len(speeds), np.int64)
    for j in np.argsort(-speeds, kind="stable"):
        answer[j] = loads.argmin() + 1
        loads[answer[j] - 1] += speeds[j]
    return answer


# Saved as own_algorithm.py next to your lagless.toml, it can be used by its name alone.
module = types.ModuleType("own_algorithm")
module.even = even  # type: ignore[attr-defined]  # a module made for this example
sys.modules["own_algorithm"] = module

speeds = {"a": 9.0, "b": 7.0, "c": 6.0, "d": 5.0, "e": 5.0}
print(lagless.pack(speeds, capacity=100, algorithm="own_algorithm:even"))
print(lagless.pack(speeds, capacity=100, algorithm="own_algorithm:even:consumers=2"))
