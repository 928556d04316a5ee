"""What a member can read, learned from members that have a backlog.

A member commits its offsets every few seconds, so what it read is known in steps. A window
therefore begins and ends at a look in which its offsets had moved. It counts if the member held the
same partitions all the time and had a backlog at every look: then it read as fast as it could.
A member that is stuck moves no offset and never ends a window; a slow moment is one sample of
several, and medians pass over it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from lagless.model import Speeds, TopicPartition

WINDOW = 12.0
"""Seconds that a window lasts at least: several commits of the usual five seconds."""
STUCK = 60.0
"""Seconds after which a window in which nothing more was committed is thrown away."""
KEPT = 9
"""Samples per member: the median of these is its rate."""
LEAST = 2
"""Samples in all, before anything is believed."""
COMMITS = 10.0
"""Seconds of reading that a lag must be worth to be a backlog: clients commit every 5 s, so what
was read since looks like a lag."""
MEMBERS = 1000
"""Members whose samples are kept, present or not."""


@dataclass(frozen=True, slots=True)
class Look:
    """A member at one moment: how far it is in what it holds."""

    at: float
    held: frozenset[TopicPartition]
    committed: Mapping[TopicPartition, int]
    """The committed offsets, where there are any."""
    bytes_per_offset: Mapping[TopicPartition, float]
    behind: bool
    """Whether it has more to read than what has just been written."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time over which a member held the same partitions."""

    first: Look
    last: Look
    """The last look in which its offsets had moved."""
    behind: bool
    """Whether it had a backlog at every look so far."""
    aligned: bool = False
    """Whether it began when the offsets moved; before the first move it counts for nothing."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What is known of members' rates; `prior` is what an earlier controller learned."""

    prior: float | None = None
    windows: Mapping[str, Window] = field(default_factory=dict)
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Bytes/s with a backlog, by member, oldest first."""
    lately: Mapping[str, float] = field(default_factory=dict)
    """Bytes/s in the last window of each member that is present, with a backlog or without."""

    def of(self, name: str) -> float | None:
        """Return what one member can read, if it was ever seen to have a backlog."""
        return median(self.samples[name]) if self.samples.get(name) else None

    @property
    def rate(self) -> float | None:
        """Return what a member can read: the median of the members' medians."""
        if sum(map(len, self.samples.values())) < LEAST:
            return self.prior
        return median(median(known) for known in self.samples.values() if known)


def seen(
    at: float,
    held: frozenset[TopicPartition],
    committed: Mapping[TopicPartition, int],
    lag: Mapping[TopicPartition, float],
    bytes_per_offset: Mapping[TopicPartition, float],
    speeds: Speeds,
    lately: float,
) -> Look:
    """Return how far a member is; `lag` is in bytes, `lately` what it read in its last window."""
    late = sum(lag.get(p, 0.0) for p in held)
    written = sum(speeds.get(p, 0.0) for p in held)
    return Look(
        at=at,
        held=held,
        committed={p: committed[p] for p in held if p in committed},
        bytes_per_offset=bytes_per_offset,
        behind=late > COMMITS * max(written, lately),
    )


def look(learning: Learning, looks: Mapping[str, Look]) -> Learning:
    """Take in how far each member is now."""
    windows, samples = {}, dict(learning.samples)
    lately = {name: speed for name, speed in learning.lately.items() if name in looks}
    for name, now in looks.items():
        window = _continued(learning.windows.get(name), now)
        moved = window.last is now and window.first is not now
        seconds = now.at - window.first.at
        if moved and seconds >= WINDOW:
            speed = _read(window.first, now) / seconds
            lately[name] = speed
            if window.behind:
                samples[name] = (*samples.get(name, ()), speed)[-KEPT:]
            window = Window(now, now, now.behind, aligned=True)
        elif now.at - window.last.at > STUCK:
            lately[name] = 0.0
            window = Window(now, now, False)
        windows[name] = window
    while len(samples) > MEMBERS:
        del samples[next(iter(samples))]
    return replace(learning, windows=windows, samples=samples, lately=lately)


def _continued(window: Window | None, now: Look) -> Window:
    """Return the window with this look in it, or a new one where it does not continue."""
    if window is None or window.first.held != now.held or not now.held:
        return Window(now, now, False)
    step = _read(window.last, now)
    known = window.last.committed.keys() == now.committed.keys()
    if step < 0 or not known:
        return Window(now, now, False)
    if step == 0:
        return replace(window, behind=window.behind and now.behind)
    if not window.aligned:
        return Window(now, now, now.behind, aligned=True)
    return replace(window, last=now, behind=window.behind and now.behind)


def _read(before: Look, after: Look) -> float:
    """Return the bytes between two looks; negative if any partition went back."""
    read = 0.0
    for p, offset in after.committed.items():
        step = offset - before.committed.get(p, offset)
        if step < 0:
            return -1.0
        read += step * after.bytes_per_offset.get(p, 0.0)
    return read
