"""The sliding window: from log sizes to bytes appended per second. Pure.

Paper, section "Monitor": speed = (last − first) bytes / (last − first) time over the last 30 s.
A log's size is not what was appended to it, since Kafka also deletes. So each step from one
measurement to the next is turned into the bytes appended in it, by these rules:

1. Same topic, leader and start offset, and the size did not shrink: the growth.
2. The topic was made anew: all that its new log holds.
3. The start moved (retention, deleted records), the leader moved, or the size shrank: the
   end offsets' difference times the bytes per offset seen, but no less than the growth and no more
   than the log holds, as far as that is certain.
4. If the start moved, what was deleted had its cost noted when it was appended. Growth plus that
   is better than rule 3, whose bytes per offset change with batches and compression. But deleted
   records may leave their bytes behind: then it is the growth alone. Rule 3 says which of both.
5. A log that shrank in place is being compacted: growth is then only a lower bound, and rule 3
   holds for its steps, with the highest bytes per offset of late instead of their mean.
6. A log without an answer makes no step: its speed stays, and the next step spans the gap.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

from lagless.model import TopicPartition
from lagless.ports import LogSize, Measurement

LATE = 0.02
"""Share of the window by which a measurement may be late and still be its first."""
ABSENCES = 2
"""Measurements in a row that must miss a partition until it counts as gone."""
HALF_LIFE = 1.0
"""Windows after which a step counts half in the mean of bytes per offset."""
AGREE = 0.5
"""By how much rules 3 and 4 may differ and still tell of the same."""
DOUBT = 3.0
"""How many times nearer to rule 3 growth alone must be than growth and what was deleted."""
WHOLE = 0.25
"""By how much a log's size may differ from the cost noted of it and still be all of it."""
KNOTS = 16
"""Places of a log whose cost is noted; of old ones every other is forgotten."""
COMPACTED = 10.0
"""Windows for which a log that shrank in place counts as compacted, and after which the highest
bytes per offset seen is forgotten by half."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of one partition after a measurement."""

    speed: float
    """Bytes per second."""
    bytes_per_offset: float | None
    measured_at: float
    stale: bool


class Knots:
    """What it had cost to append a log up to some of its offsets: (offset, bytes), ascending."""

    __slots__ = ("_knots",)

    def __init__(self, knots: list[tuple[int, float]]) -> None:
        self._knots = knots

    def cost(self, begin: int, end: int) -> float:
        """Give the bytes between two offsets."""
        return max(0.0, self._up_to(end) - self._up_to(begin))

    def add(self, start: int, end: int, total: float) -> None:
        """Note the cost up to the log's end, and forget what lies before its start."""
        knots = self._knots
        if end <= knots[-1][0]:  # cut off, or nothing new
            while len(knots) > 1 and knots[-1][0] >= end:
                knots.pop()
        knots.append((end, total))
        while len(knots) > 2 and knots[1][0] <= start:
            knots.pop(0)
        if len(knots) > KNOTS:
            del knots[1 : KNOTS // 2 : 2]

    def fit(self, size: LogSize) -> None:
        """Let the cost of what is there be the log's size, lest an error comes back when it goes.

        A log that holds much more or less than it should holds something else, too: leave it.
        """
        noted = self.cost(size.start_offset, size.end_offset)
        if noted > 0 and abs(size.bytes / noted - 1) <= WHOLE:
            share, (_, total) = size.bytes / noted, self._knots[-1]
            self._knots = [(offset, total - (total - cost) * share) for offset, cost in self._knots]

    def _up_to(self, offset: int) -> float:
        knots = self._knots
        i = min(max(bisect_left(knots, offset, key=itemgetter(0)), 1), len(knots) - 1)
        if i == 0:
            return knots[0][1]
        (o0, c0), (o1, c1) = knots[i - 1], knots[i]
        share = (offset - o0) / (o1 - o0) if o1 > o0 else 1.0
        return c0 + (c1 - c0) * min(max(share, 0.0), 1.0)


class _Log:
    """One partition's past: (time, bytes appended since it was first seen), and its last size."""

    __slots__ = (
        "absences",
        "bytes",
        "ceiling",
        "knots",
        "last",
        "offsets",
        "past",
        "shrunk",
        "stale",
        "unsure",
    )

    def __init__(self, at: float, size: LogSize) -> None:
        self.past: deque[tuple[float, float]] = deque([(at, 0.0)])
        self.last = size
        self.knots = Knots([(size.start_offset, -float(size.bytes)), (size.end_offset, 0.0)])
        self.bytes = 0.0
        self.offsets = 0.0
        self.ceiling = 0.0
        self.shrunk = float("inf")  # windows since it shrank in place
        self.unsure = 0.0  # windows since sizes last told a step
        self.stale = False
        self.absences = 0

    @property
    def compacted(self) -> bool:
        """Say whether the log is being compacted."""
        return self.shrunk < COMPACTED

    def per_offset(self) -> float | None:
        """Give the bytes per offset seen, or those of the whole log where no step told any."""
        if self.compacted and self.ceiling > 0:
            return self.ceiling
        if self.offsets > 0:
            return self.bytes / self.offsets
        return density(self.last)

    def add(self, at: float, size: LogSize, window: float) -> None:
        """Add the step to a new size."""
        before, self.last = self.last, size
        seconds = at - self.past[-1][0]
        if seconds <= 0:  # a clock set back: the bytes show in the next step
            self.last = before
            return
        windows = seconds / window
        growth, offsets = size.bytes - before.bytes, size.end_offset - before.end_offset
        same_log = size.topic_id == before.topic_id and size.leader == before.leader
        in_place = same_log and size.start_offset == before.start_offset
        self.shrunk = 0.0 if in_place and growth < 0 <= offsets else self.shrunk + windows
        if size.topic_id != before.topic_id:
            self.bytes = self.offsets = self.ceiling = 0.0
            self.shrunk = float("inf")
            self.knots = Knots([(size.start_offset, self.past[-1][1])])
            appended = float(size.bytes)
        elif in_place and growth >= 0 and not self.compacted:
            appended = float(growth)
            self.unsure = 0.0
            self._learn(appended, offsets, windows)
        else:
            self.unsure += windows
            appended = self._bridge(before, size, growth if same_log else 0)
            if in_place and self.compacted:
                self._raise_ceiling(growth, offsets, windows)
                appended = self._bridge(before, size, growth)
            elif same_log and not self.compacted:
                known = self._settle(before, size, growth, appended)
                if known is None:
                    self._learn_density(before, size, windows)
                else:
                    appended = known
                    self._learn(appended, offsets, windows)
        self._remember(at, size, appended, window)
        if same_log and not in_place and not self.compacted:
            self.knots.fit(size)

    def _bridge(self, before: LogSize, after: LogSize, growth: int) -> float:
        """Estimate the bytes of a step whose sizes do not tell."""
        offsets = max(0, after.end_offset - before.end_offset)
        known = self.offsets > 0 or self.ceiling > 0
        rate = self.per_offset() if known else least_density(before, after)
        appended = max(float(growth), offsets * (rate or 0.0))
        # Where nothing of the step was deleted again, the log holds all of it.
        if after.start_offset <= before.end_offset:
            appended = min(appended, float(after.bytes))
        return max(0.0, appended)

    def _settle(self, before: LogSize, after: LogSize, growth: int, bridged: float) -> float | None:
        """Give the bytes of a step from what its deleted part had cost, or None if unclear."""
        deleted = self.knots.cost(before.start_offset, after.start_offset)
        # What came and went within the step was never noted.
        deleted += max(0, after.start_offset - before.end_offset) * (self.per_offset() or 0.0)
        whole, alone = growth + deleted, float(growth)
        # Retention is the rule and bytes left behind are the exception: that must be plain to see.
        nearest = whole if abs(whole - bridged) <= DOUBT * abs(alone - bridged) else alone
        return nearest if abs(nearest - bridged) <= AGREE * bridged else None

    def _learn(self, appended: float, offsets: int, windows: float) -> None:
        if offsets > 0:
            kept = 0.5 ** (windows / HALF_LIFE)
            self.bytes = kept * self.bytes + appended
            self.offsets = kept * self.offsets + offsets

    def _learn_density(self, before: LogSize, after: LogSize, windows: float) -> None:
        """Learn from a log that retention cuts in every step: then all of it is of late."""
        now, offsets = least_density(before, after), after.end_offset - before.end_offset
        if now is None or (self.offsets > 0 and self.unsure < HALF_LIFE):
            return
        if self.offsets == 0 or now < 2 * self.bytes / self.offsets:
            self._learn(now * offsets, offsets, windows)

    def _raise_ceiling(self, growth: int, offsets: int, windows: float) -> None:
        if self.ceiling == 0 and self.offsets > 0:
            self.ceiling = self.bytes / self.offsets
        self.ceiling *= 0.5 ** (windows / COMPACTED)
        if offsets > 0:
            self.ceiling = max(self.ceiling, growth / offsets)

    def _remember(self, at: float, size: LogSize, appended: float, window: float) -> None:
        past = self.past
        total = past[-1][1] + appended
        past.append((at, total))
        self.knots.add(size.start_offset, size.end_offset, total)
        while len(past) > 2 and past[0][0] < at - window * (1 + LATE):
            past.popleft()

    def speed(self) -> float | None:
        """Give the speed, or None after one measurement alone."""
        if len(self.past) < 2:
            return None
        (first_at, first), (last_at, last) = self.past[0], self.past[-1]
        return (last - first) / (last_at - first_at)


def density(size: LogSize) -> float | None:
    """Give the bytes per offset of a whole log."""
    offsets = size.end_offset - size.start_offset
    return size.bytes / offsets if offsets > 0 and size.bytes > 0 else None


def least_density(before: LogSize, after: LogSize) -> float | None:
    """Give the lower bytes per offset of two sizes.

    Deleted records leave their bytes behind for a while, which makes the others look too large.
    """
    both = [found for found in (density(before), density(after)) if found is not None]
    return min(both, default=None)


class Window:
    """The windows of all partitions; `seconds` is the length of each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._logs: dict[TopicPartition, _Log] = {}

    def add(self, measurement: Measurement) -> None:
        """Add one round; partitions that are neither there nor failed for two rounds are gone."""
        logs = self._logs
        for partition, size in measurement.sizes.items():
            log = logs.get(partition)
            if log is None:
                logs[partition] = _Log(measurement.at, size)
            else:
                log.add(measurement.at, size, self.seconds)
                log.stale = False
                log.absences = 0
        if len(logs) == len(measurement.sizes):
            return
        for partition in logs.keys() - measurement.sizes.keys():
            logs[partition].stale = True
            # A broker that just came back may not know all topics yet.
            logs[partition].absences += partition not in measurement.failed
            if logs[partition].absences >= ABSENCES:
                del logs[partition]

    def miss(self) -> None:
        """Note that a whole round failed: every speed is stale."""
        for log in self._logs.values():
            log.stale = True

    def readings(self) -> Mapping[TopicPartition, Reading]:
        """Give what is known of every partition that was measured at least twice."""
        found = {}
        for partition, log in self._logs.items():
            speed = log.speed()
            if speed is not None:
                found[partition] = Reading(speed, log.per_offset(), log.past[-1][0], log.stale)
        return found
