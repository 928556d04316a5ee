"""Taking partitions over: where to begin, and under which generation."""

from collections.abc import Collection, Mapping
from typing import Literal

from lagless.errors import ClaimLost, NotYet
from lagless.model import TopicPartition
from lagless.ports import Bounds, Offsets, Tables, Topic


class Claims:
    """Claims on partitions, topic by topic."""

    def __init__(
        self, offsets: Offsets, tables: Tables, start: Literal["earliest", "latest"]
    ) -> None:
        self._offsets = offsets
        self._tables = tables
        self._start = start
        self.topics: dict[str, Topic] = {}
        """The topics under whose ids partitions were claimed."""

    def claim(
        self, topic: str, partitions: Collection[int], generation: int | None
    ) -> Mapping[TopicPartition, int]:
        """Claim partitions of one topic; ClaimLost where another owns one under a newer order."""
        found = self._offsets.topics([topic]).get(topic)
        if found is None:
            raise NotYet(f"there is no topic {topic}")
        described, count = found
        absent = sorted(p for p in partitions if p >= count)
        if absent:
            raise NotYet(f"topic {topic} has {count} partitions and no partition {absent[0]}")
        everything = [TopicPartition(topic, p) for p in range(count)]
        bounds = self._offsets.bounds(everything)
        granted = self._tables.claim(
            described,
            partitions,
            generation,
            lambda: self._first(everything, bounds),
            {p.partition: bound.earliest for p, bound in bounds.items()},
        )
        self.topics[topic] = described
        return {TopicPartition(topic, p): number for p, number in granted.items()}

    def anew(
        self, held: Mapping[TopicPartition, int]
    ) -> tuple[frozenset[str], dict[str, ClaimLost]]:
        """Claim again what is held of topics that were made anew.

        Give the topics that are not there, and the claims that another consumer has won.
        """
        now = self._offsets.topics({p.topic for p in held})
        lost: dict[str, ClaimLost] = {}
        for name, (topic, count) in now.items():
            if topic == self.topics.get(name):
                continue
            mine = {p: g for p, g in held.items() if p.topic == name and p.partition < count}
            for generation in sorted(set(mine.values())):
                some = [p.partition for p, g in mine.items() if g == generation]
                try:
                    self.claim(name, some, generation)
                except ClaimLost as error:
                    lost[name] = error
        return frozenset(p.topic for p in held if p.topic not in now), lost

    def _first(
        self, everything: Collection[TopicPartition], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[int, int]:
        """Say where to begin with a topic that the group has never met."""
        committed = self._offsets.committed(everything)
        begin = {}
        for p in everything:
            bound = bounds[p]
            offset = committed.get(p)
            if offset is None or offset > bound.end:
                offset = bound.end if self._start == "latest" else bound.earliest
            begin[p.partition] = offset
        return begin
