"""The records that a cycle reads, and the backlog of a consumer. No I/O.

Bytes are log bytes, as stored: offsets times bytes per offset, as the monitor measured them, or as
earlier cycles did where there is no monitor.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lagless.model import LONG_CYCLE, TopicPartition
from lagless.ports import Bounds, Positions, Span, Spans

Ends: TypeAlias = Mapping[TopicPartition, Bounds]
PROBE = 100
"""Offsets of a partition that are read while the size of its records is unknown."""
GROWTH = 8.0
"""How much larger than the last one a batch may be."""
REST = 1.0
"""Seconds to gather per second of a cycle: at most half of the time is spent in cycles."""
RECENT = 0.3
"""Weight of the last cycle in the typical one."""
KEPT = 600
"""Ends of a log that are remembered, to tell how long ago the next record was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """How much a cycle may take."""

    batch_bytes: float
    max_batch_bytes: float

    def budget(self, backlog: float, cycle_seconds: float, last: float = math.inf) -> float:
        """Return the bytes that the next cycle may read; a backlog allows larger batches.

        `last` are the bytes of the last cycle: a batch grows from there, and shrinks if that took
        too long.
        """
        growth = GROWTH if cycle_seconds <= LONG_CYCLE else LONG_CYCLE / cycle_seconds
        largest = min(self.max_batch_bytes, max(self.batch_bytes, last * growth))
        return min(max(self.batch_bytes, backlog), largest)


@dataclass(slots=True)
class Wait:
    """How long a consumer gathers from one cycle to the next.

    What a cycle costs hardly depends on how much it reads while that is little, so the wait follows
    the cost: as long as a cycle takes. Where Spark is idle and cycles are quick, records are read
    soon. The more there is to do, for this consumer or for others that share its Spark, the longer
    cycles take, and the more is gathered for each of them and for each file.
    """

    shortest: float
    longest: float
    typical: float = math.inf
    """Running mean of the seconds that a cycle takes."""

    def learn(self, cycle_seconds: float) -> None:
        """Learn from a cycle."""
        known = self.typical if math.isfinite(self.typical) else cycle_seconds
        self.typical = known + RECENT * (cycle_seconds - known)

    def seconds(self, total: float, allowed: float) -> float:
        """Return how long to gather, if `total` bytes are there and `allowed` may be read.

        Where a quota holds the consumer back, reading sooner would only make files smaller.
        """
        if total > allowed:
            return self.longest
        return min(self.longest, max(self.shortest, REST * self.typical))


@dataclass(slots=True)
class Quota:
    """Bytes per second that a consumer is held to, saved up from one cycle to the next.

    Bytes that were granted and not read may be read later, up to `savings` seconds of them: so a
    consumer that waits between cycles reaches its rate, and does not burst after a long pause.
    """

    rate: float | None
    savings: float
    spent_until: float
    """When the bytes that were read last are paid for."""

    def left(self, now: float) -> float:
        """Return the bytes that may be read now; less than 0 if too many were read."""
        if self.rate is None:
            return math.inf
        return self.rate * min(now - self.spent_until, self.savings)

    def spend(self, began: float, read: float) -> None:
        """Pay for what a cycle read, from when it began."""
        if self.rate is not None:
            self.spent_until = max(self.spent_until, began - self.savings) + read / self.rate


def backlog(positions: Positions, bounds: Ends) -> Spans:
    """Return what there is to read of each partition, without what Kafka deleted."""
    return {
        p: Span(max(at.offset, bounds[p].earliest), bounds[p].end, bounds[p].epoch)
        for p, at in positions.items()
        if p in bounds and bounds[p].end > max(at.offset, bounds[p].earliest)
    }


def deleted(positions: Positions, bounds: Ends) -> Spans:
    """Return what Kafka deleted before it was read."""
    return {
        p: Span(at.offset, bounds[p].earliest, bounds[p].epoch)
        for p, at in positions.items()
        if p in bounds and at.offset < bounds[p].earliest
    }


def beyond(positions: Positions, bounds: Ends) -> Spans:
    """Return where the table is past the log's end, which cannot be under the same topic id."""
    return {
        p: Span(bounds[p].end, at.offset)
        for p, at in positions.items()
        if p in bounds and at.offset > bounds[p].end
    }


def succeeded(positions: Positions, bounds: Ends) -> dict[TopicPartition, int]:
    """Return the epochs of positions whose leader has a successor: it may lack records."""
    return {
        p: at.epoch
        for p, at in positions.items()
        if p in bounds and 0 <= at.epoch < bounds[p].epoch
    }


def choose(
    available: Spans,
    weights: Mapping[TopicPartition, float],
    budget: float,
    limit: int | None = None,
) -> Spans:
    """Return what to read for about `budget` bytes, shared by backlog, at most `limit` offsets.

    A partition without a weight is probed. At least one offset is chosen if there is any, so that
    a record larger than the budget is read too.
    """
    bytes_of = {p: len(span) * weights[p] for p, span in available.items() if p in weights}
    total = sum(bytes_of.values())
    share = min(1.0, budget / total) if total > 0 else 1.0
    counts = {
        p: math.floor(len(span) * share) if p in weights else min(len(span), PROBE)
        for p, span in available.items()
    }
    if available and not any(counts.values()):
        # Less than one offset for each: the longest backlog first, equals by name.
        longest = min(available, key=lambda p: (-len(available[p]), p))
        counts[longest] = 1
    if limit is not None:
        left = max(1, limit)
        for p in sorted(counts):
            counts[p] = min(counts[p], left)
            left -= counts[p]
    return {
        p: Span(available[p].first, available[p].first + count, available[p].epoch)
        for p, count in counts.items()
        if count > 0
    }


def next_batch(
    available: Spans, chosen: Spans, weights: Mapping[TopicPartition, float], budget: float
) -> Spans:
    """Return what comes after `chosen` if a full batch is there already; else nothing."""
    rest = {
        p: Span(chosen[p].until if p in chosen else span.first, span.until, span.epoch)
        for p, span in available.items()
    }
    rest = {p: span for p, span in rest.items() if len(span) > 0}
    if any(p not in weights for p in rest):
        return {}
    full = sum(len(span) * weights[p] for p, span in rest.items()) >= budget
    return choose(rest, weights, budget) if full else {}


def follow(begun: Spans, available: Spans) -> Spans:
    """Return the spans that were begun ahead, if all of them are still next; else nothing."""
    fits = all(
        p in available and available[p].first == span.first and available[p].until >= span.until
        for p, span in begun.items()
    )
    return dict(begun) if fits else {}


@dataclass(slots=True)
class Weights:
    """Bytes per offset, as the monitor measured them, or else as cycles did, per topic."""

    monitored: Mapping[TopicPartition, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Return the bytes per offset of the partitions for which they are known."""
        known = {p: self.monitored.get(p) or self.measured.get(p.topic) for p in partitions}
        return {p: weight for p, weight in known.items() if weight}

    def measure(self, topic: str, offsets: int, size: float) -> None:
        """Learn from a cycle; larger records count at once, smaller ones gradually."""
        if offsets <= 0 or size <= 0:
            return
        seen = size / offsets
        before = self.measured.get(topic, seen)
        self.measured[topic] = seen if seen > before else max(before / GROWTH, (before + seen) / 2)


@dataclass(slots=True)
class Limits:
    """Most offsets of a topic per cycle, while something in it cannot be read at once."""

    offsets: dict[str, int] = field(default_factory=dict)

    def halve(self, topic: str, tried: int) -> int:
        """Read half of what was tried next time."""
        self.offsets[topic] = max(1, tried // 2)
        return self.offsets[topic]

    def relax(self, topic: str, enough: int) -> None:
        """Read twice as much next time, and without a limit once that is enough."""
        limit = self.offsets.pop(topic, None)
        if limit is not None and limit * 2 <= max(enough, 1000):
            self.offsets[topic] = limit * 2


@dataclass(slots=True)
class Delays:
    """How long ago the next record was written, by when the log's end went past it."""

    ends: dict[TopicPartition, list[tuple[float, int]]] = field(default_factory=dict)

    def see(self, at: float, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Remember where the logs end now."""
        for p, bound in bounds.items():
            seen = self.ends.setdefault(p, [])
            if not seen or seen[-1][1] != bound.end:
                seen.append((at, bound.end))
                if len(seen) > KEPT:
                    # Every other one: the oldest must stay.
                    del seen[1::2]
        self.ends = {p: self.ends[p] for p in bounds}

    def seconds(self, at: float, positions: Mapping[TopicPartition, int]) -> float:
        """Return the age of the oldest unread record, over all partitions."""
        worst = 0.0
        for p, offset in positions.items():
            seen = self.ends.get(p, [])
            while len(seen) > 1 and seen[0][1] <= offset:
                del seen[0]
            if seen and seen[0][1] > offset:
                worst = max(worst, at - seen[0][0])
        return worst
