"""The streams of the latency parts, and one run of a group on them.

`stream` is the paper's with δ = 5, sized for a small machine. A consumer is limited to
C̄ = 200 kB/s, so that 8 partitions need about five of them, which two cores can run; with twice as
many every group waits for the machine. Speeds start anywhere in [0, C], which is skewed enough
that equal counts are not equal loads. `skewed` brings about as much in four times as many
partitions, few of them hot and most of them cold, as keys that are not equally frequent do.
"""

import itertools
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lagless import model
from lagless.lab.load import counting, flows
from lagless.lab.load.account import Tally
from lagless.lab.load.flows import Flow
from lagless.lab.model import latency, streams
from lagless.lab.model.streams import Floats
from lagless.lab.testbed import Testbed

PACKED = ("mwf", "sticky")
"""What lagless packs with; all other groups are told from it."""
PARTITIONS = 8
DELTA = 5.0
MAX_RATE = 200_000.0
ITERATION, REBALANCE = 15.0, 2.5
"""Seconds; the paper's ratio of 30 and 5, at half the time, so that a short run has many rows."""
SETTLE = 4
"""Rows at the beginning, all like the first, whose records do not count."""
RECORD = 510.0
"""Log bytes of a record."""
MODEL = latency.Model(MAX_RATE, ITERATION, REBALANCE)
CAPACITY = model.capacity(MAX_RATE, ITERATION, REBALANCE)


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of bytes/s, each for an iteration; the first is held for longer, to settle."""

    speeds: Floats

    @property
    def partitions(self) -> int:
        """Count the partitions."""
        return int(self.speeds.shape[1])

    @property
    def settle(self) -> float:
        """Seconds before records count."""
        return SETTLE * ITERATION

    @property
    def seconds(self) -> float:
        """Seconds of the whole stream."""
        return self.settle + (len(self.speeds) - 1) * ITERATION

    def at(self, passed: float) -> Floats:
        """Return the speeds at a time from the load's start."""
        row = int((passed - self.settle) / ITERATION) + 1 if passed >= self.settle else 0
        found: Floats = self.speeds[min(row, len(self.speeds) - 1)]
        return found

    def flow(self, topic: str) -> Flow:
        """Return the flow of the load."""
        rows = np.vstack([np.repeat(self.speeds[:1], SETTLE, axis=0), self.speeds[1:]])
        return Flow(flows.spread({topic: self.partitions}), rows, ITERATION)


def stream(minutes: float, seed: int) -> Stream:
    """Draw the stream: the first row settles, the rest lasts so many minutes."""
    rng = np.random.default_rng(seed)
    return Stream(streams.speeds("random", DELTA, PARTITIONS, _rows(minutes), CAPACITY, rng))


MANY = 32
"""Partitions of the skewed stream."""
SKEW = 1.0
"""The exponent of Zipf's law: the k-th busiest partition gets 1/k of what the busiest gets."""
BUSIEST = 0.75
"""What the busiest partition gets at first, as a fraction of what a consumer can read."""


def zipf(skew: float) -> Floats:
    """Return the speeds of the skewed stream, the busiest first; any skew gives the same total."""
    ranks = np.arange(1.0, MANY + 1)
    total = BUSIEST * MAX_RATE * (ranks**-SKEW).sum()
    speeds: Floats = total * ranks**-skew / (ranks**-skew).sum()
    return speeds


def skewed(minutes: float, rng: np.random.Generator) -> Stream:
    """Draw which partitions are hot, and let each speed walk by up to δ percent of itself.

    No partition gets more than C, so that a consumer can keep up with each.
    """
    rows = np.empty((_rows(minutes), MANY))
    rows[0] = rng.permutation(zipf(SKEW))
    for before, row in itertools.pairwise(rows):
        row[:] = np.minimum(before * (1 + rng.uniform(-DELTA, DELTA, MANY) / 100), CAPACITY)
    return Stream(rows)


def _rows(minutes: float) -> int:
    return 1 + max(1, math.ceil(60 * minutes / ITERATION))


PATIENCE = 90.0
"""Seconds for a group to read what is left when the load has ended."""
EVERY = 1.0
"""Seconds between two looks at how many consumers there are."""

Group = AbstractContextManager[Callable[[float], int]]
"""A group that runs while entered; called with the time, it returns its number of consumers."""


@dataclass(slots=True)
class Line:
    """The number of consumers over time; one point per change."""

    points: list[tuple[float, int]] = field(default_factory=list)

    def see(self, at: float, count: int) -> None:
        """Add an observation."""
        if not self.points or self.points[-1][1] != count:
            self.points.append((round(at, 1), count))

    def mean(self, begin: float, end: float) -> float:
        """Return the mean between two times."""
        total = 0.0
        for (at, count), (until, _) in itertools.pairwise([*self.points, (end, 0)]):
            total += count * max(0.0, min(until, end) - max(at, begin))
        return total / (end - begin)


def run(
    bed: Testbed, topic: str, stream: Stream, group: Group, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Let the group read the stream, and count what it landed; times are from the load's start.

    `progress` is told how much of the stream has passed, in percent.
    """
    bed.make_topics({topic: stream.partitions})
    line = Line()
    with group as size:
        began = bed.start_load(stream.flow(topic))
        while (passed := time.time() - began) < stream.seconds:
            bed.children.check()
            line.see(passed, size(passed))
            progress(int(99 * passed / stream.seconds))
            time.sleep(EVERY)
        tally = bed.end_load()
        until = time.monotonic() + PATIENCE
        while not _landed(bed.lake, topic, tally) and time.monotonic() < until:
            size(time.time() - began)
            time.sleep(0.5)
        drained = time.time() - began - stream.seconds
    counted = account(bed.lake, topic, tally, began + stream.settle, began + stream.seconds)
    return {
        **counted,
        # What was still in Kafka at the end is neither lost nor in the delays.
        "unread": counted["lost"] - counted["skipped"],
        "lost": counted["skipped"],
        "drained": round(drained, 1),
        "settle": stream.settle,
        "seconds": stream.seconds,
        "bytes_per_second": round(tally.bytes / max(tally.seconds, 1.0)),
        "consumers": round(line.mean(stream.settle, stream.seconds), 2),
        "line": line.points,
    }


def _landed(lake: Path, topic: str, tally: Tally) -> bool:
    """Return whether every record is in the lake; rows alone may be the same records twice."""
    if counting.arrived(lake, [topic]) < tally.records:
        return False
    return counting.count(lake, {topic: topic}, tally.produced).lost == 0


SAMPLE = 2000
"""Delays that are kept, evenly over the sorted ones: enough to draw from."""


def account(lake: Path, topic: str, tally: Tally, begin: float, end: float) -> dict[str, Any]:
    """Count the lake, and return the delays of records produced between two times.

    A delay is from the record's timestamp in Kafka to the commit that made it readable.
    """
    count = counting.count(lake, {topic: topic}, tally.produced)
    every = np.concatenate([np.empty(0), *count.delays])
    stamps = np.concatenate([np.empty(0), *count.stamps])
    delays = np.sort(every[(stamps >= begin) & (stamps < end)])
    counts = ("produced", "landed", "lost", "skipped", "duplicated", "out_of_order")
    return {
        **{name: getattr(count, name) for name in counts},
        "records": len(delays),
        **{
            name: round(float(np.quantile(delays, q)), 3) if len(delays) else None
            for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
        },
        "sample": sample(delays),
    }


def sample(ordered: "np.ndarray[Any, np.dtype[np.float64]]") -> list[float]:
    """Return values taken evenly from sorted ones, with the least and the most."""
    if not len(ordered):
        return []
    places = np.linspace(0, len(ordered) - 1, min(SAMPLE, len(ordered))).round().astype(int)
    return [round(float(value), 3) for value in ordered[places]]
