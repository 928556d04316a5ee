"""Columns from Avro's schemas: every kind of type, evolution, and what no table can hold."""

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lagless.adapters.lake import schemas
from lagless.adapters.lake.formats import avro_columns, avro_types
from lagless.adapters.lake.formats.avro_types import Type, Unusable
from tests.lake import avro_strategies

INT, TEXT = {"type": "int"}, {"type": "string"}


def top(name: str = "Top", **fields: Any) -> dict[str, Any]:
    listed = [{"name": label, "type": kind} for label, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def parse(schema: Any, *references: Any) -> Type:
    return avro_types.parse(json.dumps(schema), tuple(map(json.dumps, references)))


def columns(*writers: Any) -> Type:
    grown = None
    for writer in writers:
        grown = avro_columns.grown(grown, parse(writer), schemas.RESERVED)
    assert grown is not None
    return grown


def ddl(*writers: Any) -> dict[str, str]:
    return {name: avro_columns.ddl(kind) for name, kind in columns(*writers).fields.items()}


def encoded(schema: Any, value: Any) -> io.BytesIO:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return io.BytesIO(out.getvalue())


def read(value: io.BytesIO, writer: Type, reader: Type) -> Any:
    """Read as Spark does: with the writer's schema, into the reader's."""
    schemas_ = [json.loads(avro_types.text(kind)) for kind in (writer, reader)]
    return fastavro.schemaless_reader(value, *schemas_)


few = settings(deadline=None, max_examples=40)

# ---------------------------------------------------------------------- properties


@few
@given(avro_strategies.written())
def test_a_schema_without_what_a_table_does_not_need_reads_the_same_values(
    written: tuple[Any, list[Any]],
) -> None:
    schema, values = written
    kind = parse(schema)
    for value in values:
        again = read(encoded(schema, value), kind, kind)
        assert avro_strategies.plain(again) == avro_strategies.plain(value)
    assert parse(json.loads(avro_types.text(kind))) == kind


@few
@example((top(a="int"), [{"a": 0}]), (top(a=["null", "boolean"]), [{"a": False}]))
@given(avro_strategies.written(), avro_strategies.written())
def test_records_of_two_writers_fit_the_columns_of_both_or_say_why_not(
    first: tuple[Any, list[Any]], second: tuple[Any, list[Any]]
) -> None:
    both = columns(first[0], second[0])
    assert parse(json.loads(avro_types.text(both))) == both
    for schema, values in first, second:
        kind, raised = parse(schema), ""
        try:
            reader = avro_columns.reader(kind, both)
        except Unusable as error:
            raised = str(error)
        if raised:
            assert schema is second[0] or not all(map(avro_columns.holds, kind.inner))
            assert "does not fit the table: the field " in raised
            continue
        assert avro_columns.ddl(reader) == avro_columns.ddl(both)
        assert schema is second[0] or avro_columns.unknown(kind, both) == 0
        for value in values:
            try:
                row = read(encoded(schema, value), kind, reader)
            except SchemaResolutionError:
                # A union has a type that the column lacks: only records that use it do not fit.
                assert schema is second[0] or not all(map(avro_columns.holds, kind.inner))
                continue
            assert row.keys() == both.fields.keys()
            for name in row:
                if schema is first[0] and not _holds_records(kind.fields.get(name)):
                    assert avro_strategies.plain(row[name]) == avro_strategies.plain(
                        value.get(name)
                    )


def _holds_records(kind: Type | None) -> bool:
    return kind is not None and (kind.kind == "record" or any(map(_holds_records, kind.inner)))


@few
@given(avro_strategies.written())
def test_columns_of_one_writer_hold_all_that_it_writes(written: tuple[Any, list[Any]]) -> None:
    schema, values = written
    kind, held = parse(schema), columns(schema)
    assert avro_columns.grown(held, kind, ()) == held
    for value in values:
        row = read(encoded(schema, value), kind, avro_columns.reader(kind, held))
        assert row.keys() == {name for name, it in kind.fields.items() if avro_columns.holds(it)}


@few
@given(
    st.text()
    | st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(
            ["int", "record", "enum", "fixed", "array", "map", "name", "type", "fields", "x"]
        ),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "name",
                        "fields",
                        "items",
                        "values",
                        "symbols",
                        "size",
                        "logicalType",
                        "precision",
                        "scale",
                        "namespace",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
    ).map(json.dumps)
)
def test_no_text_is_a_schema_by_accident_or_raises_anything_else(text: str) -> None:
    try:
        kind = avro_types.parse(text)
    except Unusable:
        return
    again = json.loads(avro_types.text(kind))
    fastavro.parse_schema(again)
    assume(kind.kind == "record")
    assert isinstance(avro_columns.ddl(columns(again)), str)


# ---------------------------------------------------------------------- kinds of types

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("boolean", "BOOLEAN"),
        ("int", "INT"),
        ("long", "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("bytes", "BINARY"),
        ("string", "STRING"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING"),
        ({"type": "fixed", "name": "F", "size": 4}, "BINARY"),
        (MONEY, "DECIMAL(9,2)"),
        ({**MONEY, "type": "fixed", "name": "F", "size": 4}, "DECIMAL(9,2)"),
        ({**MONEY, "type": "fixed", "name": "F", "size": 3}, "BINARY"),
        ({**MONEY, "precision": 39}, "BINARY"),
        ({**MONEY, "scale": 10}, "BINARY"),
        ({**MONEY, "precision": "9"}, "BINARY"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "int", "logicalType": "time-millis"}, "INT"),
        ({"type": "long", "logicalType": "time-micros"}, "BIGINT"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "BIGINT"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP_NTZ"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        ({"type": "string", "avro.java.string": "String"}, "STRING"),
        (["null", "int"], "INT"),
        (["int", "null"], "INT"),
        (["int", "long"], "BIGINT"),
        (["null", "float", "double"], "DOUBLE"),
        (["int", "string"], "STRUCT<`member_int`: INT, `member_string`: STRING>"),
        (
            ["null", "int", top("A", x="int")],
            "STRUCT<`member_int`: INT, `member_A`: STRUCT<`x`: INT>>",
        ),
        ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT>"),
        (
            {"type": "map", "values": {"type": "array", "items": "long"}},
            "MAP<STRING, ARRAY<BIGINT>>",
        ),
        (top("A", x="int", y=top("B", z="string")), "STRUCT<`x`: INT, `y`: STRUCT<`z`: STRING>>"),
        ({"type": {"type": {"type": "int"}}}, "INT"),
    ],
)
def test_every_kind_of_type_has_its_column(kind: Any, column: str) -> None:
    assert ddl(top(a=kind)) == {"a": column}


@pytest.mark.parametrize(
    "kind", ["null", ["null"], top("A"), {"type": "array", "items": "null"}, ["null", top("A")]]
)
def test_what_holds_nothing_has_no_column(kind: Any) -> None:
    assert ddl(top(a=kind, b="int")) == {"b": "INT"}


def test_a_value_that_is_no_record_is_a_column() -> None:
    assert ddl("string") == {"value": "STRING"}
    assert ddl({"type": "array", "items": "int"}) == {"value": "ARRAY<INT>"}
    # A registry may keep a primitive type as a bare word.
    assert avro_types.parse("string") == Type("string")


def test_names_are_found_in_namespaces_and_in_references() -> None:
    address = {
        "type": "record",
        "name": "Address",
        "namespace": "shop",
        "fields": [{"name": "city", "type": "string"}],
    }
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "to", "type": "Address"},
            {"name": "by", "type": ["null", "shop.Address"]},
        ],
    }
    city = "STRUCT<`city`: STRING>"
    kind = parse(order, address)
    assert {name: avro_columns.ddl(it) for name, it in kind.fields.items()} == {
        "to": city,
        "by": city,
    }
    with pytest.raises(Unusable, match="names the type Address, which it does not define"):
        parse(order)


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (NODE, "is recursive: the record Node contains itself"),
        (top(a={"type": "array", "items": NODE}), "is recursive: the record Node"),
        (top(a="int", A="int"), "has the field A twice"),
        (top(a=["int", ["string"]]), "a union is empty, or directly inside another"),
        (top(a=[]), "a union is empty"),
        (top(a=["int", "int"]), "two types named int"),
        (top(a="Nobody"), "names the type Nobody"),
        ({"type": "record", "name": "A", "fields": [{"name": "a-b", "type": "int"}]}, "not a name"),
        ({"type": "enum", "name": "E", "symbols": []}, "the enum E has no symbols"),
        ({"type": "fixed", "name": "F"}, "the fixed F has no size"),
        ({"type": "array"}, "an? array has no items"),
        ({"type": "record", "fields": []}, "a record has no name"),
        (7, "7 is not a type"),
    ],
)
def test_what_no_table_can_hold_is_refused_with_a_reason(schema: Any, words: str) -> None:
    with pytest.raises(Unusable, match=words):
        parse(schema)


def test_a_schema_that_grows_without_end_is_refused() -> None:
    kind: Any = "int"
    for number in range(20):
        kind = top(f"N{number}", a=kind, b=kind if isinstance(kind, str) else kind["name"])
    with pytest.raises(Unusable, match="more than 5000 types"):
        parse(kind)
    for _ in range(100):
        kind = {"type": "array", "items": kind}
    with pytest.raises(Unusable, match="more than 64 levels deep"):
        parse(kind)


# ---------------------------------------------------------------------- evolution


def test_new_fields_join_and_old_ones_stay() -> None:
    first, second = top(a="int", b="string"), top(b="string", c=["null", "long"])
    assert ddl(first, second) == {"a": "INT", "b": "STRING", "c": "BIGINT"}
    held = columns(first, second)
    value = encoded(second, {"b": "x", "c": 5})
    row = read(value, parse(second), avro_columns.reader(parse(second), held))
    assert row == {"a": None, "b": "x", "c": 5}


def test_fields_that_the_columns_lack_are_counted_and_passed_over() -> None:
    held = columns(top(a="int", s=top("S", k="int")))
    writer = top(a="int", n="null", x="string", s=top("S", k="int", l="int"))
    assert avro_columns.unknown(parse(writer), held) == 2
    value = encoded(writer, {"a": 1, "n": None, "x": "far", "s": {"k": 2, "l": 3}})
    row = read(value, parse(writer), avro_columns.reader(parse(writer), held))
    assert row == {"a": 1, "s": {"k": 2}}


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("long", "int", 5),
        ("double", "int", 5),
        ("double", "float", 0.5),
        ("string", ["null", "string"], "x"),
        (["null", "string"], "string", "x"),
        ("bytes", "string", "x"),
        ("bytes", {"type": "fixed", "name": "F", "size": 2}, b"xy"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        (["int", "string"], "string", "x"),
        (["int", "string"], ["string", "boolean"], "x"),
        ("int", ["string", "int"], 7),
        ("int", "null", None),
        (top("Old", k="int"), top("New", k="int"), {"k": 1}),
    ],
)
def test_what_avro_can_read_as_the_column_fits(column: Any, kind: Any, value: Any) -> None:
    held, writer = columns(top(a=column)), parse(top(a=kind))
    reader = avro_columns.reader(writer, held)
    assert avro_columns.ddl(reader) == avro_columns.ddl(held)
    row = read(encoded(top(a=kind), {"a": value}), writer, reader)
    wanted = value.encode() if column == "bytes" and isinstance(value, str) else value
    assert row == {"a": wanted}


def test_symbols_that_are_new_fit_and_types_that_lost_their_names_do() -> None:
    first = top(a={"type": "enum", "name": "E", "symbols": ["A"]})
    second = top(a={"type": "enum", "name": "Moved", "symbols": ["B", "A"]})
    reader = avro_columns.reader(parse(second), columns(first))
    assert read(encoded(second, {"a": "B"}), parse(second), reader) == {"a": "B"}


@pytest.mark.parametrize(
    ("column", "kind", "words"),
    [
        ("int", "long", "the field a is long, and the column is INT"),
        ("string", "int", "the field a is int, and the column is STRING"),
        ("string", "bytes", "the field a is bytes, and the column is STRING"),
        (MONEY, {**MONEY, "scale": 3}, r"is decimal\(9,3\), and the column is DECIMAL\(9,2\)"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "long", "logicalType": "timestamp-millis"},
            "the field a is timestamp-millis, and the column is TIMESTAMP",
        ),
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, "is timestamp-millis"),
        (top("S", k="int"), top("S", k="string"), r"the field a\.k is string"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, r"a\[\] is stri"),
        (["int", "string"], "boolean", "the field a is boolean, and the column is STRUCT<"),
    ],
)
def test_what_does_not_fit_names_field_and_column(column: Any, kind: Any, words: str) -> None:
    with pytest.raises(Unusable, match=words):
        avro_columns.reader(parse(top(a=kind)), columns(top(a=column)))


def test_a_branch_that_does_not_fit_concerns_only_the_records_that_use_it() -> None:
    held, writer = columns(top(a="int")), top(a=["int", "string"])
    reader = avro_columns.reader(parse(writer), held)
    assert read(encoded(writer, {"a": 7}), parse(writer), reader) == {"a": 7}
    with pytest.raises(fastavro.read.SchemaResolutionError):
        read(encoded(writer, {"a": "x"}), parse(writer), reader)


@pytest.mark.parametrize("name", ["_offset", "_KEY", "_headers"])
def test_names_that_lagless_uses_are_refused(name: str) -> None:
    with pytest.raises(Unusable, match=f"has the field {name}, a name that lagless uses itself"):
        columns(top(**{name: "int"}))


def test_names_that_differ_by_case_are_refused() -> None:
    with pytest.raises(Unusable, match="the field Total, and the table the column total"):
        columns(top(total="int"), top(Total="int"))
