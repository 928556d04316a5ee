"""How latency is distributed over bytes, in closed form.

A queue's latency is a line over its bytes, so its distribution is uniform between two latencies
(or one value, an atom, where the line is flat). Their sum is piecewise linear, and its quantiles
are exact at any rate, where a sample per byte would need as many samples as bytes.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lagless.lab.model.streams import Floats


@dataclass(frozen=True)
class Distribution:
    """Pieces of late bytes: `bytes[i]` spread evenly between latencies `low[i]` and `high[i]`."""

    bytes: Floats
    low: Floats
    high: Floats

    @cached_property
    def total(self) -> float:
        """Count the bytes with a latency above 0."""
        return float(self.bytes.sum())

    @property
    def max(self) -> float:
        """Return the longest latency in seconds, 0 if no byte is late."""
        return float(self.high.max(initial=0.0))

    @property
    def mean(self) -> float:
        """Return the mean latency of the late bytes in seconds, 0 if no byte is late."""
        if self.total == 0:
            return 0.0
        return float((self.bytes * (self.low + self.high) / 2).sum() / self.total)

    def below(self, latency: float) -> float:
        """Count the late bytes with a latency of at most so many seconds."""
        width = self.high - self.low
        within = np.clip(latency - self.low, 0.0, width)
        atom = (self.low <= latency).astype(np.float64)
        share = np.divide(within, width, out=atom, where=width > 0)
        return float((self.bytes * share).sum())

    def quantile(self, q: float) -> float:
        """Return the latency in seconds that the fraction q of the late bytes does not exceed.

        0 if no byte is late. O(m log m) in the number of pieces.
        """
        if self.total == 0:
            return 0.0
        wanted = min(q * self.total, self.total)
        points = np.unique(np.concatenate([self.low, self.high]))
        # The smallest breakpoint that has at least the wanted bytes at or below it.
        first = bisect_left(points, wanted, hi=len(points) - 1, key=self.below)
        if first == 0:
            return float(points[0])
        left, right = float(points[first - 1]), float(points[first])
        under = self.below(left)
        jump = float(self.bytes[(self.low == right) & (self.high == right)].sum())
        reached = self.below(right) - jump
        # Between two breakpoints the count is a line, apart from a jump at the right end.
        if wanted >= reached or reached <= under:
            return right
        return left + (right - left) * max(wanted - under, 0.0) / (reached - under)


def gather(lines: Iterable[tuple[Floats, Floats, Floats]]) -> Distribution:
    """Cut lines (bytes, latency at first byte, latency at last byte) at 0 and collect what is late.

    A line that ends below 0 counts only up to where it crosses.
    """
    kept: list[tuple[Floats, Floats, Floats]] = [(np.empty(0), np.empty(0), np.empty(0))]
    for written, begins, ends in lines:
        late = (written > 0) & ((begins > 0) | (ends > 0))
        size, begin, end = written[late], begins[late], ends[late]
        low, high = np.minimum(begin, end), np.maximum(begin, end)
        crossing = low < 0
        size = np.where(crossing, size * high / np.where(crossing, high - low, 1.0), size)
        kept.append((size, np.maximum(low, 0.0), high))
    return Distribution(*(np.concatenate(part) for part in zip(*kept, strict=True)))
