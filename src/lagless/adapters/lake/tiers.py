"""Which small files to merge: pure rules, for compaction at once and for one in the background.

At once, all small files are merged. In the background that would write the same rows again and
again, so files are merged with files of their own size. A tier holds the files between two powers
of 8 bytes; once it has 16, they become one file, which is in a higher tier. So a row is written
again once per tier, and a table keeps fewer than 16 small files per tier.

Files are merged within one value of the table's partition columns, in the order of their offsets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

FEWEST = 2
"""Files that are worth a merge at once."""
ENOUGH = 16
"""Files of a tier that are worth a merge in the background."""
MOST = 1000
"""Files of one merge: what is not committed at the end was written for nothing."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the log lists it."""

    path: str
    size: int
    first: int
    """The lowest offset in it."""
    values: Mapping[str, str | None] = field(default_factory=dict)
    """The values of the table's partition columns, as the log has them."""

    @property
    def place(self) -> tuple[tuple[str, str], ...]:
        """Return what files must have in common to be merged, in a form that can be sorted."""
        return tuple((name, "" if v is None else f"={v}") for name, v in self.values.items())

    @property
    def tier(self) -> int:
        """Return the power of 8 that its size reaches."""
        return (max(self.size, 1).bit_length() - 1) // 3


def at_once(files: Iterable[Listed], target: int) -> list[list[Listed]]:
    """Return which small files to merge, in the order of their offsets, up to the target each."""
    small = _small(files, target)
    return [
        group for alike in _alike(small) for group in _filled(alike, target) if len(group) >= FEWEST
    ]


def due(files: Iterable[Listed], target: int) -> list[list[Listed]]:
    """Return the merges of tiers that are full, those that save most files per byte first."""
    merges = []
    for alike in _alike(_small(files, target)):
        tiers: dict[int, list[Listed]] = {}
        for file in alike:
            tiers.setdefault(file.tier, []).append(file)
        for tier in tiers.values():
            if len(tier) >= ENOUGH:
                merges += [group for group in _filled(tier, target) if len(group) >= FEWEST]
    return sorted(merges, key=lambda group: size(group) / (len(group) - 1))


def size(group: Iterable[Listed]) -> int:
    """Return how many bytes files have together."""
    return sum(file.size for file in group)


def _small(files: Iterable[Listed], target: int) -> list[Listed]:
    return [file for file in files if file.size < target // 2]


def _alike(files: Iterable[Listed]) -> Iterator[list[Listed]]:
    """Yield the files of each value of the partition columns, in the order of their offsets."""
    ordered = sorted(files, key=lambda file: (file.place, file.first, file.path))
    for _, alike in groupby(ordered, key=lambda file: file.place):
        yield list(alike)


def _filled(files: Sequence[Listed], target: int) -> Iterator[list[Listed]]:
    group: list[Listed] = []
    for file in files:
        if group and (size(group) + file.size > target or len(group) >= MOST):
            yield group
            group = []
        group.append(file)
    if group:
        yield group


@dataclass(slots=True)
class Pace:
    """A budget of bytes per second: when the next merge may begin."""

    rate: float
    next_at: float = 0.0

    def wait(self, now: float) -> float:
        """Return how many seconds are left until the next merge may begin."""
        return max(0.0, self.next_at - now)

    def spend(self, read: int, now: float) -> None:
        """Count a merge that begins now; time without work is not saved up."""
        self.next_at = max(self.next_at, now) + read / self.rate
