"""What a part has on the pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from lagless.evaluation.report import Table


@dataclass(frozen=True, slots=True)
class Section:
    """One part on the page."""

    title: str
    words: Sequence[str]
    tables: Sequence[Table]
    figures: Sequence[str]
