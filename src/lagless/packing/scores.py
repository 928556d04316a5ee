"""What an assignment costs: migrations, Rscore, CBS, and which algorithms are worth their price.

Paper, sections "Rscore" and "Performance Metrics". The functions on mappings check what they get;
`moved` and `moved_rate` are on arrays, for replaying streams, and check nothing.
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


def moved(previous: NDArray[np.int64], current: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each partition whether it migrated; 0 is no consumer, before or after."""
    found: NDArray[np.bool_] = (previous != current) & (previous > 0) & (current > 0)
    return found


def moved_rate(
    speeds: NDArray[np.float64], previous: NDArray[np.int64], current: NDArray[np.int64]
) -> float:
    """Sum the speeds of the migrated partitions; divided by the capacity this is the Rscore."""
    rates = speeds[moved(previous, current)]
    return float(rates.cumsum()[-1]) if len(rates) else 0.0


def migrations(
    previous: Mapping[Partition, int] | None, current: Mapping[Partition, int]
) -> list[Partition]:
    """List the partitions that have a consumer before and another one after.

    Arrivals and departures are not migrations: a partition's column of Δ(k) has to hold both a 1
    and a -1.
    """
    if not previous:
        return []
    return [j for j, consumer in current.items() if j in previous and previous[j] != consumer]


def rscore(
    speeds: Mapping[Partition, float],
    capacity: float,
    previous: Mapping[Partition, int] | None,
    current: Mapping[Partition, int],
) -> float:
    """Sum the speeds of the migrated partitions over the capacity (equation "Rscore")."""
    from lagless.packing import inputs  # numpy is loaded when it is first needed

    limit = inputs.positive(capacity)
    rates = dict(zip(speeds, inputs.measured(speeds).tolist(), strict=True))
    if previous is not None:
        inputs.numbered(previous, "previous")
    inputs.numbered(current, "current")
    moves = set(migrations(previous, current))
    for partition in moves:
        if partition not in rates:
            raise WrongInput(f"{partition!r} migrated, but speeds has no speed of it")
    total = 0.0
    for partition, speed in rates.items():
        if partition in moves:
            total += speed
    return total / limit


def catch_up_seconds(rscore: float, rebalance_seconds: float) -> float:
    """Give the time that a dedicated consumer needs for what was written while partitions moved."""
    return rscore * rebalance_seconds


def cbs(consumers: Mapping[Name, Sequence[float]]) -> dict[Name, float]:
    """Give each algorithm's Cardinal Bin Score from its number of consumers in each iteration.

    Equation "CBS": how many more consumers than the algorithm with the fewest, relative to that,
    averaged over the iterations, as a fraction. An iteration in which some algorithm needs no
    consumer at all (nothing to read) is taken relative to one.
    """
    counts = {len(series) for series in consumers.values()}
    if len(counts) > 1:
        raise WrongInput(f"every algorithm needs as many iterations, not {sorted(counts)}")
    fewest = [min(z) for z in zip(*consumers.values(), strict=True)]
    return {
        name: _mean((z - least) / max(least, 1) for z, least in zip(series, fewest, strict=True))
        for name, series in consumers.items()
    }


def expected_rscore(rscores: Sequence[float]) -> float:
    """Average the Rscore over all iterations, the first one included (equation "E(Rscore)")."""
    return _mean(rscores)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(sum(listed) / len(listed)) if listed else 0.0


def pareto_front(points: Mapping[Name, tuple[float, float]]) -> list[Name]:
    """List the names whose point no other point dominates, in the order given.

    A point dominates another if it is smaller in one coordinate (say CBS) and not larger in the
    other (say E(Rscore)). Equal points do not dominate each other: they are in or out together.
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
