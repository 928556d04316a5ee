"""Scores of assignments and algorithms: loads, migrations, Rscore, CBS and the Pareto front.

Paper, sections "Rscore" and "Performance Metrics". This is the one place that computes them.
`rscore` checks its mappings; `moved`, `moved_rate` and `tally` work on arrays and check nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from lagless.errors import WrongInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Partition = TypeVar("Partition", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)


def moved(
    previous: NDArray[np.signedinteger], current: NDArray[np.signedinteger], none: int = 0
) -> NDArray[np.bool_]:
    """Return for each partition whether it migrated; `none` means no consumer, before or after."""
    migrated: NDArray[np.bool_] = (previous != current) & (previous > none) & (current > none)
    return migrated


def moved_rate(
    speeds: NDArray[np.float64], previous: NDArray[np.int64], current: NDArray[np.int64]
) -> float:
    """Return the total speed of the migrated partitions: the Rscore times the capacity."""
    rates = speeds[moved(previous, current)]
    return float(rates.cumsum()[-1]) if len(rates) else 0.0


def tally(
    speeds: NDArray[np.float64], previous: NDArray[np.int64], current: NDArray[np.int64]
) -> tuple[int, float, int]:
    """Return the number of consumers, the migrated speed and the number of migrations.

    Compiled, in one pass: for replays of long streams, which score every iteration.
    """
    from lagless.packing import kernels  # imports numba, which `import lagless` should not

    return kernels.tally(speeds, previous, current)


def migrations(
    previous: Mapping[Partition, int] | None, current: Mapping[Partition, int]
) -> list[Partition]:
    """Return the partitions that have one consumer before and another one after.

    Arrivals and departures are not migrations: a partition's column of Δ(k) has to hold both a 1
    and a -1.
    """
    before = previous or {}
    return [j for j, consumer in current.items() if before.get(j, consumer) != consumer]


def rscore(
    speeds: Mapping[Partition, float],
    capacity: float,
    previous: Mapping[Partition, int] | None,
    current: Mapping[Partition, int],
) -> float:
    """Return the speeds of the migrated partitions divided by the capacity (equation "Rscore")."""
    from lagless.packing import inputs  # imports numpy, which `import lagless` should not

    limit = inputs.positive(capacity)
    rates = dict(zip(speeds, inputs.measured(speeds).tolist(), strict=True))
    if previous is not None:
        inputs.numbered(previous, "previous")
    inputs.numbered(current, "current")
    moves = set(migrations(previous, current))
    for partition in moves:
        if partition not in rates:
            raise WrongInput(f"{partition!r} migrated, but speeds has no entry for it")
    total = 0.0
    for partition, speed in rates.items():
        if partition in moves:
            total += speed
    return total / limit


def loads(
    speeds: Mapping[Partition, float], assignment: Mapping[Partition, int]
) -> dict[int, float]:
    """Return each consumer's load, summed in the assignment's order.

    A partition without a speed adds nothing.
    """
    total: dict[int, float] = {}
    for partition, consumer in assignment.items():
        total[consumer] = total.get(consumer, 0.0) + speeds.get(partition, 0.0)
    return total


def cbs(consumers: Mapping[Name, Sequence[float]]) -> dict[Name, float]:
    """Return each algorithm's Cardinal Bin Score from its number of consumers per iteration.

    Equation "CBS": how many more consumers than the algorithm with the fewest, as a fraction of
    the fewest, averaged over the iterations. Where the fewest are 0 (nothing to read), the
    difference is divided by 1.
    """
    counts = {len(series) for series in consumers.values()}
    if len(counts) > 1:
        raise WrongInput(
            f"every algorithm needs the same number of iterations, not {sorted(counts)}"
        )
    fewest = [min(z) for z in zip(*consumers.values(), strict=True)]
    return {
        name: _mean((z - least) / max(least, 1) for z, least in zip(series, fewest, strict=True))
        for name, series in consumers.items()
    }


def expected_rscore(rscores: Sequence[float]) -> float:
    """Return the mean Rscore of all iterations, the first included (equation "E(Rscore)")."""
    return _mean(rscores)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(sum(listed) / len(listed)) if listed else 0.0


def pareto_front(points: Mapping[Name, tuple[float, float]]) -> list[Name]:
    """Return the names whose point no other point dominates, in the mapping's order.

    A point dominates another if it is smaller in one coordinate (CBS, for example) and not larger
    in the other (E(Rscore)). Equal points do not dominate each other.
    """
    for name, point in points.items():
        if not all(x == x for x in point):
            raise WrongInput(f"the scores of {name!r} have to be numbers, not {point!r}")
    efficient: set[tuple[float, float]] = set()
    lowest: float | None = None
    # By the first coordinate, then the second: a point is dominated exactly if an earlier,
    # different point is as low in the second.
    for first, second in sorted({(first, second) for first, second in points.values()}):
        if lowest is None or second < lowest:
            efficient.add((first, second))
            lowest = second
    return [name for name, (first, second) in points.items() if (first, second) in efficient]
