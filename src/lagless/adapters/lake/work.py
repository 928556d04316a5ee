"""What the steps of a cycle hand on: a topic's tables, and what to do with it now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lagless.adapters.lake import formats, transforms
from lagless.adapters.lake.table import Table
from lagless.ports import Span, Topic
from lagless.settings import TopicSettings

MANY_OFFSETS = 25_000
"""Offsets above which all cores parse; below, to hand rows over takes longer than it saves."""


@dataclass(slots=True)
class Place:
    """What belongs to one topic."""

    table: Table
    rejected: Table
    settings: TopicSettings
    transform: transforms.Transform | None
    form: formats.Format | None = None
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """One cycle's work on one topic."""

    topic: Topic
    spans: Mapping[int, Span]
    generations: Mapping[int, int]
    check: Callable[[], None]

    @property
    def offsets(self) -> int:
        """Count the offsets of all spans."""
        return sum(map(len, self.spans.values()))

    @property
    def is_large(self) -> bool:
        """Say whether all cores are worth it."""
        return self.offsets > MANY_OFFSETS
