"""An existing group beside what lagless would make of it: the same speeds, two sets of readers.

Both are followed through the latency model over the same measurements. `now` is who really held
what; `then` is packed as the controller packs, and begins with what members hold.
"""

from dataclasses import dataclass

import numpy as np

from lagless import packing
from lagless.errors import WrongInput
from lagless.lab.model import latency
from lagless.lab.model.streams import Floats, Numbers
from lagless.packing import scores

LEAST = 2
"""Measurements that the latency model needs: the first only makes the first assignment."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of reading a stream."""

    consumers: int
    """At the last measurement, with something to read."""
    consumers_mean: float
    worst_load: float
    """The highest load of a consumer at any measurement, in bytes per second."""
    moves: int
    """Partitions that moved after the first measurement."""
    latency: latency.Latency


@dataclass(frozen=True, slots=True)
class Then:
    """The way of lagless."""

    way: Way
    first_moves: int
    """Partitions that move at once."""
    first_rscore: float
    oversize: tuple[int, ...]
    """Columns that were faster than the capacity at some measurement."""
    catching_up: int
    """Consumers while the backlog of the last measurement is worked off."""


def now(speeds: Floats, holders: Numbers, model: latency.Model) -> Way:
    """Follow a stream under those who really read it: numbers from 1, in the stream's shape."""
    if speeds.shape != holders.shape or len(speeds) < LEAST:
        raise WrongInput(
            f"{LEAST} or more measurements are needed, with a holder for each speed,"
            f" not {speeds.shape} and {holders.shape}"
        )
    return _way(speeds, holders, model)


def then(
    speeds: Floats,
    first: Numbers,
    model: latency.Model,
    capacity: float,
    algorithm: str,
    backlog: Floats,
    catch_up: float,
) -> Then:
    """Follow a stream packed by lagless on top of its first holders; 0 is a partition without one.

    `backlog` is that of the last measurement in bytes, to be worked off in `catch_up` seconds; 0
    leaves it out.
    """
    pack = packing.packer(algorithm)
    planned = np.empty(speeds.shape, np.int64)
    current = first
    for k, measured in enumerate(speeds):
        planned[k] = current = pack(measured, capacity, current)
    weights = speeds[-1] + (backlog / catch_up if catch_up > 0 else 0.0)
    return Then(
        way=_way(speeds, planned, model),
        first_moves=int(scores.moved(first, planned[0]).sum()),
        first_rscore=scores.moved_rate(speeds[0], first, planned[0]) / capacity,
        oversize=tuple(np.flatnonzero((speeds > capacity).any(axis=0)).tolist()),
        catching_up=len(np.unique(pack(weights, capacity, planned[-1]))),
    )


def _way(speeds: Floats, assignments: Numbers, model: latency.Model) -> Way:
    rows = zip(speeds, assignments, strict=True)
    loads = [float(np.bincount(current, measured).max(initial=0.0)) for measured, current in rows]
    return Way(
        consumers=len(np.unique(assignments[-1])),
        consumers_mean=float(np.mean([len(np.unique(current)) for current in assignments])),
        worst_load=max(loads),
        moves=int(scores.moved(assignments[:-1], assignments[1:]).sum()),
        latency=latency.run(model, speeds, assignments),
    )
