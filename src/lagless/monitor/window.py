"""The sliding window: from log sizes to bytes appended per second. Pure.

Paper, section "Monitor": speed = (last − first) bytes / (last − first) time over the last 30 s, or
since the last change of speed, if `changes` finds one in the window.
A log's size is not what was appended to it, since Kafka also deletes. So each step from one
measurement to the next is turned into the bytes appended in it, by these rules:

1. Same topic, leader and start offset, and the size did not shrink: the growth.
2. The topic was deleted and created again: the size of its new log.
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
from dataclasses import dataclass, field
from operator import itemgetter

from lagless.model import TopicPartition
from lagless.monitor import changes
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
    error: float = 0
    """Standard error of the speed: how far off bursts alone may make it."""


@dataclass(slots=True)
class Knots:
    """What it had cost to append a log up to some of its offsets: (offset, bytes), ascending."""

    _knots: list[tuple[int, float]]

    def cost(self, begin: int, end: int) -> float:
        """Return the bytes between two offsets."""
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
        """Scale the noted cost of what is there to the log's size, so that errors do not add up.

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


@dataclass(slots=True)
class _Log:
    """One partition's past: (time, bytes appended since it was first seen), and its last size."""

    past: deque[tuple[float, float]]
    last: LogSize
    knots: Knots
    noise: changes.Noise = field(default_factory=changes.Noise)
    bytes: float = 0.0
    offsets: float = 0.0
    ceiling: float = 0.0
    shrunk: float = float("inf")
    """Windows since it shrank in place."""
    unsure: float = 0.0
    """Windows since sizes last told a step."""
    stale: bool = False
    absences: int = 0

    @property
    def compacted(self) -> bool:
        """Return whether the log is being compacted."""
        return self.shrunk < COMPACTED

    def per_offset(self) -> float | None:
        """Return the bytes per offset seen, or those of the whole log where no step told any."""
        if self.compacted and self.ceiling > 0:
            return self.ceiling
        if self.offsets > 0:
            return self.bytes / self.offsets
        return density(self.last)

    def add(self, at: float, size: LogSize, window: float, detect: bool) -> None:
        """Add the step to a new size; with `detect`, forget what lies before a change of speed."""
        windows = (at - self.past[-1][0]) / window
        if windows <= 0:  # a clock set back: the bytes show in the next step
            return
        before, self.last = self.last, size
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
            if in_place and self.compacted:
                self._raise_ceiling(growth, offsets, windows)
            appended = self._bridge(before, size, growth if same_log else 0)
            if same_log and not self.compacted:
                known = self._settle(before, size, growth, appended)
                if known is None:
                    self._learn_density(before, size, windows)
                else:
                    appended = known
                    self._learn(appended, offsets, windows)
        self._remember(at, size, appended, window)
        if same_log and not in_place and not self.compacted:
            self.knots.fit(size)
        elif size.leader != before.leader:  # another replica may hold less of what is old
            total = self.past[-1][1]
            self.knots = Knots([(size.start_offset, total - size.bytes), (size.end_offset, total)])
        self._learn_noise(detect)

    def _learn_noise(self, detect: bool) -> None:
        """Let the window begin at the last change of speed, if wanted; the rest of it is noise."""
        points = list(self.past)
        while detect and (where := changes.split(points, self.noise)):
            del points[:where]
        if len(points) < len(self.past):
            self.past = deque(points)
        self.noise.learn(points)

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
        """Return the bytes of a step from what its deleted part had cost, or None if unclear."""
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

    def reading(self) -> Reading | None:
        """Return what is known, or None after one measurement alone."""
        if len(self.past) < 2:
            return None
        (first_at, first), (at, last) = self.past[0], self.past[-1]
        speed = (last - first) / (at - first_at)
        error = self.noise.error(speed, at - first_at)
        return Reading(speed, self.per_offset(), at, self.stale, error)


def density(size: LogSize) -> float | None:
    """Return the bytes per offset of a whole log."""
    offsets = size.end_offset - size.start_offset
    return size.bytes / offsets if offsets > 0 and size.bytes > 0 else None


def least_density(before: LogSize, after: LogSize) -> float | None:
    """Return the lower bytes per offset of two sizes.

    Deleted records leave their bytes behind for a while, which makes the others look too large.
    """
    both = [found for found in (density(before), density(after)) if found is not None]
    return min(both, default=None)


class Window:
    """The windows of all partitions.

    `seconds` is the length of each; with `detect` it begins at the last change of speed, if later.
    """

    def __init__(self, seconds: float, detect: bool = False) -> None:
        self.seconds = seconds
        self.detect = detect
        self._logs: dict[TopicPartition, _Log] = {}

    def add(self, measurement: Measurement) -> None:
        """Add one round; partitions that are neither there nor failed for two rounds are gone."""
        logs = self._logs
        for partition, size in measurement.sizes.items():
            log = logs.get(partition)
            if log is None:
                knots = [(size.start_offset, -float(size.bytes)), (size.end_offset, 0.0)]
                logs[partition] = _Log(deque([(measurement.at, 0.0)]), size, Knots(knots))
            else:
                log.add(measurement.at, size, self.seconds, self.detect)
                log.stale, log.absences = False, 0
        for partition in logs.keys() - measurement.sizes.keys():
            logs[partition].stale = True
            # A broker that just came back may not know all topics yet.
            logs[partition].absences += partition not in measurement.failed
            if logs[partition].absences >= ABSENCES:
                del logs[partition]

    @property
    def is_incomplete(self) -> bool:
        """Return whether a partition was measured only once, so that its speed is unknown."""
        return any(len(log.past) < 2 and not log.stale for log in self._logs.values())

    def miss(self) -> None:
        """Note that a whole round failed: every speed is stale."""
        for log in self._logs.values():
            log.stale = True

    def readings(self) -> Mapping[TopicPartition, Reading]:
        """Return what is known of every partition that was measured at least twice."""
        found = ((partition, log.reading()) for partition, log in self._logs.items())
        return {partition: reading for partition, reading in found if reading is not None}
