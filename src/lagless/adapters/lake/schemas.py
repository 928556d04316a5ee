"""Columns and schemas: what every table has, how columns join, and how a schema is inferred.

A table begins with the columns of its topic's format. Later columns join through `fit`, where the
settings allow it. Formats with fields keep the DDL that they settled on as a property of the table,
so that every consumer reads the topic alike; `infer` finds one from the first records.
"""

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import Schema
from deltalake.schema import Field, StructType

from lagless.adapters.lake import delta
from lagless.adapters.lake.table import Table
from lagless.errors import GiveUp
from lagless.settings import TopicSettings

ALWAYS = pa.schema(
    [("_partition", pa.int32()), ("_offset", pa.int64()), ("_timestamp", pa.timestamp("us", "UTC"))]
)
"""The columns of every row of every table; a transform may not drop them."""
KEY = pa.field("_key", pa.binary())
HEADERS = pa.field("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
TOPIC_ID = pa.field("_topic_id", pa.string())
"""Which of the topics that have had this name: a recreated topic counts from 0 again."""
REJECTED = pa.schema(
    [*ALWAYS, KEY, pa.field("_value", pa.binary()), pa.field("_reason", pa.string()), TOPIC_ID]
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
RESERVED = frozenset({*REJECTED.names, HEADERS.name})
"""Names that no field of a record may have."""
SCHEMA = "lagless.schema."
"""Property of a table that keeps the schema of a topic's values; the topic's name follows."""


def fit(table: Table, written: pa.Schema, settings: TopicSettings) -> None:
    """Add a file's columns to the table where that is allowed; GiveUp where it is not.

    What a key with fields consists of is known from the first record that has one.
    """
    for name in ALWAYS.names:
        if name not in written.names and name not in table.handle.partition_by:
            raise GiveUp(f"topic {table.topic.name}: the transform drops {name}; it should keep it")
    for attempt in delta.attempts(f"{table}: the new columns were not accepted", pause=0.02):
        known = {column.name: column for column in table.handle.open().schema().fields}
        new = _missing(known, Schema.from_arrow(written).fields)
        if not new:
            return
        # A table without columns of its own has had no records yet: the first ones name them.
        own = {name for name in known if name not in table.handle.partition_by}
        bare = all(name.startswith("_") for name in own)
        late = {KEY.name} - own if settings.has_key_fields else set()
        if not (settings.evolve or bare) and (left := {column.name for column in new} - late):
            names = ", ".join(sorted(left))
            raise GiveUp(
                f"{table} lacks the columns {names}: set evolve = true in "
                f"[topic.{table.topic.name}] to add them, or name another table"
            )
        with attempt:
            table.handle.open().alter.add_columns(new)
        table.handle.update()


def _missing(known: Mapping[str, Field], written: Iterable[Field]) -> list[Field]:
    new = []
    for column in written:
        present = known.get(column.name)
        if present is None:
            new.append(column)
        elif present.type == column.type:
            continue
        elif column.name == KEY.name and (more := _more(present.type, column.type)) is not None:
            new += [column] if more else []
        else:
            is_key = column.name == KEY.name
            remedy = "restore key_format" if is_key else "correct the schema or the transform"
            raise GiveUp(
                f"column {column.name} is {_type_name(present.type)} in the table and "
                f"{_type_name(column.type)} in the records: {remedy}, or name another table"
            )
    return new


def _more(present: object, written: object) -> bool | None:
    """Return whether a written struct has fields that the table's lacks; None if it does not fit.

    A consumer that has not heard of a new field yet writes the struct without it.
    """
    if not (isinstance(present, StructType) and isinstance(written, StructType)):
        return None
    known = {field.name: field.type for field in present.fields}
    if any(known.get(field.name, field.type) != field.type for field in written.fields):
        return None
    return any(field.name not in known for field in written.fields)


def _type_name(kind: object) -> str:
    if isinstance(kind, StructType):
        return f"a struct of {', '.join(field.name for field in kind.fields)}"
    return str(kind).removeprefix("PrimitiveType(").rstrip(")").strip('"')


def stored(table: Table, kind: str = SCHEMA) -> str | None:
    """Return the schema of the topic that the table keeps, as DDL."""
    ddl = table.handle.open().metadata().configuration.get(kind + table.topic.name)
    return None if ddl is None else str(ddl)


def store(table: Table, ddl: str, instead_of: str | None, kind: str = SCHEMA) -> str:
    """Keep a schema with the table unless another consumer was first; return the one that holds."""
    for attempt in delta.attempts(f"{table}: the schema could not be stored", pause=0.02):
        table.handle.update()
        kept = stored(table, kind)
        if kept is not None and kept != instead_of:
            return kept
        with attempt:
            table.handle.open().alter.set_table_properties(
                {kind + table.topic.name: ddl}, raise_if_not_exists=False
            )
    raise AssertionError("attempts end with an error")


Kind: TypeAlias = "str | dict[str, Kind] | list[Kind]"
"""A name of a type, the fields of an object, or a list with the type of its items."""
_NOTHING: Kind = "NULL"
_TEXT = "STRING"


def objects(values: Iterable[bytes | None]) -> list[dict[str, Any]]:
    """Return the JSON objects among the values; everything else is left out."""
    records = []
    for value in values:
        try:
            parsed = json.loads(value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, dict):
            records.append(parsed)
    return records


def infer(records: Iterable[Mapping[str, Any]], only: Iterable[str] | None = None) -> str:
    """Return the DDL of the records' fields, limited to `only` these names; "" without fields."""
    wanted = None if only is None else set(only)
    fields: dict[str, Kind] = {}
    for record in records:
        kinds = {k: _kind(v) for k, v in record.items() if wanted is None or k in wanted}
        fields = _merge_fields(fields, kinds)
    if wanted is not None:
        # Not evolved by nulls alone: the first value decides.
        fields = {name: kind for name, kind in fields.items() if kind != _NOTHING}
    return ddl(fields)


def ddl(fields: Mapping[str, Kind]) -> str:
    """Return fields as a DDL string; names that differ only in case are one to Spark."""
    first: dict[str, str] = {}
    for name, kind in fields.items():
        quoted = name.replace("`", "``")
        first.setdefault(name.lower(), f"`{quoted}` {_word(kind)}")
    return ", ".join(first.values())


def _kind(value: Any) -> Kind:
    match value:
        case None:
            return _NOTHING
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -(2**63) <= value < 2**63 else "DOUBLE"
        case float():
            return "DOUBLE"
        case dict():
            return {name: _kind(inner) for name, inner in value.items()}
        case list():
            return [reduce(_merge, map(_kind, value), _NOTHING)]
        case _:
            return _TEXT


def _merge(left: Kind, right: Kind) -> Kind:
    if left == right or right == _NOTHING:
        return left
    if left == _NOTHING:
        return right
    if isinstance(left, dict) and isinstance(right, dict):
        return _merge_fields(left, right)
    if isinstance(left, list) and isinstance(right, list):
        return [_merge(left[0], right[0])]
    if {str(left), str(right)} == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return _TEXT


def _merge_fields(left: Mapping[str, Kind], right: Mapping[str, Kind]) -> dict[str, Kind]:
    merged = dict(left)
    for name, kind in right.items():
        merged[name] = _merge(merged[name], kind) if name in merged else kind
    return merged


def _word(kind: Kind) -> str:
    if isinstance(kind, dict):
        # An object that was always empty has no columns: its text is kept.
        return f"STRUCT<{ddl(kind)}>" if kind else _TEXT
    if isinstance(kind, list):
        return f"ARRAY<{_word(kind[0])}>"
    return _TEXT if kind == _NOTHING else kind
