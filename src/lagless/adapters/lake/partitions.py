"""Partition columns of tables: how rows get them, and how the log writes their values.

Data files of every value lie side by side in the table's folder, and only the log says which value
each has. Files do not contain these columns: readers take them from the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.errors import GiveUp
from lagless.settings import PartitionColumn

TYPES = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
}
NULL = "__HIVE_DEFAULT_PARTITION__"
"""How Spark names the folder of rows without a value."""
STRINGS = ("string", "char", "varchar")
MOMENTS = ("timestamp", "timestamp_ntz")

Values = Mapping[str, str | None]


def schema(columns: Sequence[PartitionColumn], known: pa.Schema) -> pa.Schema:
    """Return a table's first columns, with its partition columns."""
    more = [pa.field(c.name, TYPES[c.kind]) for c in columns if c.name not in known.names]
    return pa.schema([*known, *more])


def added(rows: DataFrame, columns: Sequence[PartitionColumn]) -> DataFrame:
    """Add the partition columns to rows that lack them; GiveUp where that cannot be done."""
    missing = [c for c in columns if c.name != "_partition"]
    if not missing:
        return rows
    if all(c.source == "_timestamp" for c in missing):
        # Asking Spark for the columns takes a call.
        return rows.withColumns({c.name: _moment(c, F.col(c.source)) for c in missing})
    kinds = {field.name.lower(): field.dataType.typeName() for field in rows.schema.fields}
    new: dict[str, Column] = {}
    for column in missing:
        if column.step and column.name.lower() in kinds:
            raise GiveUp(
                f"partition_by {column} makes a column {column.name}, which the records have too: "
                "rename the field, or name another column"
            )
        new[column.name] = _made(column, kinds.get(column.source.lower()))
    return rows.withColumns(new)


def _made(column: PartitionColumn, kind: str | None) -> Column:
    if kind is None:  # no record had the field yet
        return F.lit(None).cast(column.kind)
    source = F.col(f"`{column.source}`")
    if not column.step:
        return source.cast(column.kind)
    if kind in STRINGS:
        return _moment(column, F.try_to_timestamp(source))
    if kind in MOMENTS or (kind == "date" and column.step == "date"):
        return _moment(column, source)
    raise GiveUp(
        f"partition_by {column}: {column.source} is {kind} and should be a timestamp or a string"
    )


def _moment(column: PartitionColumn, moment: Column) -> Column:
    return F.hour(moment) if column.step == "hour" else F.to_date(moment)


def is_in_path(columns: Sequence[PartitionColumn]) -> bool:
    """Return whether Spark may name folders after the values: text could be too long."""
    return all(column.kind != "STRING" for column in columns)


def of_folder(folder: str) -> tuple[str, str | None]:
    """Return the name and the value that Spark made a folder's name of."""
    name, _, value = folder.partition("=")
    return unquote(name), None if value == NULL else unquote(value)


def split(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each value, in their order and without the partition columns."""
    if not names:
        yield {}, rows
        return
    numbered = rows.select(list(names)).append_column("#", pa.array(range(rows.num_rows)))
    groups = numbered.group_by(list(names), use_threads=False).aggregate([("#", "list")])
    rest = rows.drop_columns(list(names))
    for group in groups.to_pylist():
        yield {name: text(group[name]) for name in names}, rest.take(pa.array(group["#_list"]))


def text(value: Any) -> str | None:
    """Return a value as the log writes it; to Delta an empty text is null."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
