"""What a table's log says of a file, so that readers can skip it.

Delta keeps timestamps in milliseconds. Spark writes microseconds, so a maximum is rounded up and a
minimum down: cut alike, a reader that asks for the last microseconds would skip rows that are
there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("_partition", "_offset", "_timestamp")
"""The columns that files carry ranges of."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file that is complete and not yet in the table's log."""

    path: Path
    size: int
    rows: int
    statistics: str
    schema: pa.Schema


def measure(path: Path) -> File:
    """Read a Parquet file's footer."""
    with pq.ParquetFile(path) as opened:
        footer = opened.metadata
        schema = opened.schema_arrow.remove_metadata()
        minima: dict[str, Any] = {}
        maxima: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for name in COLUMNS:
            found = _range(footer, name)
            if found is None:
                continue
            least, greatest, missing = found
            nulls[name] = missing
            if least is not None:
                minima[name], maxima[name] = _down(least), _up(greatest)
    said = {
        "numRecords": footer.num_rows,
        "minValues": minima,
        "maxValues": maxima,
        "nullCount": nulls,
    }
    return File(path, path.stat().st_size, footer.num_rows, json.dumps(said), schema)


def _range(footer: Any, name: str) -> tuple[Any, Any, int] | None:
    """Give a column's least and greatest value and its nulls; None where the footer is silent."""
    names: Sequence[str] = [footer.schema.column(i).path for i in range(len(footer.schema))]
    if name not in names:
        return None
    index = names.index(name)
    least: Any = None
    greatest: Any = None
    missing = 0
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(index)
        said = column.statistics
        if said is None or not said.has_null_count:
            return None
        missing += said.null_count
        if said.has_min_max:
            least = said.min if least is None else min(least, said.min)
            greatest = said.max if greatest is None else max(greatest, said.max)
        elif said.null_count < column.num_values:
            return None
    return least, greatest, missing


def _down(value: Any) -> Any:
    return _text(value) if isinstance(value, datetime) else value


def _up(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return _text(value if value.microsecond % 1000 == 0 else value + timedelta(milliseconds=1))


def _text(moment: datetime) -> str:
    """Write a moment, cut to milliseconds."""
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
