"""Replay a packing algorithm over a stream, each measurement packed on top of the last.

The online algorithms take partitions as they come, so the order decides. With order "shuffled"
(the published tables') they get them in an order that is drawn anew at each iteration; with
"fixed", and for every other algorithm, in the stream's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lagless import packing
from lagless.errors import WrongInput
from lagless.packing.compiled import kernel

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.int64]
Order: TypeAlias = Literal["shuffled", "fixed"]

ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, slots=True)
class Replay:
    """What an algorithm did in each iteration: consumers, Rscore, migrations, and its seconds."""

    consumers: Numbers
    rscore: Floats
    migrations: Numbers
    seconds: Floats


def assignments(
    spec: str, speeds: Floats, capacity: float, order: Order, seed: int
) -> Iterator[Numbers]:
    """Yield each iteration's consumers of the partitions; the seed decides the shuffled orders.

    Every algorithm that is shuffled sees the same orders under the same seed.
    """
    step = _step(spec, capacity, order, seed)
    current = np.zeros(speeds.shape[1], dtype=np.int64)
    for measured in speeds:
        current = step(measured, current)
        yield current


def run(
    spec: str,
    speeds: Floats,
    capacity: float,
    order: Order,
    seed: int,
    clock: Callable[[], float] = lambda: 0.0,
) -> Replay:
    """Replay an algorithm over a stream's speeds and score each iteration.

    `clock` times each packing; without one the seconds are 0. The loop is Python around compiled
    kernels: benchmarks/evaluation.py compares it with a loop compiled as a whole.
    """
    n = len(speeds)
    found = Replay(np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64), np.empty(n))
    step = _step(spec, capacity, order, seed)
    previous = np.zeros(speeds.shape[1], dtype=np.int64)
    for k, measured in enumerate(speeds):
        began = clock()
        current = step(measured, previous)
        found.seconds[k] = clock() - began
        consumers, rate, migrations = score(measured, previous, current)
        found.consumers[k] = consumers
        found.rscore[k] = rate / capacity
        found.migrations[k] = migrations
        previous = current
    return found


@kernel
def score(speeds: Floats, previous: Numbers, current: Numbers) -> tuple[int, float, int]:
    """Count the consumers, sum the speeds of migrated partitions and count these.

    The same sums as `packing.scores`, in one pass.
    """
    seen = np.zeros(current.max() + 1, np.bool_)
    consumers, rate, migrations = 0, 0.0, 0
    for j in range(len(current)):
        if not seen[current[j]]:
            seen[current[j]] = True
            consumers += 1
        if previous[j] > 0 and previous[j] != current[j]:
            rate += speeds[j]
            migrations += 1
    return consumers, rate, migrations


def _step(
    spec: str, capacity: float, order: Order, seed: int
) -> Callable[[Floats, Numbers], Numbers]:
    if not (np.isfinite(capacity) and capacity > 0):
        raise WrongInput(f"the capacity is a number of bytes/s above 0, not {capacity:g}")
    if order not in ORDERS:
        raise WrongInput(f'there is no order "{order}": take one of {", ".join(ORDERS)}')
    pack = packing.packer(spec)
    if order == "fixed" or not packing.algorithm(spec)[0].online:
        return lambda measured, previous: pack(measured, capacity, previous)
    rng = np.random.default_rng(seed)

    def shuffled(measured: Floats, previous: Numbers) -> Numbers:
        turn = rng.permutation(len(measured))
        current = np.empty_like(previous)
        current[turn] = pack(measured[turn], capacity, previous[turn])
        return current

    return shuffled
