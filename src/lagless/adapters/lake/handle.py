"""A Delta table through delta-rs: its handle, its ids, and one commit.

One handle per topic and table, used by one thread at a time.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from lagless.adapters.lake import logs, statistics
from lagless.adapters.lake.logs import KEPT
from lagless.adapters.lake.statistics import File
from lagless.errors import TryAgain

SHORTEN_EVERY = 200
"""Commits between two looks at the length of the log."""
MANY_FILES = 10_000
TROUBLES = (DeltaError, OSError)
"""What delta-rs raises; any of them may come after the commit has landed."""
log = logging.getLogger("lagless.lake")


class Handle:
    """A table as delta-rs knows it, as of one version."""

    def __init__(
        self, path: Path, columns: pa.Schema, retention_hours: float = 24, log_entries: int = KEPT
    ) -> None:
        self.path = path
        self._columns = columns
        self._retention = retention_hours
        self._log_entries = log_entries
        self._opened: DeltaTable | None = None
        self._is_behind = False
        self._entries = logs.Entries(path)
        self._commits = 0

    def exists(self) -> bool:
        """Say whether the table is there."""
        return DeltaTable.is_deltatable(str(self.path))

    def open(self) -> DeltaTable:
        """Give the handle; create the table with its first columns if it is not there."""
        if self._opened is not None:
            return self.update() if self._is_behind else self._opened
        try:
            if not self.exists():
                self._create()
            self._opened = DeltaTable(str(self.path))
        except TROUBLES as error:
            raise TryAgain(f"the table {self.path} cannot be opened: {error}") from error
        self._is_behind = False
        return self._opened

    def _create(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        seconds = round(self._retention * 3600)
        ranged = [name for name in statistics.COLUMNS if name in self._columns.names]
        try:
            DeltaTable.create(
                str(self.path),
                Schema.from_arrow(self._columns),
                mode="error",
                # Never delta.setTransactionRetentionDuration: offsets would vanish.
                configuration={
                    # Unsaid, delta-rs takes a column without a range for one that holds nothing.
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
        try:
            self._opened.update_incremental()
        except TROUBLES:
            # The log may have been cleaned past this handle: only a new one can tell.
            self._opened = None
            return self.open()
        self._is_behind = False
        return self._opened

    def lists(self, files: Collection[File]) -> bool:
        """Say whether the handle's snapshot holds all of these files."""
        listed = {Path(unquote(uri.removeprefix("file://"))) for uri in self.open().file_uris()}
        return all(one.path.absolute() in listed for one in files)

    def renew(self) -> None:
        """Forget the handle: the log may have been shortened past it."""
        self._opened = None
        self._entries = logs.Entries(self.path)

    def discard(self, files: Sequence[File]) -> None:
        """Delete files that the table does not list."""
        try:
            if any(self.lists([one]) for one in files):
                return
        except (TryAgain, *TROUBLES):
            return  # in doubt they are left to vacuum
        for one in files:
            one.path.unlink(missing_ok=True)

    def version(self, name: str) -> int | None:
        """Give the version of an app transaction, as of the handle or newer."""
        self._entries.read_to(self.open().version())
        return self._entries[name]

    def entries(self) -> dict[str, int]:
        """Give every app transaction with its version."""
        self._entries.read_to(self.open().version())
        return dict(self._entries.items())

    def _write(
        self,
        files: Sequence[File],
        versions: Mapping[str, int],
        note: Mapping[str, object] | None = None,
    ) -> None:
        handle = self.open()
        adds: list[AddAction | RemoveAction] = [
            AddAction(
                one.path.relative_to(self.path).as_posix(),
                one.size,
                {},
                int(time.time() * 1000),
                True,
                one.statistics,
            )
            for one in files
        ]
        # The commit leaves the handle where it was: whoever asks it next brings it up to date. Not
        # at once, since each update lists the log, and the next look updates in any case.
        self._is_behind = True
        handle.create_write_transaction(
            adds,
            "append",
            handle.schema(),
            commit_properties=CommitProperties(
                custom_metadata=None if note is None else {"lagless": dict(note)},
                # No last_updated: entries with one can expire.
                app_transactions=[Transaction(name, v) for name, v in versions.items()],
            ),
        )

    def _count(self) -> None:
        """Shorten the log from time to time: every commit lists it."""
        self._commits += 1
        if self._commits % SHORTEN_EVERY:
            return
        try:
            logs.shorten(self.path, self._log_entries)
            files = len(self.open().file_uris())
        except TROUBLES as error:
            log.warning("%s: old entries of the log were not deleted: %s", self.path, error)
            return
        if files > MANY_FILES:
            log.warning(
                "%s has %s files, which costs memory: run lagless compact", self.path, files
            )
