"""From JSON objects to a schema, without Spark: integers are BIGINT, other numbers DOUBLE.

Where two records differ the wider type holds, and text where there is none; a field that was only
null is text. Names keep the order of their first appearance.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Kind: TypeAlias = "str | dict[str, Kind] | list[Kind]"
"""A name of a type, the fields of an object, or a list with the type of its items."""
_NOTHING = "NULL"
_TEXT = "STRING"


def objects(values: Iterable[bytes | None]) -> list[dict[str, Any]]:
    """Give the JSON objects among the values; whatever is none is passed over."""
    found = []
    for value in values:
        try:
            parsed = json.loads(value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, dict):
            found.append(parsed)
    return found


def infer(records: Iterable[Mapping[str, Any]], only: Iterable[str] | None = None) -> str:
    """Give the DDL of the records' fields, of `only` these names if given; "" if there are none."""
    wanted = None if only is None else set(only)
    fields: dict[str, Kind] = {}
    for record in records:
        chosen = {k: v for k, v in record.items() if wanted is None or k in wanted}
        fields = _merge_fields(fields, {name: _kind(value) for name, value in chosen.items()})
    if wanted is not None:
        # Not evolved by nulls alone: the first value decides.
        fields = {name: kind for name, kind in fields.items() if kind != _NOTHING}
    return ddl(fields)


def ddl(fields: Mapping[str, Kind]) -> str:
    """Write fields as a DDL string; names that differ only in case are one to Spark."""
    seen: set[str] = set()
    words = []
    for name, kind in fields.items():
        if name.lower() not in seen:
            seen.add(name.lower())
            words.append(f"{_quoted(name)} {_word(kind)}")
    return ", ".join(words)


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
            item: Kind = _NOTHING
            for inner in value:
                item = _merge(item, _kind(inner))
            return [item]
        case _:
            return _TEXT


def _merge(one: Kind, other: Kind) -> Kind:
    if one == other or other == _NOTHING:
        return one
    if one == _NOTHING:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return _merge_fields(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    if {str(one), str(other)} == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return _TEXT


def _merge_fields(one: Mapping[str, Kind], other: Mapping[str, Kind]) -> dict[str, Kind]:
    merged = dict(one)
    for name, kind in other.items():
        merged[name] = _merge(merged[name], kind) if name in merged else kind
    return merged


def _word(kind: Kind) -> str:
    if isinstance(kind, dict):
        # An object that was always empty has no columns: its text is kept.
        return f"STRUCT<{ddl(kind)}>" if kind else _TEXT
    if isinstance(kind, list):
        return f"ARRAY<{_word(kind[0])}>"
    return _TEXT if kind == _NOTHING else kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
