"""Columns from Avro's schemas: what a table has, and how a writer's records are read into it. Pure.

1. The columns are a record, kept with the table as a schema. Every type in it may be null: a table
   holds records of many writers, and one that does not know a field leaves it null.
2. `grown` adds a writer's new fields to the columns. Fields are never removed, and never change
   their type.
3. `reader` returns a schema for Avro to resolve one writer's records into. As Spark reads it, it
   is the same for every writer: the names of types and the symbols of enums, which no column has,
   are the writer's. Unusable if no record of this writer could fit.
4. What the schema does not decide, the record does: a writer's union may have a branch that does
   not fit, and only the records that use it are rejected.
"""

from collections.abc import Iterable
from dataclasses import replace

from lagless.adapters.lake.formats.avro_types import NULL, Type, Unusable, label, record

VALUE = "value"
"""The column of values that are not records."""
KEY = "_key"
"""The column of keys, whatever they are."""
WIDER = {
    "int": {"int", "long", "float", "double"},
    "long": {"long", "float", "double"},
    "float": {"float", "double"},
    "double": {"double"},
}
"""The types that Avro promotes a number to."""
_TEXTS = {"string", "enum"}
_BYTES = {"bytes", "fixed"}
_SIMPLE = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "null": "VOID",
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}


def rows(writer: Type) -> Type:
    """Return what a writer writes as a record: another value is its only field."""
    return writer if writer.kind == "record" else record("Row", {VALUE: writer})


def grown(columns: Type | None, writer: Type, reserved: Iterable[str]) -> Type:
    """Return the columns with the fields of a writer that they lack; Unusable if a name is taken.

    A field that holds nothing has no column, and joins when it holds something.
    """
    known = dict(columns.fields) if columns else {}
    spelled = {name.lower(): name for name in known}
    taken = set(reserved)
    for name, kind in rows(writer).fields.items():
        if name.lower() in taken:
            raise Unusable(f"has the field {name}, a name that lagless uses itself")
        if spelled.setdefault(name.lower(), name) != name:
            raise Unusable(
                f"has the field {name}, and the table the column {spelled[name.lower()]}; "
                "columns do not differ by upper and lower case"
            )
        if name not in known and holds(kind):
            known[name] = optional(kind)
    return record("Row", known)


def keys(writer: Type) -> Type:
    """Return what a writer writes as keys as a record with one field."""
    return record("Row", {KEY: writer})


def grown_key(columns: Type | None, writer: Type) -> Type:
    """Return the column of keys with the fields of a writer that it lacks, if both are records."""
    if columns is None or not columns.fields:
        return grown(columns, writer, ())
    known, new = columns.fields[KEY].branches, writer.fields[KEY].branches
    if [it.kind for it in (*known, *new)] != ["record", "record"]:
        return columns
    inner = record(known[0].name, grown(known[0], new[0], ()).fields)
    return record(columns.name, {KEY: Type("union", inner=(NULL, inner))})


def holds(kind: Type) -> bool:
    """Return whether a type has anything to store: null, or a record without fields, has not."""
    if kind.kind in ("record", "array", "map", "union"):
        return any(map(holds, kind.inner))
    return kind != NULL


def optional(kind: Type) -> Type:
    """Return a type as columns have it: everything in it may be null."""
    branches = [_inside(branch) for branch in kind.branches if holds(branch)]
    numbers = {branch.kind for branch in branches}
    is_plain = not any(branch.logical for branch in branches)
    for pair in ("int", "long"), ("float", "double"):
        if is_plain and numbers == set(pair):
            branches = [Type(pair[1])]
    return Type("union", inner=(NULL, *branches))


def _inside(kind: Type) -> Type:
    if kind.kind == "record":
        fields = {name: optional(it) for name, it in kind.fields.items() if holds(it)}
        return record(kind.name, fields)
    return replace(kind, inner=tuple(optional(it) for it in kind.inner))


def unknown(writer: Type, columns: Type) -> int:
    """Count the fields of a writer, at any depth, that the columns lack."""
    if writer.kind == "record" and columns.kind == "record":
        known = columns.fields
        return sum(
            unknown(kind, known[name]) if name in known else holds(kind)
            for name, kind in writer.fields.items()
        )
    if writer.kind == columns.kind and writer.kind in ("array", "map"):
        return unknown(writer.inner[0], columns.inner[0])
    if writer.kind == "union" or columns.kind == "union":
        pairs = ((it, _partner(it, columns.branches)) for it in writer.branches)
        return sum(unknown(it, partner) for it, partner in pairs if partner is not None)
    return 0


def reader(writer: Type, columns: Type) -> Type:
    """Return the columns as Avro has to name them to read a writer's records into them."""
    return _record(rows(writer), columns, "")


def _record(writer: Type, column: Type, path: str) -> Type:
    known = writer.fields
    fields = {
        name: _any(known[name], kind, f"{path}.{name}".lstrip(".")) if name in known else kind
        for name, kind in column.fields.items()
    }
    return record(writer.name, fields)


def _any(writer: Type, column: Type, path: str) -> Type:
    """Return a column's type for what a writer may write there."""
    branches = list(column.branches)
    if not writer.branches:
        return column
    first: Unusable | None = None
    fits = writer.kind == "union" and NULL in writer.inner
    taken: set[int] = set()
    # The same kind first: its name for the column is the one that fits all of its values.
    kinds = {it.kind for it in column.branches}
    for branch in sorted(writer.branches, key=lambda it: it.kind not in kinds):
        partner = _partner(branch, column.branches)
        position = -1 if partner is None else column.branches.index(partner)
        try:
            if partner is None:
                raise _misfit(branch, column, path)
            aimed = _one(branch, partner, path)
        except Unusable as error:
            first = first or error
            continue
        fits = True
        if position not in taken:
            taken.add(position)
            branches[position] = aimed
    if not fits and first is not None:
        raise first
    return Type("union", inner=(NULL, *branches))


def _partner(branch: Type, columns: tuple[Type, ...]) -> Type | None:
    """Return the branch of a column that a writer's branch belongs to."""
    if len(columns) == 1:
        return columns[0]
    same = [it for it in columns if it.kind == branch.kind and label(it) == label(branch)]
    wider = [it for it in columns if it.kind in WIDER.get(branch.kind, ())]
    return next(iter(same or wider), None)


def _one(writer: Type, column: Type, path: str) -> Type:
    """Return a branch of a column for a writer's branch; Unusable if its values do not fit."""
    match column.kind:
        case "record" if writer.kind == "record":
            return _record(writer, column, path)
        case "array" | "map" if writer.kind == column.kind:
            inner = _any(writer.inner[0], column.inner[0], f"{path}[]")
            return replace(column, inner=(inner,))
    if column.logical == "decimal" and writer.logical == "decimal":
        # The unscaled number is written, in as many bytes as the writer says.
        if (writer.precision, writer.scale) == (column.precision, column.scale):
            return writer
    elif writer.logical == column.logical:
        if column.kind in _TEXTS and writer.kind in _TEXTS:
            return writer
        if column.kind in _BYTES and (writer.kind in _BYTES or writer.kind == "string"):
            return writer if writer.kind in _BYTES else Type("bytes")
        if column.kind == writer.kind or column.kind in WIDER.get(writer.kind, ()):
            return column
    raise _misfit(writer, column, path)


def _misfit(writer: Type, column: Type, path: str) -> Unusable:
    return Unusable(
        f"does not fit the table: the field {path} is {writer}, and the column is {ddl(column)}"
    )


def ddl(column: Type) -> str:
    """Return the type of a column as Spark writes it."""
    match column.kind:
        case "union" if len(column.branches) == 1:
            return ddl(column.branches[0])
        case "union":
            members = (f"`member_{label(it)}`: {ddl(it)}" for it in column.branches)
            return f"STRUCT<{', '.join(members)}>"
        case "record":
            fields = (f"`{name}`: {ddl(kind)}" for name, kind in column.fields.items())
            return f"STRUCT<{', '.join(fields)}>"
        case "array":
            return f"ARRAY<{ddl(column.inner[0])}>"
        case "map":
            return f"MAP<STRING, {ddl(column.inner[0])}>"
    if column.logical == "decimal":
        return f"DECIMAL({column.precision},{column.scale})"
    return _SIMPLE[column.logical or column.kind]
