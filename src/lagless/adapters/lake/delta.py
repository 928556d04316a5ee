"""A Delta table as delta-rs knows it: its handle, the entries of its log, and trying again.

One handle per topic and table, used by one thread at a time. What the versions in the log mean is
the business of `table`.
"""

import json
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from lagless.adapters.lake import data_files, log_entries
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.log_entries import Entries
from lagless.adapters.lake.store import Store, reason, trouble
from lagless.errors import Away, GiveUp, TryAgain

TROUBLES = (DeltaError, OSError)
"""The errors of delta-rs and of stores; any of them may come after a commit has landed."""
ATTEMPTS = 20
"""How often a change is tried before it counts as passing trouble."""
KEPT = 1000
"""Entries before the newest checkpoint that stay whatever their age, unless settings say more."""
GRACE = 120.0
"""Seconds that an entry stays at least, for handles and readers that are about to read it."""
LONG_GRACE = 900.0
"""The same in a bucket, where old entries make no commit slower."""
FRESH = 60.0
"""Seconds after a look at the log's end in which no entry behind it can have been deleted yet: far
less than LONG_GRACE. Later, an entry that is not there may have been there and is deleted."""
TRIES = 15
"""How often a commit that others overtook without touching its ids takes the next version."""
SHORTEN_EVERY = 200
"""Commits between two checks of the log's length."""
MANY_FILES = 10_000
log = logging.getLogger("lagless.lake")


def attempts(
    failure: str, number: int | None = None, pause: float = 0.01
) -> Iterator[AbstractContextManager[None, bool]]:
    """Yield attempts at an optimistic change, with growing pauses; after the last, TryAgain.

    The loop's body reads the newest state, and makes the change inside `with attempt:`. It returns
    when the change was accepted. What delta-rs or the store raises inside is kept, and slept over.
    """
    cause: BaseException | None = None

    @contextmanager
    def attempt(count: int) -> Iterator[None]:
        nonlocal cause
        try:
            yield
        except TROUBLES as error:
            cause = error
            time.sleep(pause * count)

    for count in range(number or ATTEMPTS):
        yield attempt(count)  # type: ignore[misc]  # typeshed leaves open whether it swallows
    raise TryAgain(f"{failure}: {reason(cause)}" if cause else failure) from cause


def now() -> float:
    """Return seconds on a clock that keeps running while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def shorten(table: Store, kept: int = KEPT, grace: float | None = None) -> int:
    """Delete entries far before the newest checkpoint, and return how many.

    Each commit lists the log: with tens of thousands of old entries that alone takes longer than
    the commit. Time travel reaches back as far as the entries do.
    """
    entries = table.inside("_delta_log")
    checkpoint = log_entries.checkpoint(entries)
    if checkpoint is None:
        return 0
    oldest = checkpoint - kept
    if grace is None:
        grace = GRACE if table.is_folder else LONG_GRACE
    before = time.time() - grace
    # Another consumer may shorten at the same time.
    return entries.delete_all(
        [
            file.name
            for file in entries.files()
            if (number := file.name[:20]).isdigit()
            and int(number) < oldest
            and file.modified < before
        ]
    )


class Handle:
    """A table as of one version."""

    def __init__(
        self,
        store: Store,
        columns: pa.Schema,
        retention_hours: float = 24,
        log_entries: int = KEPT,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.store = store
        self.partition_by = list(partition_by)
        self._columns = columns
        self._retention = retention_hours
        self._log_entries = log_entries
        self._opened: DeltaTable | None = None
        self._is_behind = False
        self._entries = Entries(store)
        self._commits = 0
        self._fresh = min(FRESH, retention_hours * 3600 / 4)
        self._asked = -self._fresh
        """When the log's end was last asked for."""
        self._plain: tuple[int, int] | None = None
        """The version of delta-rs's table, and its entries from checkpoint to checkpoint."""
        self._seen: int | None = None
        """The newest entry, if the last look read entries only and left delta-rs's table behind."""

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self.store.is_table()

    def open(self) -> DeltaTable:
        """Return delta-rs's table; create it with its first columns if it does not exist."""
        if self._opened is not None:
            # What was seen since did not change the table's columns or properties.
            return self.update() if self._is_behind and self._seen is None else self._opened
        asked = now()
        try:
            if not self.exists():
                self._create()
            opened = self.store.table()
        except TROUBLES as error:
            said = trouble(f"the table {self.store.uri} cannot be opened", error)
            raise Away(said, "lake") from error
        self._check_partitions(opened.metadata().partition_columns)
        self._opened = opened
        self._updated(opened, asked)
        return opened

    def _updated(self, opened: DeltaTable, asked: float) -> None:
        interval = log_entries.interval(opened)
        self._plain = None if interval is None else (opened.version(), interval)
        self._asked = asked
        self._is_behind = False
        self._seen = None

    def _check_partitions(self, present: Sequence[str]) -> None:
        if list(present) != self.partition_by:
            raise GiveUp(
                f"the table {self.store.uri} is partitioned by {', '.join(present) or 'nothing'}, "
                f"but partition_by asks for {', '.join(self.partition_by) or 'nothing'}: this "
                "cannot be changed in a table, so restore the setting or name another table"
            )

    def _create(self) -> None:
        self.store.prepare()
        seconds = round(self._retention * 3600)
        ranged = [name for name in data_files.COLUMNS if name in self._columns.names]
        ranged = [name for name in ranged if name not in self.partition_by]
        try:
            DeltaTable.create(
                self.store.uri,
                Schema.from_arrow(self._columns),
                storage_options=dict(self.store.options) or None,
                mode="error",
                partition_by=self.partition_by,
                # Never delta.setTransactionRetentionDuration: offsets would vanish.
                configuration={
                    # By default delta-rs treats a column without statistics as empty.
                    "delta.dataSkippingStatsColumns": ",".join(ranged),
                    # Each look and each commit reads every entry since the last checkpoint.
                    "delta.checkpointInterval": "30",
                    "delta.logRetentionDuration": f"interval {seconds} seconds",
                    "delta.enableExpiredLogCleanup": "true",
                },
            )
        except TROUBLES:
            if not self.exists():  # else another consumer was first
                raise

    def update(self) -> DeltaTable:
        """Bring the handle up to the newest version of the table."""
        if self._opened is None:
            return self.open()
        asked = now()
        try:
            self._opened.update_incremental()
        except TROUBLES:
            # The log may have been cleaned past this handle: only a new one can tell.
            self._opened = None
            return self.open()
        self._updated(self._opened, asked)
        return self._opened

    def look(self) -> None:
        """Learn what the log says of app transactions up to now.

        In a bucket by reading the entries behind the last one that is known, so that delta-rs's
        table stays behind. Soon after the last look only, and while nobody changes the table
        itself: otherwise the handle is brought up to date.
        """
        if not self._follow():
            self.update()

    def _follow(self) -> bool:
        if self.store.is_folder or self._plain is None:
            return False
        # What the handle has read, the entries must have read too: `_asked` holds for both.
        if self._entries.version < self._plain[0]:
            return False
        asked = now()
        if asked - self._asked > self._fresh:
            return False
        try:
            if not self._entries.follow():
                self._entries = Entries(self.store)
                return False
        except OSError:
            return False
        if self._entries.changed > self._plain[0]:
            return False
        self._asked = asked
        self._seen = self._entries.version
        self._is_behind = True
        return True

    def renew(self) -> None:
        """Forget the entries that were read: the log may have been trimmed past them."""
        self._opened = None
        self._plain = None
        self._seen = None
        self._entries = Entries(self.store)

    def entries(self) -> Mapping[str, int]:
        """Return every app transaction with its number, as of the last look or newer."""
        if self._seen is not None:
            return self._entries.known
        return self._entries.as_of(self.open().version())

    def lists(self, files: Collection[File]) -> bool:
        """Return whether the table, as of the last look or newer, holds all of these files."""
        opened = self.open() if self._seen is None else self.update()
        # Data files lie directly in the table's folder, under names that are never used twice.
        listed = {unquote(uri).rpartition("/")[2] for uri in opened.file_uris()}
        return all(file.name in listed for file in files)

    def discard(self, files: Sequence[File]) -> None:
        """Delete files that the table does not list."""
        try:
            if any(self.lists([file]) for file in files):
                return
        except (TryAgain, *TROUBLES):
            return  # in doubt they are left to vacuum
        self.store.delete_all([file.name for file in files])

    def write(self, files: Sequence[File], versions: Mapping[str, int]) -> None:
        """Commit files and app transactions on what the last look saw."""
        if (seen := self._seen) is not None:
            try:
                if self._put(files, versions, seen):
                    return
            finally:
                self._seen = None
            version = self.update().version()
            self._entries.as_of(version)
            self._refuse_touched(versions, seen)
        opened = self.open()
        moment = int(time.time() * 1000)
        adds: list[AddAction | RemoveAction] = [
            AddAction(file.name, file.size, file.values, moment, True, file.statistics)
            for file in files
        ]
        # The commit leaves the handle where it was: the next question brings it up to date. Not at
        # once, since each update lists the log, and the next look updates in any case.
        self._is_behind = True
        opened.create_write_transaction(
            adds,
            "append",
            opened.schema(),
            commit_properties=CommitProperties(
                # No last_updated: entries with one can expire.
                app_transactions=[Transaction(name, v) for name, v in versions.items()]
            ),
        )

    def _put(self, files: Sequence[File], versions: Mapping[str, int], seen: int) -> bool:
        """Create the entry behind the newest, and return whether this was the time for it.

        What is raised says nothing about whether the entry is there, as with any commit.
        """
        entry = log_entries.content(files, versions, self.partition_by)
        for _ in range(TRIES):
            version = self._entries.version + 1
            if self._plain is None or now() - self._asked > self._fresh:
                return False
            try:
                # Created, and by nobody else: so no entry came between the look and this one.
                self.store.put_new(f"_delta_log/{log_entries.name_of(version)}", entry)
                if (version + 1) % self._plain[1] == 0:
                    self._checkpoint()
                return True
            except FileExistsError:
                # Another consumer's, or this very entry, whose first answer was lost.
                if not self._follow() or self._entries.version < version:
                    return False
            self._refuse_touched(versions, seen)
        raise CommitFailedError(f"{self.store.uri}: other writers were faster {TRIES} times")

    def _checkpoint(self) -> None:
        """Write the checkpoint that is due, as delta-rs does after a commit of its own."""
        try:
            opened = self.update()
            self._entries.as_of(opened.version())
            opened.create_checkpoint()
            if opened.metadata().configuration.get("delta.enableExpiredLogCleanup") == "true":
                opened.cleanup_metadata()
        except (Away, *TROUBLES) as error:
            # The commit has landed, and the next checkpoint follows.
            log.warning("%s: no checkpoint was written: %s", self.store.uri, reason(error))

    def _refuse_touched(self, versions: Mapping[str, int], seen: int) -> None:
        if self._entries.touched(versions, seen):
            raise CommitFailedError(f"{self.store.uri}: another commit has touched these ids")

    def write_without(
        self, predicate: str, versions: Mapping[str, int], note: Mapping[str, Any]
    ) -> int:
        """Delete the rows of an SQL predicate in the commit of app transactions; return how many.

        Refused like `write`: only on the snapshot that the handle holds.
        """
        opened = self.open()
        before = opened.version()
        properties = CommitProperties(
            app_transactions=[Transaction(name, v) for name, v in versions.items()],
            custom_metadata={"lagless": json.dumps(note)},
        )
        self._is_behind = True
        done = opened.delete(predicate, commit_properties=properties)
        if opened.version() == before:  # no row is meant, and delta-rs commits nothing
            opened.create_write_transaction(
                [], "append", opened.schema(), commit_properties=properties
            )
        return int(done["num_deleted_rows"])

    def count_commit(self) -> None:
        """Shorten the log from time to time: every commit lists it."""
        self._commits += 1
        if self._commits % SHORTEN_EVERY:
            return
        try:
            shorten(self.store, self._log_entries)
            files = len(self.open().file_uris())
        except TROUBLES as error:
            log.warning("%s: old log entries were not deleted: %s", self.store.uri, error)
            return
        if files > MANY_FILES:
            log.warning(
                "%s has %s files, which costs memory: run lagless compact", self.store.uri, files
            )
