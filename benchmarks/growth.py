"""Whether a figure that was sampled for a long time grows: medians of an early and a late quarter.

The first quarter is left out: caches fill, JVMs compile, and a heap takes what it may. A figure
grows if the last quarter's median is more than a tenth above the second one's, and by more than
what such figures wander by.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TENTH = 0.1
WANDERS = {"MB": 16.0, "handles": 4.0, "threads": 4.0, "s": 0.2, "entries": 400.0, "kB": 256.0}
"""How far a figure of each unit may be from one quarter to another, whatever its size."""


@dataclass(frozen=True, slots=True)
class Growth:
    """An early and a late median."""

    early: float
    late: float
    grows: bool


def growth(samples: Sequence[tuple[float, float]], unit: str) -> Growth | None:
    """Return how a figure went from the second quarter to the last; None with too few samples."""
    if len(samples) < 8:
        return None
    begin, end = samples[0][0], samples[-1][0]
    quarter = (end - begin) / 4
    second = [value for at, value in samples if begin + quarter <= at < begin + 2 * quarter]
    last = [value for at, value in samples if at >= end - quarter]
    if not second or not last:
        return None
    early, late = statistics.median(second), statistics.median(last)
    grows = late > early + max(WANDERS[unit], TENTH * abs(early))
    return Growth(early, late, grows)
