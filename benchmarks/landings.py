"""What landed in a Delta table and when, from the table's own log; rates, and when one is steady.

A commit of a consumer names the next offset of each partition (`<group>/<topic>/<id>/<partition>`)
and the time. Bytes are log bytes: offsets times the bytes per offset of the partition's log.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STEADY = 3
"""Stretches in a row that must agree, until a rate counts as steady."""
WITHIN = 0.08
"""They agree if the fastest is so much faster than the slowest, as a share of their mean."""


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit: the time, and the next offset of each partition in it."""

    at: float
    offsets: dict[int, int]


def parse(entry: str) -> Landing:
    """Return what an entry of the table's log says."""
    at, offsets = 0.0, {}
    for line in entry.splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            at = action["commitInfo"]["timestamp"] / 1000
        elif "txn" in action:
            partition = action["txn"]["appId"].rpartition("/")[2]
            if partition.isdigit():
                offsets[int(partition)] = action["txn"]["version"]
    return Landing(at, offsets)


@dataclass(slots=True)
class TableLog:
    """Follows a table's log, entry by entry."""

    table: Path
    next: int = 0

    def read(self) -> list[Landing]:
        """Return the entries that were not read yet."""
        found: list[Landing] = []
        while True:
            entry = self.table / "_delta_log" / f"{self.next:020}.json"
            try:
                text = entry.read_text()
            except FileNotFoundError:
                return found
            found.append(parse(text))
            self.next += 1


@dataclass(slots=True)
class Curve:
    """Bytes that landed by a time, over some partitions: from nothing, a point per commit."""

    partitions: frozenset[int]
    size: float
    """Log bytes per offset."""
    points: list[tuple[float, float]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)

    def add(self, landings: Iterable[Landing]) -> None:
        """Take in commits."""
        for landing in landings:
            mine = {p: offset for p, offset in landing.offsets.items() if p in self.partitions}
            if any(offset > self.offsets.get(p, 0) for p, offset in mine.items()):
                self.offsets |= mine
                self.points.append((landing.at, self.size * sum(self.offsets.values())))

    @property
    def first(self) -> float | None:
        """The time at which the first rows landed."""
        return self.points[0][0] if self.points else None

    def rate(self, since: float, until: float) -> float | None:
        """Return bytes/s from the first commit of a window to its last; None with too few.

        Counted from commit to commit, a rate does not depend on where in a cycle a window begins.
        """
        inside = [point for point in self.points if since <= point[0] <= until]
        if len(inside) < 3:
            return None
        (t0, b0), (t1, b1) = inside[0], inside[-1]
        return (b1 - b0) / (t1 - t0)

    def at(self, moment: float) -> float:
        """Return the bytes that had landed by a moment; between two commits, in proportion."""
        before = (self.points[0][0], 0.0) if self.points else (0.0, 0.0)
        for point in self.points:
            if point[0] > moment:
                if before[1] == 0:
                    return 0.0
                share = (moment - before[0]) / (point[0] - before[0])
                return before[1] + share * (point[1] - before[1])
            before = point
        return before[1]


def is_steady(rates: Sequence[float | None]) -> bool:
    """Return whether the rates of the last stretches agree."""
    last = [rate for rate in rates[-STEADY:] if rate is not None]
    if len(last) < STEADY or min(last) <= 0:
        return False
    return max(last) - min(last) <= WITHIN * sum(last) / len(last)


def ratios(rates: dict[int, float]) -> dict[str, float]:
    """Return the rate of each number of consumers over the rate of one."""
    return {str(number): rate / rates[1] for number, rate in sorted(rates.items()) if number > 1}


def half_after(curve: Curve, request: float, steady: float, span: float = 4.0) -> float | None:
    """Return the seconds from the request until half of the steady rate is reached, and kept.

    The rate at a moment is the mean over the `span` seconds around it. It is kept if the whole rest
    of the curve is above a half on average from there on, stretch by stretch of twice the span.
    """
    if not curve.points:
        return None
    end = curve.points[-1][0]
    moment = curve.points[0][0]
    while moment + span <= end:
        here = (curve.at(moment + span / 2) - curve.at(moment - span / 2)) / span
        after = (curve.at(min(end, moment + 2 * span)) - curve.at(moment)) / (
            min(end, moment + 2 * span) - moment
        )
        if here >= steady / 2 and after >= steady / 2:
            return moment - request
        moment += 0.25
    return None


def binned(curve: Curve, request: float, until: float, step: float = 2.0) -> list[float]:
    """Return MB/s in each step of seconds after the request."""
    steps = int((until - request) / step)
    edges = [curve.at(request + number * step) for number in range(steps + 1)]
    return [(b - a) / step / 1e6 for a, b in itertools.pairwise(edges)]
