"""Compaction and vacuum of one table, safe beside consumers and beside a second compaction.

delta-rs's own optimize lets two at once land, and every row is there twice. Here the merged file
is written first; then, on a fresh snapshot, every file that it replaces must still be listed, and
the commit that swaps them is made without retries, so that it is refused if anything came between.

Files are merged by whole runs in the order of their offsets; rows are not changed.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from lagless.adapters.lake import logs, statistics
from lagless.errors import TryAgain

TARGET = 128_000_000
"""Bytes that a merged file should have."""
FEWEST = 2
ATTEMPTS = 50
RETENTION = timedelta(days=1)
"""How long files that nobody lists are kept: a consumer may be about to commit them."""
TROUBLES = (DeltaError, OSError)


@dataclass(slots=True)
class Outcome:
    """What a compaction did."""

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


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the log lists it."""

    path: str
    size: int
    first: int


def compact(
    path: Path,
    target: int = TARGET,
    retention: timedelta = RETENTION,
    log_entries: int = logs.KEPT,
    between: Callable[[], None] = lambda: None,
) -> Outcome:
    """Merge small files, then delete what nobody lists any more; `between` is for tests."""
    if retention < RETENTION:
        raise ValueError("files younger than a day may be those of a commit that is under way")
    outcome = Outcome(path.name)
    handle = DeltaTable(str(path))
    listed = list(_listed(handle))
    outcome.files_before = len(listed)
    for group in groups(listed, target):
        merged = _merge(path, group)
        between()
        if _swap(path, group, merged):
            outcome.merged += len(group)
        else:
            outcome.contested += 1
            merged.path.unlink(missing_ok=True)
    handle = DeltaTable(str(path))
    outcome.files_after = len(handle.file_uris())
    _vacuum(handle, path, retention, outcome)
    outcome.log_entries = logs.shorten(path, log_entries)
    return outcome


def groups(files: Sequence[Listed], target: int) -> list[list[Listed]]:
    """Choose which small files to merge, in the order of their offsets, up to the target each."""
    small = sorted((one for one in files if one.size < target // 2), key=lambda one: one.first)
    found: list[list[Listed]] = []
    size = 0
    for one in small:
        if not found or size + one.size > target:
            found.append([])
            size = 0
        found[-1].append(one)
        size += one.size
    return [group for group in found if len(group) >= FEWEST]


def _listed(handle: DeltaTable) -> Iterator[Listed]:
    actions = pa.table(handle.get_add_actions(flatten=True))
    names = actions.column_names
    for row in actions.to_pylist():
        first = row["min._offset"] if "min._offset" in names else None
        yield Listed(row["path"], row["size_bytes"], first if first is not None else 0)


def _merge(path: Path, group: Sequence[Listed]) -> statistics.File:
    """Write the rows of several files into one, one file in memory at a time."""
    target = path / f"{uuid.uuid4().hex}.parquet"
    schema = _schema(path, group)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for one in group:
            for batch in pq.ParquetFile(path / one.path).iter_batches():
                writer.write_table(_fitted(pa.Table.from_batches([batch]), schema))
    return statistics.measure(target)


def _schema(path: Path, group: Sequence[Listed]) -> pa.Schema:
    """Give the columns of all files; those that joined later are null in earlier ones."""
    schemas = [pq.read_schema(path / one.path).remove_metadata() for one in group]
    return pa.unify_schemas(schemas)


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    for column in schema:
        if column.name not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(len(rows), column.type))
    return rows.select(schema.names).cast(schema)


def _swap(path: Path, group: Sequence[Listed], merged: statistics.File) -> bool:
    """Replace files by their merger; False if one of them is not listed any more."""
    for attempt in range(ATTEMPTS):
        handle = DeltaTable(str(path))
        paths = {one.path for one in _listed(handle)}
        if merged.path.name in paths:
            return True  # an earlier attempt had landed after all
        if not all(one.path in paths for one in group):
            return False
        now = int(time.time() * 1000)
        removes = [_remove(one, now) for one in group]
        add = AddAction(merged.path.name, merged.size, {}, now, False, merged.statistics)
        try:
            handle.create_write_transaction(
                [*removes, add],
                "append",
                handle.schema(),
                commit_properties=CommitProperties(
                    max_commit_retries=0, custom_metadata={"lagless": {"compaction": len(group)}}
                ),
            )
            return True
        except TROUBLES:
            time.sleep(0.005 * (attempt + 1))
    raise TryAgain(f"{path}: the table changes too fast to be compacted")


def _remove(one: Listed, now: int) -> RemoveAction:
    return RemoveAction(one.path, False, now, one.size, {})


def _vacuum(handle: DeltaTable, path: Path, retention: timedelta, outcome: Outcome) -> None:
    """Delete files that neither the table nor a commit under way needs, and empty folders."""
    hours = int(retention.total_seconds() // 3600)
    try:
        gone = handle.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        outcome.vacuumed = len(gone)
    except TROUBLES as error:
        outcome.troubles.append(f"vacuum: {error}")
    before = time.time() - retention.total_seconds()
    for folder in path.glob("cycle-*"):
        try:
            if folder.stat().st_mtime < before:
                for leftover in folder.glob(".*.crc"):
                    leftover.unlink()
                folder.rmdir()
                outcome.folders += 1
        except OSError:
            continue  # not empty: the next vacuum will do


def summary(outcomes: Sequence[Outcome]) -> str:
    """Tell what was done, one line per table."""
    return "\n".join(
        f"{one.table}: {one.files_before} files became {one.files_after}, "
        f"{one.vacuumed} old ones deleted"
        for one in outcomes
    )
