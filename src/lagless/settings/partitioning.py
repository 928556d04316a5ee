"""`partition_by`: which columns partition a table, read from the settings alone.

A table is created before its first record is read, so each column's type must be known from here:
date(NAME) is a DATE and hour(NAME) an INT, and the type of a plain column is in the topic's schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Step = Literal["", "date", "hour"]
OWN: Mapping[str, str] = {"_partition": "INT", "_timestamp": "TIMESTAMP"}
"""The columns of every table that may be named, with their types."""
PLAIN: Mapping[str, str] = {
    "STRING": "STRING",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
}
"""The types of plain columns, under each name that Spark has for them."""
MOMENTS: Mapping[Step, frozenset[str]] = {
    "date": frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE", "STRING"}),
    "hour": frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "STRING"}),
}
"""The types that a date or an hour can be taken from."""
_ENTRY = re.compile(r"(?:(date|hour)\(\s*(\w+)\s*\)|(\w+))")
_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column of a table."""

    step: Step
    """How it is made from its source; a plain column is its source."""
    source: str
    kind: str
    """Its type, as Spark writes it."""

    @property
    def name(self) -> str:
        """Return its name in the table."""
        return f"{self.source}_{self.step}" if self.step else self.source

    def __str__(self) -> str:
        return f"{self.step}({self.source})" if self.step else self.source


def columns(
    entries: Iterable[str], ddl: str | None, has_fields: bool, is_transformed: bool
) -> tuple[PartitionColumn, ...]:
    """Return the columns that entries name; ValueError says which entry is wrong, and why.

    Without a schema, or behind a transform, fields that dates are taken from are taken on trust.
    """
    fields = {**dict(_fields(ddl or "")), **OWN}
    is_open = is_transformed or (has_fields and ddl is None)
    found: list[PartitionColumn] = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise ValueError(f"{entry!r} should be a column, date(column) or hour(column)")
        step: Step = match[1] or ""  # type: ignore[assignment]  # the pattern has these two
        source = match[2] or match[3]
        kind = fields.get(source)
        if step:
            _check_moment(entry, step, source, kind, is_open)
            column = PartitionColumn(step, source, "DATE" if step == "date" else "INT")
        else:
            column = PartitionColumn("", source, _plain(entry, kind))
        if column.name in [other.name for other in found]:
            raise ValueError(f"{entry!r} is there twice")
        if step and column.name.lower() in map(str.lower, fields):
            raise ValueError(f"{entry!r} makes a column {column.name}, which the schema has too")
        found.append(column)
    return tuple(found)


def _check_moment(entry: str, step: Step, source: str, kind: str | None, is_open: bool) -> None:
    if kind is None and not is_open:
        raise ValueError(
            f"{entry!r}: records have no field {source}; _timestamp is in every record"
        )
    if kind is not None and kind not in MOMENTS[step]:
        fitting = "a timestamp, a date or a string" if step == "date" else "a timestamp or a string"
        raise ValueError(f"{entry!r}: {source} is {kind} and should be {fitting}")


def _plain(entry: str, kind: str | None) -> str:
    if kind is None:
        raise ValueError(
            f"{entry!r}: its type must be known when the table is created; name it in the "
            "`schema` of format json, or use _partition, date(_timestamp) or hour(_timestamp)"
        )
    if kind not in PLAIN:
        raise ValueError(
            f"{entry!r} is {kind}; a partition column should be a string, an integer, a boolean "
            "or a date, or the date or hour of a timestamp: date(_timestamp)"
        )
    return PLAIN[kind]


def _fields(ddl: str) -> Iterator[tuple[str, str]]:
    """Yield the names and types of a DDL string's fields; those of inner ones are left out."""
    depth, begin = 0, 0
    quoted = False
    for at, character in enumerate(f"{ddl},"):
        quoted ^= character == "`"
        if quoted:
            continue
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            match = _FIELD.fullmatch(ddl[begin:at])
            begin = at + 1
            if match is not None:
                name = match[1].replace("``", "`") if match[1] else match[2]
                kind = re.split(r"\s+(?:NOT|COMMENT|DEFAULT)\b", match[3], flags=re.IGNORECASE)[0]
                yield name, kind.upper()
