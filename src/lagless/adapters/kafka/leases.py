"""Decide who may read a partition, through the group's committed offsets alone. No I/O.

Consumers that use assign() have no coordinator that says who reads what. But Kafka keeps a text
beside every committed offset, its metadata. There each member notes that it reads the partition,
and repeats the note with every commit. A commit does not compare and swap, so taking a partition
over is Fischer's algorithm for mutual exclusion: write a note, wait, see whether it still stands.

Rules
 1. A partition is held for `lease` seconds from the moment at which its last confirmed commit was
    sent, by the holder's own clock. Clocks are never compared, only their rates.
 2. A partition is free if nothing was ever committed for it or its note says that it was given up.
    It is also free if its note has not changed for `lease` seconds and a tenth: from the answer of
    the first look that showed it to the request of the last one.
 3. To take a free partition, commit its offset as it is with a note of one's own. A claim that is
    confirmed more than `settle` seconds after that look was asked for does not count.
 4. A claim that still stands `settle` seconds and a tenth after it was confirmed holds the
    partition. If another note has replaced it, go back to rule 2.
 5. A renewal that is confirmed after the end of its lease does not bring the lease back.
 6. A holder that finds another member's note drops the partition without a commit.
 7. Giving a partition up is one commit of the position with a note that says so, after reading has
    stopped, and only while the lease has more than `settle` seconds left: a later one could
    overtake a successor's claim.

All times are seconds of one steady clock.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lagless.model import TopicPartition

DRIFT = 1.1
"""How much longer to wait for others than they may take: clocks do not run at quite one rate."""
_TAG = "lagless"
_FREE = "~free"  # no member has such a name


@dataclass(frozen=True, slots=True)
class Terms:
    """The times that all members of a group must share."""

    lease: float = 15.0
    """Seconds for which a member may read after its last confirmed commit."""
    settle: float = 1.0
    """Seconds that a claim has to stand, and within which it must be confirmed."""

    @property
    def renewal(self) -> float:
        """Return the seconds between two renewals, and between two looks at what is held."""
        return self.lease / 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A committed offset with its metadata."""

    offset: int
    note: str

    @property
    def free(self) -> bool:
        """Return whether its last reader gave the partition up."""
        return self.note.startswith(f"{_TAG} {_FREE} ")

    @property
    def reader(self) -> str:
        """Return the member that noted itself; "" if no member did."""
        words = self.note.split(" ")
        return words[1] if len(words) == 4 and words[0] == _TAG and words[1] != _FREE else ""


@dataclass(frozen=True, slots=True)
class Looked:
    """What to do after a look at the committed offsets."""

    claim: Mapping[TopicPartition, Mark | None]
    """Free partitions to claim, with their marks; None where nothing was ever committed."""
    taken: Mapping[TopicPartition, int]
    """Partitions held from now on, and the next offset to read."""
    lost: frozenset[TopicPartition]
    """Partitions that were held, and that another member reads now."""


@dataclass(frozen=True, slots=True)
class _Claim:
    note: str
    sent: float
    confirmed: float


@dataclass(frozen=True, slots=True)
class _Seen:
    mark: Mark
    since: float
    """When the first look that showed it was answered."""


class Leases:
    """The partitions that one member waits for, claims and holds."""

    def __init__(self, name: str, session: str, terms: Terms) -> None:
        self._mine = f"{_TAG} {name} {session} "
        self._freed = f"{_TAG} {_FREE} {name}"
        self.terms = terms
        self._count = 0
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._seen: dict[TopicPartition, _Seen] = {}
        self._claims: dict[TopicPartition, _Claim] = {}
        self._until: dict[TopicPartition, float] = {}

    @property
    def wanted(self) -> frozenset[TopicPartition]:
        """The partitions that this member should read."""
        return self._wanted

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The partitions that it reads, those included whose lease has run out unnoticed."""
        return frozenset(self._until)

    @property
    def awaited(self) -> frozenset[TopicPartition]:
        """The partitions that it should read and does not hold."""
        return self._wanted - self._until.keys()

    def want(self, partitions: Collection[TopicPartition]) -> None:
        """Change the partitions that should be read."""
        self._wanted = frozenset(partitions)
        for known in (self._seen, self._claims):
            for partition in known.keys() - self._wanted:
                del known[partition]

    def note(self) -> str:
        """Return a note that was never used before."""
        self._count += 1
        return f"{self._mine}{self._count}"

    @property
    def free_note(self) -> str:
        """The note of a partition that was given up."""
        return self._freed

    def look(
        self, asked: float, answered: float, marks: Mapping[TopicPartition, Mark | None]
    ) -> Looked:
        """Take in the committed offsets; partitions that are missing could not be looked at."""
        claim: dict[TopicPartition, Mark | None] = {}
        taken: dict[TopicPartition, int] = {}
        lost = set()
        for partition, mark in marks.items():
            if partition in self._until:
                if mark is None or not mark.note.startswith(self._mine):
                    lost.add(partition)  # rule 6
            elif partition not in self._wanted:
                continue
            elif partition in self._claims:
                if self._stands(partition, asked, answered, mark):
                    assert mark is not None
                    taken[partition] = mark.offset
            elif self._is_free(partition, asked, answered, mark):
                claim[partition] = mark
        for partition in lost:
            del self._until[partition]
        return Looked(claim, taken, frozenset(lost))

    def _is_free(
        self, partition: TopicPartition, asked: float, answered: float, mark: Mark | None
    ) -> bool:
        """Rule 2."""
        if mark is None or mark.free:
            return True
        seen = self._seen.get(partition)
        if seen is None or seen.mark != mark:
            self._seen[partition] = _Seen(mark, answered)
            return False
        return asked - seen.since >= self.terms.lease * DRIFT

    def _stands(
        self, partition: TopicPartition, asked: float, answered: float, mark: Mark | None
    ) -> bool:
        """Rule 4: hold a claim that stands, and forget one that was replaced."""
        claim = self._claims[partition]
        if mark is not None and mark.note == claim.note:
            if asked < claim.confirmed + self.terms.settle * DRIFT:
                return False
            del self._claims[partition]
            if answered >= claim.sent + self.terms.lease:
                return False
            self._until[partition] = claim.sent + self.terms.lease
            self._seen.pop(partition, None)
            return True
        if asked >= claim.confirmed:
            del self._claims[partition]
            if mark is not None:
                self._seen[partition] = _Seen(mark, answered)
        return False

    def claimed(
        self,
        partitions: Collection[TopicPartition],
        note: str,
        asked: float,
        sent: float,
        confirmed: float,
    ) -> None:
        """Take in that a claim was confirmed; `asked` is when the look before it was asked for."""
        for partition in partitions:
            self._seen.pop(partition, None)
            if partition in self._wanted and confirmed - asked <= self.terms.settle:  # rule 3
                self._claims[partition] = _Claim(note, sent, confirmed)

    def renewed(
        self, partitions: Collection[TopicPartition], sent: float, confirmed: float
    ) -> None:
        """Note that a commit of the held partitions was confirmed."""
        for partition in partitions:
            until = self._until.get(partition)
            if until is not None and confirmed < until:  # rule 5
                self._until[partition] = max(until, sent + self.terms.lease)

    def holds(self, partition: TopicPartition, now: float) -> bool:
        """Return whether the partition may be read now."""
        return now < self._until.get(partition, now)

    def expire(self, now: float) -> frozenset[TopicPartition]:
        """Drop the partitions whose lease ran out, and return them."""
        over = frozenset(p for p, until in self._until.items() if now >= until)
        for partition in over:
            del self._until[partition]
        return over

    def give_up(
        self, partitions: Collection[TopicPartition], now: float
    ) -> dict[TopicPartition, float]:
        """Drop partitions; return until when a commit that says so may be sent (rule 7)."""
        ends = {p: self._until.pop(p, now) - self.terms.settle for p in partitions}
        return {p: end for p, end in ends.items() if now < end}
