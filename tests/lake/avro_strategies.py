"""Avro schemas drawn at random, and values that fit them."""

import datetime
import decimal
from typing import Any

from hypothesis import strategies as st

Drawn = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and its values as fastavro takes them."""

_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_DATES = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
_WHEN = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
_UTC = _WHEN.map(lambda at: at.replace(tzinfo=datetime.UTC))
_MILLIS = _UTC.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_MONEY = st.decimals(-999_999, 999_999, places=2, allow_nan=False)

_SIMPLE: list[Drawn] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", _INTS),
    ("long", _LONGS),
    ("double", st.floats(allow_nan=False, allow_infinity=False)),
    ("bytes", st.binary(max_size=20)),
    ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    ({"type": "int", "logicalType": "date"}, _DATES),
    ({"type": "long", "logicalType": "timestamp-micros"}, _UTC),
    ({"type": "long", "logicalType": "timestamp-millis"}, _MILLIS),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, _MONEY),
]


@st.composite
def types(draw: st.DrawFn, depth: int, names: list[int]) -> Drawn:
    """Draw a type; `names` counts the named ones."""
    kinds = ["simple"] * 3 + ["enum", "fixed", "optional"]
    kinds += ["record", "array", "map", "union"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "simple":
        return draw(st.sampled_from(_SIMPLE))
    names[0] += 1
    name = f"N{names[0]}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "record":
        return draw(records(depth - 1, names, name))
    if kind == "optional":
        schema, values = draw(types(max(0, depth - 1), names))
        if schema == "null" or isinstance(schema, list):
            return schema, values
        return ["null", schema], st.none() | values
    schema, values = draw(types(depth - 1, names))
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(st.text("ab"), values, max_size=3)
    branches: list[Drawn] = [
        ("null", st.none()),
        ("boolean", st.booleans()),
        ("string", st.text("x")),
    ]
    chosen = draw(st.lists(st.sampled_from(branches), unique_by=lambda it: it[0], min_size=1))
    return [it[0] for it in chosen], st.one_of([it[1] for it in chosen])


@st.composite
def records(draw: st.DrawFn, depth: int, names: list[int], name: str = "Top") -> Drawn:
    """Draw a record."""
    labels = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5))
    drawn = {label: draw(types(depth, names)) for label in labels}
    fields = [{"name": label, "type": schema} for label, (schema, _) in drawn.items()]
    values = st.fixed_dictionaries({label: values for label, (_, values) in drawn.items()})
    return {"type": "record", "name": name, "namespace": "shop", "fields": fields}, values


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw a record's schema, and some of its values."""
    schema, values = draw(records(2, [0]))
    return schema, draw(st.lists(values, min_size=1, max_size=3))


def plain(value: Any) -> Any:
    """Return a value with decimals that compare."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return float(value) if isinstance(value, decimal.Decimal) else value
