"""The consumers that no assignment can do without, whoever decides and whatever is known.

While partitions are written to faster than their consumer reads, bytes are late. So a stream
without late bytes takes, at each measurement, at least as many consumers as its speeds need bins of
C̄. Moves and starts cost nothing here: it is a bound, and no group reaches it in general.
"""

import numpy as np

from lagless.lab.model.streams import Floats

LEVELS = 64
"""Sizes that are tried as the smallest that counts; more sharpen the bound little."""


def consumers(speeds: Floats, max_rate: float) -> int:
    """Return a lower bound on the bins that speeds need: Martello and Toth's L2.

    What is faster than C̄ has a consumer of its own, which is late in any case.
    """
    sizes = np.sort(np.minimum(speeds / max_rate, 1.0))
    halves = sizes[sizes <= 0.5]
    levels = np.append(0.0, halves[:: -(-len(halves) // LEVELS) or 1])
    total = np.append(0.0, np.cumsum(sizes))

    def above(bound: Floats | float) -> np.ndarray:
        return np.asarray(np.searchsorted(sizes, bound, "right"))

    large, half = above(1.0 - levels), above(0.5)
    small = np.searchsorted(sizes, levels, "left")
    # Those above half cannot share, and those above 1 − level take nothing of what counts.
    room = (large - half) - (total[large] - total[half])
    rest = np.ceil(total[half] - total[small] - room - 1e-9)
    return max(1, int((len(sizes) - half + np.maximum(rest, 0.0)).max()))


def consumer_hours(speeds: Floats, max_rate: float, step: float) -> float:
    """Return the least consumer-hours of a stream without late bytes."""
    return sum(consumers(row, max_rate) for row in speeds) * step / 3600
