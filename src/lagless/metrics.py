"""Metrics as data, independent of Prometheus.

Each role has a file `metrics` with a list METRICS. One entry is all it takes to add a metric:
`adapters.endpoints` answers scrapes from the list, and the reference page is written from it.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

Role = TypeVar("Role")


@dataclass(slots=True)
class Distribution:
    """Observations counted by upper bound, as a histogram shows them."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    """Observations up to each bound and above the one before; the last count has no bound."""
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


Value: TypeAlias = float | Mapping[tuple[str, ...], float] | Distribution | None
"""A number, numbers by the values of the labels, a distribution, or None while unknown."""


@dataclass(frozen=True, slots=True)
class Metric(Generic[Role]):
    """One metric of a role."""

    name: str
    """Without the `_total` that Prometheus appends to a counter's name."""
    help: str
    """One sentence with a full stop."""
    read: Callable[[Role, float], Value]
    """Return the value, from the role's state and the time."""
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: tuple[str, ...] = ()
