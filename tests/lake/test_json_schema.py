"""Columns from JSON Schemas, and JSON topics whose values carry the id of one."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.adapters.lake import schemas
from lagless.adapters.lake.formats import json_schema
from lagless.adapters.lake.formats.avro_types import Unusable
from lagless.errors import Away
from tests.adapters import wrong_registry
from tests.adapters.wrong_registry import WrongRegistry

if TYPE_CHECKING:
    from tests.lake.bench import Bench
    from tests.lake.conftest import Send


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ({"type": "string"}, "STRING"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": ["null", "integer"]}, "BIGINT"),
        ({"type": ["string", "integer"]}, "STRING"),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, "DOUBLE"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "STRING"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "array"}, "STRING"),
        ({"type": "object"}, "STRING"),
        ({"type": "object", "properties": {"k": {"type": "integer"}}}, "STRUCT<`k` BIGINT>"),
        ({"$ref": "#/definitions/A"}, "STRUCT<`n` STRING>"),
        ({"$ref": "http://elsewhere.example/a"}, "STRING"),
        ({"enum": ["A", "B"]}, "STRING"),
        (True, "STRING"),
    ],
)
def test_properties_are_columns(kind: Any, column: str) -> None:
    more = {"A": {"type": "object", "properties": {"n": {"type": "string"}}}}
    text = json.dumps({"type": "object", "properties": {"a": kind}, "definitions": more})
    assert schemas.ddl(json_schema.parse(text).fields) == f"`a` {column}"


def test_a_schema_that_refers_to_itself_ends_somewhere() -> None:
    node = {"oneOf": [{"$ref": "#/properties/a"}, {"$ref": "#/properties/a"}]}
    text = json.dumps({"properties": {"a": node, "b": {"$ref": "#"}}})
    assert schemas.ddl(json_schema.parse(text).fields).startswith("`a` STRING, `b` STRING")


@settings(deadline=None, max_examples=50)
@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.sampled_from(["object", "#", "#/properties/a", "string"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "items", "$ref", "oneOf", "required", "a"]),
                inner,
                max_size=4,
            )
        ),
    ).map(json.dumps)
)
def test_every_text_is_a_schema_of_objects_or_is_refused(text: str) -> None:
    try:
        objects = json_schema.parse(text)
    except Unusable:
        return
    assert isinstance(schemas.ddl(objects.fields), str)
    assert all(isinstance(name, str) for name in objects.required)


@pytest.fixture
def memory() -> Iterator[WrongRegistry]:
    with WrongRegistry() as running:
        yield running


def register(memory: WrongRegistry, number: int, required: list[str], **fields: str) -> None:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    text = json.dumps({"type": "object", "properties": properties, "required": required})
    memory.schemas[number] = {"schema": text, "schemaType": "JSON"}


def framed(number: int, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4) + json.dumps(value).encode()


@pytest.mark.kafka
@pytest.mark.spark
def test_the_schema_of_an_id_decides_on_columns_and_on_what_is_rejected(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], memory: WrongRegistry
) -> None:
    name = topic()
    register(memory, 1, ["a"], a="integer", b="number", _key="string")
    register(memory, 2, [], a="integer", c="number")
    memory.schemas[3] = {"schema": '"string"'}
    one = bench(name, memory.url, format="json", evolve=True)
    memory.answer = lambda handler: wrong_registry.send(handler, 500, b"")
    send(name, [framed(1, {"a": 1, "b": 2}), None, '{"a": 2}'])
    with pytest.raises(Away, match="500"):
        one.drain()
    assert (one.rows(), one.strays()) == ([], [])
    memory.answer = None
    one.drain()
    bad = [framed(1, {"b": 1}), framed(1, {"a": "x"}), framed(3, {"a": 1}), framed(4, {"a": 1})]
    bad += [b"\0\0\0\0\1", b"\0\0", b"\0\0\0\0\1{}}"]
    send(name, [*bad, framed(2, {"c": 7})])
    one.drain()
    rows = [(row["a"], row["b"], row["c"]) for row in one.rows()]
    assert rows == [(1, 2.0, None), (None, None, None), (2, None, None), (None, None, 7.0)]
    rejects = one.rows("_rejected")
    assert [row["_value"] for row in rejects] == bad
    reasons = [row["_reason"] for row in rejects]
    assert reasons[:4] == [
        "schema 1 requires the field a",
        "no JSON object that fits the schema",
        "schema 3 is a schema for AVRO, and this topic's format is json",
        "schema 4 is not in the registry",
    ]
    assert all(reasons)
