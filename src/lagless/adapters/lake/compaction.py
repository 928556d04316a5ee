"""Compaction and vacuum of one table, safe beside consumers and beside a second compaction.

delta-rs's own optimize lets two concurrent runs land, and every row is there twice. Here the merged
file is written first; then, on a fresh snapshot, every file that it replaces must still be listed,
and the commit that swaps them is made without retries, so that it is refused if anything came
between. A compaction that is killed leaves at most a file that no log lists, which a later vacuum
deletes.

Files are merged by whole runs in the order of their offsets; rows are not changed. `tiers` says
which files.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from lagless.adapters.lake import data_files, delta, partitions, tiers
from lagless.adapters.lake.delta import TROUBLES
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.tiers import Listed
from lagless.errors import TryAgain
from lagless.settings import CompactionSettings

TARGET = CompactionSettings().target
ATTEMPTS = 50
ROW_GROUP = 32_000_000
"""Bytes in memory of a merged file's row groups; those of small files are put together."""
RETENTION = timedelta(days=1)
"""How long files that no log lists are kept: a consumer may be about to commit them."""


@dataclass(slots=True)
class Outcome:
    """The result of a compaction."""

    table: str
    files_before: int = 0
    files_after: int = 0
    merged: int = 0
    """Files that were replaced by larger ones."""
    contested: int = 0
    """Merges that were given up because another compaction had been there."""
    vacuumed: int = 0
    folders: int = 0
    log_entries: int = 0
    troubles: list[str] = field(default_factory=list)


def compact(
    table: Store,
    target: int = TARGET,
    retention: timedelta = RETENTION,
    log_entries: int = delta.KEPT,
    between: Callable[[], None] = lambda: None,
) -> Outcome:
    """Merge small files, then delete files that are no longer listed; `between` is for tests."""
    if retention < RETENTION:
        raise ValueError("files younger than a day may belong to a commit in progress")
    outcome = Outcome(table.name)
    listed = list(_listed(table.table()))
    outcome.files_before = len(listed)
    for group in tiers.at_once(listed, target):
        _merge_one(table, group, outcome, between)
    outcome.files_after = len(table.table().file_uris())
    _clean(table, retention, log_entries, outcome)
    return outcome


def due(table: Store, target: int) -> list[list[Listed]]:
    """Return the merges that the table's newest version calls for, one size of files each."""
    with _passing(table):
        return tiers.due(_listed(table.table()), target)


def merge(table: Store, group: Sequence[Listed]) -> bool:
    """Merge files into one, and return False if another compaction had been there."""
    outcome = Outcome(table.name)
    with _passing(table):
        _merge_one(table, group, outcome)
    return not outcome.contested


def clean(table: Store, log_entries: int = delta.KEPT) -> Outcome:
    """Delete files that have not been listed for a day, and old log entries."""
    outcome = Outcome(table.name)
    with _passing(table):
        _clean(table, RETENTION, log_entries, outcome)
    return outcome


@contextmanager
def _passing(table: Store) -> Iterator[None]:
    try:
        yield
    except (*TROUBLES, pa.ArrowException) as error:
        raise TryAgain(f"{table.uri} cannot be compacted: {error}") from error


def _merge_one(
    table: Store,
    group: Sequence[Listed],
    outcome: Outcome,
    between: Callable[[], None] = lambda: None,
) -> None:
    merged = _merge(table, group)
    between()
    if _swap(table, group, merged):
        outcome.merged += len(group)
    else:
        outcome.contested += 1
        table.delete(merged.name)


def _clean(table: Store, retention: timedelta, log_entries: int, outcome: Outcome) -> None:
    _vacuum(table.table(), table, retention, outcome)
    outcome.log_entries = delta.shorten(table, log_entries)


def _listed(handle: DeltaTable) -> Iterator[Listed]:
    columns = handle.metadata().partition_columns
    for row in pa.table(handle.get_add_actions(flatten=True)).to_pylist():
        values = {name: partitions.text(row[f"partition.{name}"]) for name in columns}
        yield Listed(row["path"], row["size_bytes"], row.get("min._offset") or 0, values)


def _merge(table: Store, group: Sequence[Listed]) -> data_files.File:
    """Write the rows of several files into one, one row group in memory at a time."""
    name = data_files.new_name()
    schemas = []
    for file in group:
        with table.open(file.path) as source:
            schemas.append(pq.read_schema(source).remove_metadata())
    schema = pa.unify_schemas(schemas)  # columns that joined later are null in earlier files
    with table.create(name) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for rows in _gathered(_batches(table, group), schema):
            writer.write_table(rows)
    return data_files.measure(table, name, group[0].values)


def _batches(table: Store, group: Iterable[Listed]) -> Iterator[pa.RecordBatch]:
    for file in group:
        with table.open(file.path) as source:
            yield from pq.ParquetFile(source).iter_batches()


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables that are large enough for a row group."""
    gathered = [schema.empty_table()]
    size = 0
    for batch in batches:
        gathered.append(pa.Table.from_batches([batch]))
        size += batch.nbytes
        if size >= ROW_GROUP:
            yield pa.concat_tables(gathered, promote_options="default")
            gathered, size = [schema.empty_table()], 0
    if size:
        yield pa.concat_tables(gathered, promote_options="default")


def _swap(table: Store, group: Sequence[Listed], merged: data_files.File) -> bool:
    """Replace files by their merger; return False if one of them is not listed any more."""
    failure = f"{table.uri}: the table changes too fast to be compacted"
    for attempt in delta.attempts(failure, ATTEMPTS, pause=0.005):
        handle = table.table()
        paths = {file.path for file in _listed(handle)}
        if merged.name in paths:
            return True  # an earlier attempt had landed after all
        if not all(file.path in paths for file in group):
            return False
        now = int(time.time() * 1000)
        removes = [
            RemoveAction(file.path, False, now, file.size, dict(file.values)) for file in group
        ]
        add = AddAction(merged.name, merged.size, merged.values, now, False, merged.statistics)
        with attempt:
            handle.create_write_transaction(
                [*removes, add],
                "append",
                handle.schema(),
                commit_properties=CommitProperties(
                    max_commit_retries=0, custom_metadata={"lagless": {"compaction": len(group)}}
                ),
            )
            return True
    return False


def _vacuum(handle: DeltaTable, table: Store, retention: timedelta, outcome: Outcome) -> None:
    """Delete files that neither the table nor a commit under way needs, and empty folders."""
    hours = int(retention.total_seconds() // 3600)
    try:
        deleted = handle.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        outcome.vacuumed = len(deleted)
    except TROUBLES as error:
        outcome.troubles.append(f"vacuum: {error}")
    outcome.folders = table.sweep("cycle-", time.time() - retention.total_seconds())
