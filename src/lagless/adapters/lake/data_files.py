"""Data files: Parquet that Spark or pyarrow wrote, complete and not yet in a table's log.

The log says of each file how many rows it has and between which values they lie, so that readers
can skip it. Delta keeps timestamps in milliseconds. Spark writes microseconds, so a maximum is
rounded up and a minimum down: cut alike, a reader that asks for the last microseconds would skip
rows that are there.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lagless.adapters.lake import partitions
from lagless.adapters.lake.partitions import Values
from lagless.adapters.lake.store import Store
from lagless.settings import PartitionColumn

COLUMNS = ("_partition", "_offset", "_timestamp")
"""The columns that files carry ranges of."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file in a table's store."""

    name: str
    size: int
    rows: int
    statistics: str
    schema: pa.Schema
    values: Values = field(default_factory=dict)
    """The values of the table's partition columns, as the log has them."""


def new_name() -> str:
    """Return a name that no other file of a table has."""
    return f"{uuid.uuid4().hex}.parquet"


def write(
    frame: DataFrame,
    table: Store,
    files: int = 1,
    spread: bool = False,
    columns: Sequence[PartitionColumn] = (),
) -> list[File]:
    """Let Spark write a frame as a few files for each value of the partition columns.

    Files without rows are left out. One file is one task: with `spread` only its writing is, and
    all cores do what comes before. A partition's rows stay in order, since one task reads them and
    hands them on as they come.
    """
    names = [column.name for column in columns]
    if not table.is_folder or not partitions.is_in_path(columns):
        return _upload(frame, table, names)
    # Neither "_" nor "." in front: vacuum would never find what a crash leaves here.
    folder = f"cycle-{uuid.uuid4().hex}"
    try:
        gathered = frame.repartition(1) if spread and files == 1 else frame.coalesce(files)
        gathered.write.partitionBy(*names).parquet(table.inside(folder).uri)
        return list(_taken(table, folder, {}, len(names)))
    finally:
        table.delete_folder(folder)


def _taken(table: Store, folder: str, values: Values, depth: int) -> Iterator[File]:
    """Move the files that Spark wrote under a folder into the table's own."""
    parts = table.inside(folder)
    if depth:
        for inner in parts.folders():
            name, value = partitions.of_folder(inner)
            yield from _taken(table, f"{folder}/{inner}", {**values, name: value}, depth - 1)
        return
    for part in parts.files():
        if part.name.startswith("part-") and part.name.endswith(".parquet"):
            file = measure(parts, part.name, values)
            if file.rows:
                name = new_name()
                table.move(f"{folder}/{part.name}", name)
                yield replace(file, name=name)


def _upload(frame: DataFrame, table: Store, names: Sequence[str]) -> list[File]:
    """Take the rows from Spark as Arrow, and put them as Parquet files under their final names.

    A bucket cannot rename: what Spark writes there it copies, or leaves behind when a task fails.
    So Spark neither sees the bucket nor needs its credentials. All its tasks do what comes before;
    a partition's rows stay in order, since one task reads them and tasks keep theirs.
    """
    rows = frame.toArrow()
    if not rows.num_rows:
        return []
    return [_put(part, table, values) for values, part in partitions.split(rows, names)]


def _put(rows: pa.Table, table: Store, values: Values | None = None) -> File:
    name = new_name()
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    content = sink.getvalue()
    with table.create(name) as target:
        target.write(content)
    return replace(measured(pa.BufferReader(content), name), values=dict(values or {}))


def write_rows(rows: list[dict[str, object]], schema: pa.Schema, table: Store) -> File:
    """Write a few rows without Spark."""
    return _put(pa.Table.from_pylist(rows, schema=schema), table)


def measure(store: Store, name: str, values: Values | None = None) -> File:
    """Read a Parquet file's footer."""
    with store.open(name) as source:
        return replace(measured(source, name), values=dict(values or {}))


def measured(source: pa.NativeFile, name: str) -> File:
    """Return a Parquet file as its footer describes it."""
    with pq.ParquetFile(source) as parquet:
        size = source.size()
        footer = parquet.metadata
        schema = parquet.schema_arrow.remove_metadata()
        ranges = {name: span for name in COLUMNS if (span := _range(footer, name)) is not None}
    known = {name: span for name, span in ranges.items() if span[0] is not None}
    statistics = {
        "numRecords": footer.num_rows,
        "minValues": {name: _text(least) for name, (least, _, _) in known.items()},
        "maxValues": {name: _text(most, up=True) for name, (_, most, _) in known.items()},
        "nullCount": {name: missing for name, (_, _, missing) in ranges.items()},
    }
    return File(name, size, footer.num_rows, json.dumps(statistics), schema)


def _range(footer: Any, name: str) -> tuple[Any, Any, int] | None:
    """Return a column's least and greatest value and its nulls; None without statistics."""
    names = [footer.schema.column(i).path for i in range(len(footer.schema))]
    if name not in names:
        return None
    minima, maxima, missing = [], [], 0
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(names.index(name))
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        missing += statistics.null_count
        if statistics.has_min_max:
            minima.append(statistics.min)
            maxima.append(statistics.max)
        elif statistics.null_count < column.num_values:
            return None
    return min(minima, default=None), max(maxima, default=None), missing


def _text(value: Any, up: bool = False) -> Any:
    """Return a moment as text, cut to milliseconds or rounded up; any other value as it is."""
    if not isinstance(value, datetime):
        return value
    if up and value.microsecond % 1000:
        value += timedelta(milliseconds=1)
    moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"
