"""The stream that the latency parts put on Kafka: the paper's, with δ = 5, held to a small machine.

A consumer is held to C̄ = 200 kB/s, so that 8 partitions need about five of them, which two cores
can run; with twice as many every group waits for the machine. Speeds start anywhere in [0, C],
which is skewed enough that equal counts are not equal loads.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lagless import model
from lagless.embedded import flows
from lagless.simulation import latency, streams
from lagless.simulation.streams import Floats

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
    def settle(self) -> float:
        """Seconds before records count."""
        return SETTLE * ITERATION

    @property
    def seconds(self) -> float:
        """Seconds of the whole stream."""
        return self.settle + (len(self.speeds) - 1) * ITERATION

    def write(self, file: Path, topic: str) -> None:
        """Write the flow of the load generator."""
        rows = np.vstack([np.repeat(self.speeds[:1], SETTLE, axis=0), self.speeds[1:]])
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([f"{p.topic}:{p.partition}" for p in flows.spread({topic: PARTITIONS})])
            writer.writerows([f"{speed:.0f}" for speed in row] for row in rows.tolist())


def stream(minutes: float, seed: int) -> Stream:
    """Draw the stream: the first row settles, the rest lasts so many minutes."""
    rows = 1 + max(1, math.ceil(60 * minutes / ITERATION))
    rng = np.random.default_rng(seed)
    return Stream(streams.speeds("random", DELTA, PARTITIONS, rows, CAPACITY, rng))
