"""Replay a packing algorithm over a stream, each measurement packed on top of the last.

docs/evaluation.md ("simulate") says what the order decides.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from lagless import packing
from lagless.errors import WrongInput
from lagless.lab.model.streams import Floats, Numbers
from lagless.packing import scores

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
    """Iterate over the partitions' consumers; the seed decides the shuffled orders.

    Every algorithm that is shuffled sees the same orders under the same seed.
    """
    if not (np.isfinite(capacity) and capacity > 0):
        raise WrongInput(f"the capacity is a number of bytes/s above 0, not {capacity:g}")
    if order not in ORDERS:
        raise WrongInput(f'unknown order "{order}": choose from {", ".join(ORDERS)}')
    pack = packing.packer(spec)
    shuffled = order == "shuffled" and packing.algorithm(spec)[0].online
    return _steps(pack, speeds, capacity, np.random.default_rng(seed) if shuffled else None)


def _steps(
    pack: packing.Packer, speeds: Floats, capacity: float, rng: np.random.Generator | None
) -> Iterator[Numbers]:
    current = np.zeros(speeds.shape[1], dtype=np.int64)
    for measured in speeds:
        if rng is None:
            current = pack(measured, capacity, current)
        else:
            turn = rng.permutation(len(measured))
            previous, current = current, np.empty_like(current)
            current[turn] = pack(measured[turn], capacity, previous[turn])
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
    steps = assignments(spec, speeds, capacity, order, seed)
    previous = np.zeros(speeds.shape[1], dtype=np.int64)
    for k, measured in enumerate(speeds):
        began = clock()
        current = next(steps)
        found.seconds[k] = clock() - began
        found.consumers[k], rate, found.migrations[k] = scores.tally(measured, previous, current)
        found.rscore[k] = rate / capacity
        previous = current
    return found
