"""The world's lake: tables with the compare-and-set rule of the real ones, in memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lagless.errors import ClaimLost
from lagless.model import TopicPartition
from lagless.ports import Position


@dataclass(slots=True)
class _Row:
    offset: int = 0
    owner: int = 0
    touched: int = 0
    """Counts commits that named this partition: one of another since the look refuses the own."""


@dataclass(slots=True)
class MemoryLake:
    """What every table's log says: offsets and owners."""

    rows: dict[TopicPartition, _Row] = field(default_factory=dict)
    landed: dict[TopicPartition, int] = field(default_factory=dict)
    """Up to where each partition's records landed, by the ranges that were accepted."""
    faults: list[str] = field(default_factory=list)
    """Ranges that were lost or landed twice: none, if the rule holds."""
    refusals: int = 0

    def claim(self, partitions: Collection[TopicPartition], generation: int) -> None:
        """Take partitions over, all or none."""
        for p in partitions:
            if self._row(p).owner > generation:
                raise ClaimLost(f"{p} is owned under generation {self._row(p).owner}")
        for p in partitions:
            row = self._row(p)
            row.owner = generation
            row.touched += 1

    def look(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Position]:
        """Give the positions as they are now."""
        return {p: Position(self._row(p).offset, self._row(p).owner) for p in partitions}

    def snapshot(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Give what a handle of the table remembers: a commit on it is refused if this changed."""
        return {p: self._row(p).touched for p in partitions}

    def commit(
        self,
        read_from: Mapping[TopicPartition, int],
        read_to: Mapping[TopicPartition, int],
        generations: Mapping[TopicPartition, int],
        snapshot: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Add what was read together with the new offsets, or refuse all of it."""
        for p in read_from:
            if self.refuses(p, generations[p], snapshot[p] if snapshot is not None else None):
                self.refusals += 1
                raise ClaimLost(f"{p} was touched by another")
        for p, start in read_from.items():
            row = self._row(p)
            row.offset = read_to[p]
            row.touched += 1
            reached = self.landed.get(p, 0)
            if start != reached:
                self.faults.append(f"{p}: landed from {start} where {reached} was next")
            self.landed[p] = read_to[p]

    def refuses(self, partition: TopicPartition, generation: int, touched: int | None) -> bool:
        """Say whether a commit comes too late."""
        row = self._row(partition)
        return row.owner != generation or (touched is not None and row.touched != touched)

    def _row(self, partition: TopicPartition) -> _Row:
        row = self.rows.get(partition)
        if row is None:
            row = self.rows[partition] = _Row()
        return row
