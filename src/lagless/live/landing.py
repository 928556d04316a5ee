"""What became of the records of a run, and how long each took to the lake."""

from pathlib import Path
from typing import Any

import numpy as np

from lagless.embedded import counting
from lagless.embedded.tally import Tally

SAMPLE = 2000
"""Delays that are kept, evenly over the sorted ones: enough to draw from."""


def account(lake: Path, topic: str, tally: Tally, begin: float, end: float) -> dict[str, Any]:
    """Count the lake, and give the delays of records produced between two times.

    A delay is from the record's timestamp in Kafka to the commit that made it readable.
    """
    count = counting.count(lake, {topic: topic}, tally.produced)
    every = np.concatenate(count.delays) if count.delays else np.empty(0)
    stamps = np.concatenate(count.stamps) if count.stamps else np.empty(0)
    delays = np.sort(every[(stamps >= begin) & (stamps < end)])
    return {
        "produced": count.produced,
        "landed": count.landed,
        "lost": count.lost,
        "duplicated": count.duplicated,
        "out_of_order": count.out_of_order,
        "records": len(delays),
        **{
            name: round(float(np.quantile(delays, q)), 3) if len(delays) else None
            for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        },
        "sample": sample(delays),
    }


def sample(ordered: "np.ndarray[Any, np.dtype[np.float64]]") -> list[float]:
    """Take values evenly from sorted ones, the least and the most among them."""
    if not len(ordered):
        return []
    places = np.linspace(0, len(ordered) - 1, min(SAMPLE, len(ordered))).round().astype(int)
    return [round(float(value), 3) for value in ordered[places]]
