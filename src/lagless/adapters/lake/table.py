"""One topic's end of a Delta table: claim, look and commit. Here every record lands exactly once.

The idea. Kafka's offsets and the table's rows would have to change together, and no transaction
spans both. So offsets are not kept in Kafka but in the table's own log, where one commit adds data
files and moves offsets at once, or does neither. Delta lets a commit carry app transactions, pairs
of an id and a number. Each partition has up to three:

    group/topic/topic id/partition           the next offset to read
    group/topic/topic id/partition/owner     the generation of the order under which it is read
    group/topic/topic id/partition/epoch     the leader epoch in which Kafka's log got that far

The epoch is there once records were read. It counts for that one offset, whose lower 32 bits are
in it: a reset, or an older version of lagless, moves the offset and leaves the epoch. `group/topic`
marks that the group has met a topic of this name. The topic id is Kafka's UUID, so a recreated
topic never meets its predecessor's offsets.

The lock is optimistic. delta-rs (in a bucket mostly `delta.Handle` itself) refuses a commit if
another commit has touched one of its ids since the snapshot that the handle holds; writers of other
partitions do not disturb each other. A consumer that takes a partition over commits first, without
files, the offset as it is and its own generation: the old owner's commit that is in flight is
refused, and its next look finds a higher generation. Nobody has to be reached, and no clock has to
be right: a consumer that was paused for an hour is refused as surely as one that was a millisecond
late.

Invariants
 1. The log is the truth. No offset is carried in memory from one cycle to the next.
 2. Snapshots are compared, not numbers: a remembered offset on an updated handle would be
    accepted. So a commit is made on the very handle of the look, never updated in between.
 3. A claim touches the ids even if their numbers stay the same: touching is what refuses.
 4. After a refusal or any exception the table is looked at first: the commit may have landed.
 5. A file is deleted only if a fresh snapshot does not list it; when in doubt vacuum will.

Owners are compared here and nowhere else. docs/exactly-once.md tells the same story for users.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lagless.adapters.lake import delta
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.delta import KEPT, TROUBLES, Handle
from lagless.adapters.lake.store import Store
from lagless.errors import ClaimLost, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Position, Span, Topic

OWNER = "/owner"
EPOCH = "/epoch"
LOW = 1 << 32
"""An epoch is multiplied by it, and the offset modulo it is added."""
NOBODY = 2**62
"""The owner of partitions of a deleted topic: newer than every order."""
log = logging.getLogger("lagless.lake")


@dataclass(frozen=True, slots=True)
class Former:
    """Where reading stopped in a partition of a deleted topic with the same name."""

    topic: Topic
    partition: TopicPartition
    offset: int


class Table:
    """A topic's end of a Delta table."""

    def __init__(
        self,
        store: Store,
        group: str,
        topic: Topic,
        columns: pa.Schema,
        retention_hours: float = 24,
        log_entries: int = KEPT,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.handle = Handle(store, columns, retention_hours, log_entries, partition_by)
        self.store = store
        self.topic = topic
        self._group = group

    def __str__(self) -> str:
        return self.store.uri

    @property
    def marker(self) -> str:
        """Return the id which says that the group has met a topic of this name."""
        return f"{self._group}/{self.topic.name}"

    def offset_id(self, partition: TopicPartition, topic: Topic | None = None) -> str:
        """Return the id of a partition's next offset; others of the partition begin with it."""
        return f"{self.marker}/{(topic or self.topic).id}/{partition.partition}"

    def _owner_id(self, partition: TopicPartition) -> str:
        return self.offset_id(partition) + OWNER

    def ids(self, positions: Mapping[TopicPartition, Position]) -> dict[str, int]:
        """Return the app transactions that say these positions."""
        offsets = {self.offset_id(p): at.offset for p, at in positions.items()}
        epochs = {
            self.offset_id(p) + EPOCH: at.epoch * LOW + at.offset % LOW
            for p, at in positions.items()
            if at.epoch >= 0
        }
        return offsets | {self._owner_id(p): at.owner for p, at in positions.items()} | epochs

    def without_epochs(self, offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
        """Return the app transactions that leave the epochs of these offsets open."""
        names = {p: self.offset_id(p) + EPOCH for p in offsets}
        known = self.handle.entries()
        # The lower bits of another offset: this one counts for none.
        return {name: (offsets[p] + 1) % LOW for p, name in names.items() if name in known}

    def claim(
        self,
        partitions: Collection[TopicPartition],
        generation: int | None,
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Take partitions over; see ports.Tables.claim."""
        granted: dict[TopicPartition, int] = {}

        def versions() -> dict[str, int]:
            entries = self.handle.entries()
            owners = {p: entries.get(self._owner_id(p), 0) for p in partitions}
            for p, owner in owners.items():
                granted[p] = owner + 1 if generation is None else generation
            newer = {p: owner for p, owner in owners.items() if owner > granted[p]}
            if newer:
                raise _lost(newer)
            begun = self._beginnings(entries, partitions, first, earliest)
            return begun | {self._owner_id(p): granted[p] for p in partitions}

        self.insist(versions)
        return granted

    def unmet(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions without an offset, if the group knows the topic's name already."""
        self.handle.update()
        entries = self.handle.entries()
        if self.marker not in entries:
            return []
        return [p for p in partitions if self.offset_id(p) not in entries]

    def close_former(self, partitions: Collection[TopicPartition]) -> list[Former]:
        """Return where reading of deleted topics with this name stopped, and close them.

        Their ids get an owner that no consumer is, so that a commit in flight is refused.
        """
        former: list[Former] = []

        def versions() -> dict[str, int]:
            former[:] = self.former(partitions)
            closed = {self.offset_id(f.partition, f.topic): f.offset for f in former}
            return closed | {f"{name}{OWNER}": NOBODY for name in closed}

        self.insist(versions)
        return former

    def former(self, partitions: Collection[TopicPartition]) -> list[Former]:
        """Return the entries of earlier topics with this name."""
        former = []
        for name, offset in self.handle.entries().items():
            head, _, number = name.rpartition("/")
            marker, _, topic_id = head.rpartition("/")
            if marker != self.marker or topic_id == self.topic.id or not number.isdigit():
                continue
            p = TopicPartition(self.topic.name, int(number))
            if p in partitions:
                former.append(Former(Topic(self.topic.name, topic_id), p, offset))
        return sorted(former, key=lambda end: (end.topic, end.partition))

    def advance(self, until: Mapping[TopicPartition, int]) -> None:
        """Move partitions on to these offsets, without files, unless they are there already.

        Their ids are touched, so that a commit in flight for what was passed is refused.
        """

        def versions() -> dict[str, int]:
            positions = self.positions(until)
            return self.ids(
                {p: Position(max(at.offset, until[p]), at.owner) for p, at in positions.items()}
            )

        self.insist(versions)

    def insist(self, versions: Callable[[], Mapping[str, int]]) -> None:
        """Commit ids without files, computed from the newest state, until it is accepted."""
        for attempt in delta.attempts(f"{self}: the claim was not accepted"):
            self.handle.update()
            wanted = versions()
            if not wanted:
                return
            with attempt:
                self.handle.write((), wanted)
                return

    def _beginnings(
        self,
        entries: Mapping[str, int],
        partitions: Collection[TopicPartition],
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> dict[str, int]:
        """Return every claimed partition's offset as it is, or where to begin."""
        begin: Mapping[TopicPartition, int] = {}
        versions: dict[str, int] = {}
        if self.marker not in entries:
            # All partitions at once: whoever claims the others must not begin at the earliest.
            begin = first()
            versions[self.marker] = 1
        for p in {*partitions, *begin}:
            known = entries.get(self.offset_id(p))
            if known is not None and p not in partitions:
                continue
            versions[self.offset_id(p)] = (
                begin.get(p, earliest.get(p, 0)) if known is None else known
            )
        return versions

    def look(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions as they are now, and leave the handle there."""
        self.handle.look()
        return self._known(partitions)

    def look_owned(
        self, generations: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Position]:
        """Look, and raise ClaimLost unless each partition is owned under its generation."""
        positions = self.look(generations)
        _check_owners(positions, generations)
        return positions

    def check(
        self, spans: Mapping[TopicPartition, Span], generations: Mapping[TopicPartition, int]
    ) -> None:
        """Look again: ClaimLost or TryAgain unless spans begin where the table is, and mine."""
        positions = self.look_owned({p: generations[p] for p in spans})
        if any(at.offset != spans[p].first for p, at in positions.items()):
            raise TryAgain(f"{self}: the offsets in the table have changed")

    def _known(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions; with a new handle, if the log was shortened past the old one."""
        try:
            return self.positions(partitions)
        except TROUBLES:
            self.handle.renew()
        try:
            return self.positions(partitions)
        except TROUBLES as error:
            self.handle.renew()
            raise TryAgain(f"{self}: the log cannot be read: {error}") from error

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions that the handle knows, without another look."""
        entries = self.handle.entries()
        positions = {}
        for p in partitions:
            offset = entries.get(self.offset_id(p), 0)
            epoch, low = divmod(entries.get(self.offset_id(p) + EPOCH, -1), LOW)
            known = epoch if low == offset % LOW else -1
            positions[p] = Position(offset, entries.get(self._owner_id(p), 0), known)
        return positions

    def commit(
        self,
        files: Sequence[File],
        spans: Mapping[TopicPartition, Span],
        generations: Mapping[TopicPartition, int],
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Add files together with the new offsets, and return whether they landed.

        False: the table had moved on by itself, and reading goes on from what it says. ClaimLost:
        another consumer owns some of the partitions. TryAgain: nobody can say yet. `check` raises
        when the commit must not happen any more: past the deadline, or the topic was recreated.
        """
        before = {p: Position(span.first, generations[p]) for p, span in spans.items()}
        after = {p: Position(span.until, generations[p], span.epoch) for p, span in spans.items()}
        # 1. On the handle of the look, without updating it: is this where reading began?
        if self._known(spans) != before:
            return self._settle(files, before)
        for attempt in delta.attempts(f"{self}: the commit was not accepted"):
            # 2. Past its deadline a cycle never commits.
            check()
            # 3. Files, offsets and owners in one commit.
            with attempt:
                self.handle.write(files, self.ids(after))
                # 4. The handle is behind now, and is updated before it is asked again.
                self.handle.count_commit()
                return True
            # 5. Look before anything else: the commit may have landed all the same.
            positions = self.look(spans)
            if positions == after and self.handle.lists(files):
                return True
            if positions != before:
                break
        return self._settle(files, before)

    def _settle(self, files: Sequence[File], before: Mapping[TopicPartition, Position]) -> bool:
        """Discard the files of a commit that was overtaken; ClaimLost if another is the owner."""
        # 6. Not listed by a snapshot that is newer than the refusal: nobody needs them.
        positions = self.look(before)
        self.handle.discard(files)
        _check_owners(positions, {p: at.owner for p, at in before.items()})
        log.info("%s: the offsets in the table have changed; reading continues from them", self)
        return False


def _check_owners(
    positions: Mapping[TopicPartition, Position], generations: Mapping[TopicPartition, int]
) -> None:
    taken = {p: at.owner for p, at in positions.items() if at.owner != generations[p]}
    if taken:
        raise _lost(taken)


def _lost(owners: Mapping[TopicPartition, int]) -> ClaimLost:
    owner = max(owners.values())
    names = ", ".join(map(str, sorted(owners)))
    return ClaimLost(
        f"{names}: claimed by another consumer under generation {owner}", owners, owner
    )
