"""What the steps of a cycle hand on: a topic's tables, and what to do with it now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lagless.adapters.lake import formats, transforms
from lagless.adapters.lake.table import Table
from lagless.ports import Span, Topic
from lagless.settings import TopicSettings

if TYPE_CHECKING:
    from lagless.adapters.lake.ahead import Ahead

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
    ahead: "Ahead | None" = None
    """What the next cycle is going to need, if nothing changes."""
    seconds: dict[str, float] = field(default_factory=dict)

    def find_ahead(
        self, spans: Mapping[int, Span], form: formats.Format, deadline: float
    ) -> "Ahead | None":
        """Give what was begun ahead if it is of these spans; else it is of no use any more."""
        found, self.ahead = self.ahead, None
        if found is None or found.is_for(spans, form, deadline):
            return found
        found.drop()
        return None


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
