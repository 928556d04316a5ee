"""The columns of tables: what every row has, and how new ones join."""

import time

import pyarrow as pa
from deltalake import Schema
from deltalake.schema import Field

from lagless.adapters.lake.handle import TROUBLES
from lagless.adapters.lake.table import ATTEMPTS, Table
from lagless.errors import GiveUp, TryAgain

ALWAYS = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""What every row of every table has; a transform may not drop it."""
KEY = pa.field("_key", pa.binary())
HEADERS = pa.field("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
TOPIC_ID = pa.field("_topic_id", pa.string())
"""Which of the topics that have had this name: one that is made anew counts from 0 again."""
REJECTED = pa.schema(
    [
        *ALWAYS,
        KEY,
        pa.field("_value", pa.binary()),
        pa.field("_reason", pa.string()),
        TOPIC_ID,
    ]
)
GONE = pa.schema(
    [
        pa.field("_topic", pa.string()),
        TOPIC_ID,
        pa.field("_partition", pa.int32()),
        pa.field("first", pa.int64()),
        pa.field("until", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
"""Offsets that Kafka deleted before they were read; `until` null: to the log's unknown end."""
SCHEMA = "lagless.schema."
"""Property of a table that keeps the schema of a topic's JSON; the topic's name follows."""


def fit(table: Table, written: pa.Schema, evolve: bool) -> None:
    """Let a file's columns into the table where that is allowed; GiveUp where it is not."""
    for one in ALWAYS.names:
        if one not in written.names:
            raise GiveUp(f"topic {table.topic.name}: the transform drops {one}; it should keep it")
    for attempt in range(ATTEMPTS):
        known = {one.name: one for one in table.open().schema().fields}
        new = _missing(known, Schema.from_arrow(written).fields)
        if not new:
            return
        # A table without columns of its own has had no records yet: the first ones name them.
        bare = all(name.startswith("_") for name in known)
        if not (evolve or bare):
            raise GiveUp(
                f"{table.path} lacks the columns {', '.join(sorted(one.name for one in new))}: set "
                f"evolve = true in [topic.{table.topic.name}] to add them, or name another table"
            )
        try:
            table.open().alter.add_columns(new)
            table.update()
        except TROUBLES:
            time.sleep(0.02 * attempt)
            table.update()
    raise TryAgain(f"{table.path}: the new columns were not accepted")


def _missing(known: dict[str, Field], written: list[Field]) -> list[Field]:
    new = []
    for one in written:
        column = known.get(one.name)
        if column is None:
            new.append(one)
        elif column.type != one.type:
            raise GiveUp(
                f"column {one.name} is {_word(column.type)} in the table and {_word(one.type)} in "
                "what was read: mend the schema or the transform, or name another table"
            )
    return new


def _word(kind: object) -> str:
    return str(kind).removeprefix("PrimitiveType(").rstrip(")").strip('"')


def stored_schema(table: Table) -> str | None:
    """Give the schema of the topic's JSON that the table keeps."""
    found = table.open().metadata().configuration.get(SCHEMA + table.topic.name)
    return None if found is None else str(found)


def store_schema(table: Table, ddl: str, instead_of: str | None) -> str:
    """Keep a schema with the table, unless another consumer was first; give the one that holds."""
    for attempt in range(ATTEMPTS):
        table.update()
        found = stored_schema(table)
        if found is not None and found != instead_of:
            return found
        try:
            table.open().alter.set_table_properties(
                {SCHEMA + table.topic.name: ddl}, raise_if_not_exists=False
            )
            table.update()
        except TROUBLES:
            time.sleep(0.02 * attempt)
    raise TryAgain(f"{table.path}: the schema could not be stored")
