"""The rows of a table, read by delta-rs's own engine.

pyarrow could read them too, through a file system made of Python objects. Its threads release those
some time after the answer, and one that does so while the interpreter ends aborts the process: a
command that had done all its work would exit with 134.
"""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def read(
    opened: DeltaTable, columns: Sequence[str] = (), where: str = "", limit: int | None = None
) -> pa.Table:
    """Return the rows that meet a condition in SQL, at the version that is open; or the first."""
    end = "" if limit is None else f" LIMIT {limit:d}"
    found = _select(opened, ", ".join(map(name, columns)) or "*", where, end)
    # The engine has views for strings and bytes, which not every part of pyarrow knows.
    known = pa.schema(opened.schema().to_arrow())
    return found.cast(pa.schema([known.field(column) for column in found.column_names]))


def count(opened: DeltaTable, where: str = "") -> int:
    """Return how many rows meet a condition in SQL."""
    counted: int = _select(opened, "count(*) AS rows", where)["rows"][0].as_py()
    return counted


def name(column: str) -> str:
    """Return a column's name as SQL has it."""
    return '"' + column.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _select(opened: DeltaTable, selected: str, where: str, end: str = "") -> pa.Table:
    condition = where and f" WHERE {where}"
    engine = QueryBuilder().register("t", opened)
    # Values of the condition are numbers, or literals by `text`.
    return pa.table(engine.execute(f"SELECT {selected} FROM t{condition}{end}"))  # nosec B608
