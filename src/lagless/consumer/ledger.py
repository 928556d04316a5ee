"""What a cycle reads, and how far behind a consumer is. No I/O.

Bytes are log bytes, as stored: offsets times bytes per offset, as the monitor measured them, or as
earlier cycles did where there is no monitor.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lagless.model import LONG_CYCLE, TopicPartition
from lagless.ports import Bounds, Position, Span

PROBE = 100
"""Offsets of a partition that are read while nobody knows how large its records are."""
GROWTH = 8.0
"""How much larger than the last one a batch may be."""
KEPT = 600
"""Ends of a partition that are remembered, to tell how long ago the next record was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """How much a cycle may take."""

    batch_bytes: float
    max_batch_bytes: float

    def budget(self, backlog: float, cycle_seconds: float, last: float = math.inf) -> float:
        """Give the bytes that the next cycle may read; a backlog allows larger batches.

        `last` are the bytes of the last cycle: a batch grows from there, and shrinks where that
        took too long.
        """
        growth = GROWTH if cycle_seconds <= LONG_CYCLE else LONG_CYCLE / cycle_seconds
        largest = min(self.max_batch_bytes, max(self.batch_bytes, last * growth))
        return min(max(self.batch_bytes, backlog), largest)


@dataclass(slots=True)
class Quota:
    """Bytes per second that a consumer is held to, saved up from one cycle to the next.

    What was not read in a while may be read later, but for what is older than `savings` seconds:
    so a consumer that waits for bytes between cycles reads all of its rate, and none bursts.
    """

    rate: float | None
    savings: float
    spent_until: float
    """When the bytes that were read last are paid for."""

    def left(self, now: float) -> float:
        """Give the bytes that may be read now; less than 0 where too many were read."""
        if self.rate is None:
            return math.inf
        return self.rate * min(now - self.spent_until, self.savings)

    def spend(self, began: float, read: float) -> None:
        """Pay for what a cycle read, from when it began."""
        if self.rate is not None:
            self.spent_until = max(self.spent_until, began - self.savings) + read / self.rate


def backlog(
    positions: Mapping[TopicPartition, Position], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Span]:
    """Give what is there to be read of each partition; what was deleted is not there."""
    return {
        p: Span(max(at.offset, bounds[p].earliest), bounds[p].end)
        for p, at in positions.items()
        if p in bounds and bounds[p].end > max(at.offset, bounds[p].earliest)
    }


def deleted(
    positions: Mapping[TopicPartition, Position], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Span]:
    """Give what Kafka deleted before it was read."""
    return {
        p: Span(at.offset, bounds[p].earliest)
        for p, at in positions.items()
        if p in bounds and at.offset < bounds[p].earliest
    }


def beyond(
    positions: Mapping[TopicPartition, Position], bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Span]:
    """Give where the table is past the log's end, which cannot be under the same topic id."""
    return {
        p: Span(bounds[p].end, at.offset)
        for p, at in positions.items()
        if p in bounds and at.offset > bounds[p].end
    }


def choose(
    available: Mapping[TopicPartition, Span],
    weights: Mapping[TopicPartition, float],
    budget: float,
    limit: int | None = None,
) -> dict[TopicPartition, Span]:
    """Choose what to read for about `budget` bytes, shared by backlog, at most `limit` offsets.

    A partition without a weight is probed. At least one offset is chosen if there is any, so that
    a record larger than the budget is read too.
    """
    bytes_of = {p: len(span) * weights[p] for p, span in available.items() if p in weights}
    total = sum(bytes_of.values())
    share = min(1.0, budget / total) if total > 0 else 1.0
    counts = {
        p: min(len(span), PROBE)
        if p not in weights
        else len(span)
        if share >= 1
        else math.floor(len(span) * share)
        for p, span in available.items()
    }
    if available and not any(counts.values()):
        # Less than one offset for each: the longest backlog first, equals by name.
        longest = min(available, key=lambda p: (-len(available[p]), p))
        counts[longest] = 1
    if limit is not None:
        counts = _limited(counts, max(1, limit))
    return {
        p: Span(available[p].first, available[p].first + count)
        for p, count in counts.items()
        if count > 0
    }


def next_batch(
    available: Mapping[TopicPartition, Span],
    chosen: Mapping[TopicPartition, Span],
    weights: Mapping[TopicPartition, float],
    budget: float,
) -> dict[TopicPartition, Span]:
    """Choose what comes after `chosen` if a full batch is there already; else nothing."""
    rest = {
        p: Span(chosen[p].until if p in chosen else span.first, span.until)
        for p, span in available.items()
    }
    rest = {p: span for p, span in rest.items() if len(span) > 0}
    if any(p not in weights for p in rest):
        return {}
    full = sum(len(span) * weights[p] for p, span in rest.items()) >= budget
    return choose(rest, weights, budget) if full else {}


def follow(
    begun: Mapping[TopicPartition, Span], available: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, Span]:
    """Give what was begun ahead, if all of it is still to be read just so; else nothing."""
    fits = all(
        p in available and available[p].first == span.first and available[p].until >= span.until
        for p, span in begun.items()
    )
    return dict(begun) if fits else {}


def _limited(counts: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """Take partitions one after the other until the limit is reached."""
    left = limit
    taken = {}
    for p in sorted(counts):
        taken[p] = min(counts[p], left)
        left -= taken[p]
    return taken


@dataclass(slots=True)
class Weights:
    """Bytes per offset: the monitor's word, or else what cycles measured, per topic."""

    monitored: Mapping[TopicPartition, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Give the bytes per offset of those partitions of which they are known."""
        known = {}
        for p in partitions:
            weight = self.monitored.get(p) or self.measured.get(p.topic)
            if weight:
                known[p] = weight
        return known

    def measure(self, topic: str, offsets: int, size: float) -> None:
        """Learn from a cycle; larger records are believed at once, smaller ones by and by."""
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
        limit = self.offsets.get(topic)
        if limit is not None:
            if limit * 2 > max(enough, 1000):
                del self.offsets[topic]
            else:
                self.offsets[topic] = limit * 2


@dataclass(slots=True)
class Delays:
    """How long ago the next record to be read was written, told by when the end went past it."""

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
        for p in [p for p in self.ends if p not in bounds]:
            del self.ends[p]

    def seconds(self, at: float, positions: Mapping[TopicPartition, int]) -> float:
        """Give the age of the oldest record that is not yet read, over all partitions."""
        worst = 0.0
        for p, offset in positions.items():
            seen = self.ends.get(p, [])
            while len(seen) > 1 and seen[0][1] <= offset:
                del seen[0]
            if seen and seen[0][1] > offset:
                worst = max(worst, at - seen[0][0])
        return worst
