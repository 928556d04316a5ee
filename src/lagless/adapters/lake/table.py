"""One table's log, through delta-rs: claim, look and commit.

Invariants
 1. The log is the truth: the version of "group/topic/topic id/partition" is the next offset, and
    that of ".../owner" the generation under which it is read. No offset is carried in memory from
    one cycle to the next.
 2. delta-rs refuses a commit whose ids another commit has touched since the snapshot that the
    handle holds. It compares snapshots, not versions: so a commit is made on the very handle that
    the look was made on, never updated in between.
 3. A claim touches the ids without files: it refuses what the old owner has in flight, and every
    later look of the old owner finds a higher generation.
 4. After a refusal or any exception the table is looked at first: the commit may have landed.
 5. A file is deleted only if a fresh snapshot does not list it; when in doubt vacuum will.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lagless.adapters.lake import identities
from lagless.adapters.lake.handle import TROUBLES, Handle
from lagless.adapters.lake.logs import KEPT
from lagless.adapters.lake.statistics import File
from lagless.errors import ClaimLost, TryAgain
from lagless.ports import Position, Span, Topic

ATTEMPTS = 20
"""How often a claim or a commit is made anew before it counts as passing trouble."""
NOBODY = 2**62
"""The owner of partitions that are no more: newer than every order."""
log = logging.getLogger("lagless.lake")


class Table(Handle):
    """A topic's end of a Delta table."""

    def __init__(
        self,
        path: Path,
        group: str,
        topic: Topic,
        columns: pa.Schema,
        retention_hours: float = 24,
        log_entries: int = KEPT,
    ) -> None:
        super().__init__(path, columns, retention_hours, log_entries)
        self.topic = topic
        self._group = group

    # ------------------------------------------------------------------ claim, look, commit

    def claim(
        self,
        partitions: Collection[int],
        generation: int | None,
        first: Callable[[], Mapping[int, int]],
        earliest: Mapping[int, int],
    ) -> dict[int, int]:
        """Take partitions over; see ports.Tables.claim."""
        granted: dict[int, int] = {}

        def versions() -> dict[str, int]:
            owners = {p: self.version(self._owner(p)) or 0 for p in partitions}
            for p, owner in owners.items():
                granted[p] = owner + 1 if generation is None else generation
            newer = {p: owner for p, owner in owners.items() if owner > granted[p]}
            if newer:
                raise self._lost(newer)
            begun = self._beginnings(partitions, first, earliest)
            return begun | {self._owner(p): granted[p] for p in partitions}

        self._insist(versions)
        return granted

    def close_former(self, partitions: Collection[int]) -> list[identities.Former]:
        """Give where reading stopped in earlier topics of this name; nobody reads on there.

        Their ids get an owner that nobody is, so that a commit in flight for them is refused.
        """
        found: list[identities.Former] = []

        def versions() -> dict[str, int]:
            found[:] = identities.former(
                self.entries().items(), self._group, self.topic, partitions
            )
            places = {one.place(self._group, self.topic.name): one.offset for one in found}
            return places | {f"{name}{identities.OWNER}": NOBODY for name in places}

        self._insist(versions)
        return found

    def advance(self, until: Mapping[int, int]) -> None:
        """Move partitions on to these offsets, without files, unless they are there already.

        Their ids are touched, so that a commit in flight for what was passed is refused.
        """

        def versions() -> dict[str, int]:
            found = self.positions(until)
            after = {p: Position(max(at.offset, until[p]), at.owner) for p, at in found.items()}
            return self._named(after)

        self._insist(versions)

    def _insist(self, versions: Callable[[], Mapping[str, int]]) -> None:
        """Commit ids without files, on what the table says by then, until it is accepted."""
        trouble: Exception | None = None
        for attempt in range(ATTEMPTS):
            self.update()
            wanted = versions()
            if not wanted:
                return
            try:
                self._write((), wanted)
            except TROUBLES as error:
                trouble = error
                time.sleep(0.01 * attempt)
                continue
            return
        raise TryAgain(f"{self.path}: the claim was not accepted: {trouble}") from trouble

    def _beginnings(
        self,
        partitions: Collection[int],
        first: Callable[[], Mapping[int, int]],
        earliest: Mapping[int, int],
    ) -> dict[str, int]:
        """Give every claimed partition's offset as it is, or where to begin."""
        marker = identities.marker(self._group, self.topic.name)
        begin: dict[int, int] = {}
        versions: dict[str, int] = {}
        if self.version(marker) is None:
            # All partitions at once: whoever claims the others must not begin at the earliest.
            begin = dict(first())
            versions[marker] = 1
        for p in {*partitions, *begin}:
            known = self.version(self._place(p))
            if known is not None and p not in partitions:
                continue
            versions[self._place(p)] = begin.get(p, earliest.get(p, 0)) if known is None else known
        return versions

    def look(self, partitions: Collection[int]) -> dict[int, Position]:
        """Give the positions as they are now, and let the handle stand there."""
        self.update()
        try:
            return self.positions(partitions)
        except TROUBLES:
            return self._look_afresh(partitions)

    def check(self, spans: Mapping[int, Span], generations: Mapping[int, int]) -> None:
        """Look again: ClaimLost or TryAgain unless spans begin where the table is, and mine."""
        found = self.look(spans)
        self._check_owners(found, generations)
        if any(at.offset != spans[p].first for p, at in found.items()):
            raise TryAgain(f"{self.path}: the table had moved on")

    def _look_afresh(self, partitions: Collection[int]) -> dict[int, Position]:
        """Look with a new handle: the log may have been shortened past the old one."""
        self.renew()
        try:
            return self.positions(partitions)
        except TROUBLES as error:
            self._opened = None
            raise TryAgain(f"{self.path}: the log cannot be read: {error}") from error

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        """Give the positions that the handle knows, without another look."""
        return {
            p: Position(self.version(self._place(p)) or 0, self.version(self._owner(p)) or 0)
            for p in partitions
        }

    def commit(
        self,
        files: Sequence[File],
        read_from: Mapping[int, int],
        read_to: Mapping[int, int],
        generations: Mapping[int, int],
        check: Callable[[], None] = lambda: None,
        note: Mapping[str, object] | None = None,
    ) -> bool:
        """Add files together with the new offsets, and say whether they landed.

        False: the table had moved on by itself, and reading goes on from what it says. ClaimLost:
        another consumer owns some of the partitions. TryAgain: nobody can say yet. `check` raises
        when the commit must not happen any more: the deadline is over or the topic another one.
        """
        before = {p: Position(read_from[p], generations[p]) for p in read_from}
        after = {p: Position(read_to[p], generations[p]) for p in read_from}
        # 1. On the handle of the look, without updating it: is this where reading began?
        trouble: Exception | None = None
        try:
            found = self.positions(read_from)
        except TROUBLES:
            found = self._look_afresh(read_from)
        for attempt in range(ATTEMPTS):
            if found != before:
                break
            # 2. Past its deadline a cycle never commits.
            check()
            # 3. Files, offsets and owners in one commit.
            try:
                self._write(files, self._named(after), note)
                # 4. The handle is behind now, and is updated before it is asked again.
                self._count()
                return True
            except TROUBLES as error:
                trouble = error
            # 5. Look before anything else: the commit may have landed all the same.
            time.sleep(0.01 * attempt)
            found = self.look(read_from)
            if found == after and self.lists(files):
                return True
        return self._settle(files, before, found, generations, trouble)

    def _settle(
        self,
        files: Sequence[File],
        before: Mapping[int, Position],
        found: Mapping[int, Position],
        generations: Mapping[int, int],
        trouble: Exception | None,
    ) -> bool:
        """Decide what follows when a commit did not come about."""
        if found == before:
            raise TryAgain(f"{self.path}: the commit was not accepted: {trouble}") from trouble
        # 6. Not listed by a snapshot that is newer than the refusal: nobody needs them.
        found = self.look(generations)
        self.discard(files)
        self._check_owners(found, generations)
        log.info("%s: the table had moved on, reading goes on from it", self.path)
        return False

    # ------------------------------------------------------------------ names

    def _place(self, partition: int) -> str:
        return identities.place(self._group, self.topic, partition)

    def _owner(self, partition: int) -> str:
        return identities.owner(self._group, self.topic, partition)

    def _named(self, positions: Mapping[int, Position]) -> dict[str, int]:
        entries = {self._place(p): at.offset for p, at in positions.items()}
        return entries | {self._owner(p): at.owner for p, at in positions.items()}

    def _check_owners(self, found: Mapping[int, Position], generations: Mapping[int, int]) -> None:
        taken = {p: at.owner for p, at in found.items() if at.owner != generations[p]}
        if taken:
            raise self._lost(taken)

    def _lost(self, owners: Mapping[int, int]) -> ClaimLost:
        owner = max(owners.values())
        names = ", ".join(f"{self.topic.name}:{p}" for p in sorted(owners))
        return ClaimLost(
            f"{names}: claimed by another consumer under generation {owner}", owners, owner
        )
