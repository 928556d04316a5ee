"""Where a speed changed: the test that cuts a window short. Pure.

A window of 30 s averages a change away: after half of it the mean has gone only half the way. So
after each measurement the window is split at every measurement in it, and the two sides are
compared. If they differ by more than the writer's own noise explains, what lies before the most
likely split is forgotten, and the speed is that of the new side at once.

The noise. Producers write in bursts: batches, compression, flushes. If bursts of about `size` bytes
come at random moments, the bytes of an interval have a variance of size · speed · seconds, and two
neighbouring intervals tell the size, whatever the speed is:

    size = (rate − rate before)² / (speed · (1 / seconds + 1 / seconds before))

The mean of this over the last intervals is the writer's burst size. It also covers what else makes
one interval differ from the next. In units of it, the likelihood ratio of two speeds against one is

    G = 2 · (A · ln(a / s) + B · ln(b / s)) / size

with A and B the bytes after and before the split, and a, b and s the speeds after it, before it and
over all. While the speed stays the same, √G behaves like a standard normal variable, or, since the
size is an estimate from a few intervals, like one of Student's t. `limit` is passed by chance once
in RARE tests.

Three more rules
1. A single large burst passes any limit now and then. So the new side must have two intervals or
   more, and differ even without the most extreme one.
2. The change fell into the first interval of the new side, which mixes both speeds: leave it out.
3. A new partition was silent and now is not: it has begun, though nothing is known of its noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RARE = 5.33
"""How many standard deviations a normal variable exceeds, to either side, once in 10⁷ times."""
MEMORY = 60.0
"""Intervals after which one counts for 1/e in the burst size."""
FEWEST = 4
"""Intervals that must have been compared before the noise is known at all."""
JITTER = 0.02
"""Noise that each interval is taken to have at least, as a share: its times are not exact."""
SURPRISE = 400.0
"""How many burst sizes one interval may count for: it could also have been a change."""
CONFIRM = 0.25
"""Share of the limit that the new side must reach without its most extreme interval."""
UNDECIDED = 2
"""Intervals at the end of the window that may still turn out to be a change: not noise yet."""

Point = tuple[float, float]
"""A time, and the bytes appended until then."""


@dataclass(slots=True)
class Noise:
    """How unevenly a partition is written to: the size of its bursts, as a running mean."""

    intervals: float = 0.0
    """How many intervals are known of, at most MEMORY."""
    _sum: float = 0.0

    @property
    def size(self) -> float:
        """Return the bytes of a burst."""
        return self._sum / self.intervals if self.intervals else 0.0

    def learn(self, points: Sequence[Point]) -> None:
        """Compare the last two intervals of the window that are decided."""
        if len(points) < UNDECIDED + 3:
            return
        (t0, b0), (t1, b1), (t2, b2) = (points[i - UNDECIDED] for i in (-3, -2, -1))
        speed = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        scale = speed * (1 / (t1 - t0) + 1 / (t2 - t1))
        if b1 == points[0][1] or scale == 0:  # silent until then, or as good as silent
            return
        before, now = (b1 - b0) / (t1 - t0), (b2 - b1) / (t2 - t1)
        size = (now - before) ** 2 / scale
        if self.intervals >= FEWEST:
            size = min(size, SURPRISE * max(self.size, least(speed, t2 - t1)))
        kept = math.exp(-1 / MEMORY)
        self._sum = kept * self._sum + size
        self.intervals = kept * self.intervals + 1

    def error(self, speed: float, seconds: float) -> float:
        """Return the standard error of a speed that was measured for so long.

        While nothing is known of the noise, the speed itself.
        """
        if self.intervals < FEWEST:
            return speed
        return math.sqrt(max(self.size, least(speed, seconds)) * speed / seconds)


def least(speed: float, seconds: float) -> float:
    """Return the burst size that has the noise JITTER in an interval."""
    return JITTER * JITTER * speed * seconds


def limit(intervals: float) -> float:
    """Return the G that a steady speed exceeds as seldom as RARE; noise known from so many.

    Wallace's approximation of Student's t (1959): t² = n · (exp(z² · c² / n) − 1).
    """
    freedom = max(1.0, intervals * 2 / 3)  # neighbouring differences share an interval
    c = (8 * freedom + 3) / (8 * freedom + 1)
    return freedom * math.expm1(min(50.0, (RARE * c) ** 2 / freedom))


def split(points: Sequence[Point], noise: Noise) -> int:
    """Return the index of the point from which on the speed is a new one, or 0 if it is not."""
    last = len(points) - 1
    (first_at, first), (last_at, total) = points[0], points[last]
    if last < 3 or total <= first:
        return 0
    if noise.intervals < FEWEST:
        return _begun(points)
    seconds = last_at - first_at
    size = max(noise.size, least((total - first) / seconds, seconds / last))
    bound = limit(noise.intervals) * size / 2
    best, where = bound, 0
    for i in range(1, last - 1):
        at, done = points[i]
        gain = _gain(done - first, at - first_at, total - done, last_at - at)
        if gain > best:
            best, where = gain, i
    if where == 0 or not _confirmed(points, where, CONFIRM * bound):
        return 0
    return where + 1


def _begun(points: Sequence[Point]) -> int:
    """Return the index of the point by which a silent partition had begun, or 0 (rules 2 and 3)."""
    first = points[0][1]
    begun = next(i for i, (_, done) in enumerate(points) if done > first)
    goes_on = all(later[1] > point[1] for point, later in pairwise(points[begun:]))
    return begun if 1 < begun < len(points) - 1 and goes_on else 0


def _confirmed(points: Sequence[Point], where: int, bound: float) -> bool:
    """Return whether the new side differs without its most extreme interval too (rule 1)."""
    (first_at, first), (at, done), (last_at, total) = points[0], points[where], points[-1]
    before, after, seconds = done - first, total - done, last_at - at
    old = before / (at - first_at)
    sign = 1 if after / seconds > old else -1
    steps = [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(points[where:])]
    bytes_, long = max(steps, key=lambda step: sign * (step[0] / step[1] - old))
    rest, left = after - bytes_, seconds - long
    return sign * (rest / left - old) > 0 and _gain(before, at - first_at, rest, left) >= bound


def _gain(before: float, t0: float, after: float, t1: float) -> float:
    """Return the log likelihood that two speeds gain over one, in bytes."""
    speed = (before + after) / (t0 + t1)
    gain = 0.0
    if before > 0:
        gain += before * math.log(before / t0 / speed)
    if after > 0:
        gain += after * math.log(after / t1 / speed)
    return gain
