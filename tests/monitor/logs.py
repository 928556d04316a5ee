"""A log as Kafka keeps it, with the truth about what was appended."""

from dataclasses import dataclass, field

import numpy as np

from lagless.ports import LogSize


@dataclass
class Log:
    """Segments of (first offset, bytes per record), and how many bytes were ever appended."""

    rng: np.random.Generator
    record: float
    """Mean bytes of a record."""
    segment: int = 100_000
    start: int = 0
    end: int = 0
    topic: int = 0
    leader: int = 1
    appended: float = 0.0
    unread: float = 0.0
    segments: list[list[float]] = field(default_factory=lambda: [[0, 0.0]])

    def write(self, size: float) -> None:
        """Append about `size` bytes; what makes no whole record waits for the next call."""
        self.unread += size
        while self.unread > 0:
            most = self.segment / self.record / 4
            count = max(1, round(min(most, self.unread / self.record)))
            batch = float(np.sum(self.rng.uniform(0.9, 1.1, count)) * self.record)
            self.unread -= batch
            self.appended += batch
            self.end += count
            self.segments[-1][1] += batch
            if self.segments[-1][1] >= self.segment:
                self.segments.append([self.end, 0.0])

    def retain(self, size: float) -> None:
        """Delete whole segments as long as more than `size` bytes stay."""
        while len(self.segments) > 1 and self.bytes - self.segments[0][1] >= size:
            self.segments.pop(0)
            self.start = max(self.start, int(self.segments[0][0]))

    def compact(self, share: float) -> None:
        """Rewrite all but the last segment to `share` of their size."""
        for segment in self.segments[:-1]:
            segment[1] *= share

    def delete_records(self, share: float) -> None:
        """Move the start into the middle; segments go later, and only whole ones."""
        self.start = max(self.start, round(self.start + share * (self.end - self.start)))

    def collect(self) -> None:
        """Drop segments that lie before the start."""
        while len(self.segments) > 1 and self.segments[1][0] <= self.start:
            self.segments.pop(0)

    def recreate(self) -> None:
        """Delete the topic and make it again."""
        self.start = self.end = 0
        self.segments = [[0, 0.0]]
        self.topic += 1

    def move(self, share: float) -> None:
        """Move the leader to a replica that kept another part of the old segments."""
        self.leader += 1
        self.compact(share)

    @property
    def bytes(self) -> float:
        """What the log holds."""
        return sum(size for _, size in self.segments)

    def size(self) -> LogSize:
        """Return what the monitor sees."""
        return LogSize(round(self.bytes), self.start, self.end, str(self.topic), self.leader)
