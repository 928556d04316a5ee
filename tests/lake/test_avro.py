"""Avro topics from a real broker through a real Spark, written with Confluent's own serializers.

Where the registry has to misbehave, it is one in memory.
"""

import datetime
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lagless.errors import Away, GiveUp
from lagless.lab.parts.apicurio import Apicurio
from tests.adapters import wrong_registry
from tests.adapters.wrong_registry import WrongRegistry

if TYPE_CHECKING:
    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def memory() -> Iterator[WrongRegistry]:
    with WrongRegistry() as running:
        yield running


def top(**fields: Any) -> dict[str, Any]:
    listed = [{"name": label, "type": kind} for label, kind in fields.items()]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": listed}


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def serializer(registry: Apicurio, schema: Any) -> Callable[[str, Any], bytes]:
    """Return Confluent's own serializer, which registers the schema when it is first used."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": registry.url})
    serialize = AvroSerializer(client, json.dumps(schema))

    def write(topic: str, value: Any) -> bytes:
        written = serialize(value, SerializationContext(topic, MessageField.VALUE))
        assert isinstance(written, bytes)
        return written

    return write


ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": ["null", "string"]}],
}
KINDS = top(
    b="boolean",
    i="int",
    l="long",
    f="float",
    d="double",
    y="bytes",
    s="string",
    e={"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]},
    x={"type": "fixed", "name": "Hash", "size": 4},
    money={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    small={
        "type": "fixed",
        "name": "Small",
        "size": 8,
        "logicalType": "decimal",
        "precision": 9,
        "scale": 3,
    },
    day={"type": "int", "logicalType": "date"},
    at={"type": "long", "logicalType": "timestamp-micros"},
    ms={"type": "long", "logicalType": "timestamp-millis"},
    local={"type": "long", "logicalType": "local-timestamp-micros"},
    time={"type": "long", "logicalType": "time-micros"},
    uuid={"type": "string", "logicalType": "uuid"},
    none=["null", "int"],
    wide=["int", "long"],
    either=["null", "int", "string", ADDRESS],
    home=ADDRESS | {"name": "Home"},
    tags={"type": "array", "items": ["null", "string"]},
    by={"type": "map", "values": {"type": "array", "items": "long"}},
)
UTC = datetime.UTC
VALUE = {
    "b": True,
    "i": -7,
    "l": 2**62,
    "f": 0.5,
    "d": 1e300,
    "y": b"\0\xff",
    "s": "grüße",
    "e": "GREEN",
    "x": b"abcd",
    "money": Decimal("-123456789012345678.90"),
    "small": Decimal("123456.789"),
    "day": datetime.date(1066, 10, 14),
    "at": datetime.datetime(2024, 2, 29, 12, 30, 0, 123456, UTC),
    "ms": datetime.datetime(1900, 1, 1, 0, 0, 0, 5000, UTC),
    "local": datetime.datetime(2024, 2, 29, 12, 30, 0, 123456),
    "time": datetime.time(1, 2, 3, 4),
    "uuid": "c0ffee00-0000-4000-8000-000000000000",
    "none": None,
    "wide": 5,
    "either": {"city": "Ur", "zip": None},
    "home": {"city": "Kiel", "zip": "24103"},
    "tags": ["a", None],
    "by": {"k": [1, 2]},
}
ROW = VALUE | {
    "time": ((1 * 60 + 2) * 60 + 3) * 1_000_000 + 4,
    "either": {
        "member_int": None,
        "member_string": None,
        "member_Address": {"city": "Ur", "zip": None},
    },
    "by": [("k", [1, 2])],
}


def test_every_kind_of_type_is_read_and_what_is_no_avro_is_rejected(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], registry: Apicurio
) -> None:
    name = topic()
    good = serializer(registry, KINDS)(name, VALUE)
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    recursive = serializer(registry, node)(f"{name}-other", {"next": None})
    bad = [
        b"",
        b"\0",
        b"{}",
        b"\x01" + good[1:],
        good[:5],
        good[:-1],
        good + b"\0",
        good + good[5:],
        good[:5] + b"\x01\x02",
        good[:5] + good[5:40] + b"\xff" * 40,
        # A length of 2 GB, for which there must be no room made.
        good[:5] + bytes([1, 2, 2]) + bytes(12) + b"\xfe\xff\xff\xff\x0f",
        b"\0\x7f\xff\xff\xf0" + good[5:],
        recursive,
    ]
    send(name, [good, None, *bad, good], key=b"k")
    one = bench(name, registry.url, format="avro")
    one.drain()
    first, tombstone, last = one.rows()
    assert {key: value for key, value in first.items() if key in ROW} == ROW
    assert first.keys() - ROW.keys() == {"_partition", "_offset", "_timestamp", "_key"}
    assert {key for key, value in tombstone.items() if value is not None} == {
        "_partition",
        "_offset",
        "_timestamp",
        "_key",
    }
    assert (last["s"], last["_offset"]) == ("grüße", len(bad) + 2)
    rejects = one.rows("_rejected")
    assert [row["_value"] for row in rejects] == bad
    number = int.from_bytes(good[1:5])
    reasons = [row["_reason"] for row in rejects]
    assert reasons[:4] == ["no schema id before the value"] * 4
    assert reasons[4:-2] == [f"no Avro value that fits schema {number}"] * (len(bad) - 6)
    assert reasons[-2] == "schema 2147483632 is not in the registry"
    assert reasons[-1].startswith(
        f"schema {int.from_bytes(recursive[1:5])} is recursive: the record"
    )


@pytest.mark.parametrize("evolve", [True, False])
def test_schemas_change_in_mid_stream(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    registry: Apicurio,
    evolve: bool,
) -> None:
    name = topic(partitions=2)
    first = serializer(registry, top(id="int", name="string"))
    second = serializer(
        registry,
        {
            **top(id="int", name="string"),
            "fields": [
                *top(id="int", name="string")["fields"],
                {"name": "note", "type": ["null", "string"], "default": None},
            ],
        },
    )
    third = serializer(
        registry,
        {
            **top(),
            "fields": [
                {"name": "id", "type": "int"},
                {"name": "note", "type": ["null", "string"], "default": None},
                {"name": "extra", "type": "double", "default": 0.0},
            ],
        },
    )
    one = bench(name, registry.url, format="avro", evolve=evolve)
    send(name, [first(name, {"id": 0, "name": "a"})])
    one.drain()
    send(name, [second(name, {"id": 1, "name": "b", "note": "n"})])
    send(name, [first(name, {"id": 2, "name": "c"})], 1)
    one.drain()
    again = bench(name, registry.url, format="avro", evolve=evolve)
    send(name, [third(name, {"id": 3, "note": "m", "extra": 0.5})])
    send(name, [first(name, {"id": 4, "name": "d"})], 1)
    again.drain()
    rows = [(row["id"], row["name"], row.get("note"), row.get("extra")) for row in again.rows()]
    if evolve:
        wanted = [(0, "a", None, None), (1, "b", "n", None), (3, None, "m", 0.5)]
    else:
        wanted = [(0, "a", None, None), (1, "b", None, None), (3, None, None, None)]
        assert "note" not in again.rows()[0]
    assert rows == [*wanted, (2, "c", None, None), (4, "d", None, None)]
    assert again.rows("_rejected") == []


def test_what_does_not_fit_the_columns_is_rejected_with_field_and_column(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], memory: WrongRegistry
) -> None:
    name = topic()
    schemas = {
        1: top(a="int", b="string"),
        2: top(a="string", b="string"),
        3: top(a=["int", "string"]),
        4: top(_offset="long"),
        6: "int",
    }
    memory.schemas |= {number: {"schema": json.dumps(it)} for number, it in schemas.items()}
    memory.schemas[5] = {"schema": "{}", "schemaType": "JSON"}
    one = bench(name, memory.url, format="avro", evolve=True)
    send(name, [framed(1, schemas[1], {"a": 1, "b": "x"})])
    one.drain()
    send(
        name,
        [
            framed(2, schemas[2], {"a": "1", "b": "x"}),
            framed(3, schemas[3], {"a": 3}),
            framed(3, schemas[3], {"a": "3"}),
            framed(4, schemas[4], {"_offset": 7}),
            b"\0\0\0\0\5{}",
            framed(1, schemas[1], {"a": 2, "b": "y"}),
            framed(6, schemas[6], 7),
        ],
    )
    one.drain()
    assert [(row["a"], row["b"], row["value"]) for row in one.rows()] == [
        (1, "x", None),
        (3, None, None),
        (2, "y", None),
        (None, None, 7),
    ]
    assert [row["_reason"] for row in one.rows("_rejected")] == [
        "schema 2 does not fit the table: the field a is string, and the column is INT",
        "no Avro value that fits schema 3",
        "schema 4 has the field _offset, a name that lagless uses itself",
        "schema 5 is a schema for JSON, and this topic's format is avro",
    ]


def test_a_registry_that_does_not_say_makes_records_wait_and_loses_none(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    memory: WrongRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lagless.adapters import schema_registry

    monkeypatch.setattr(schema_registry, "UNKNOWN_SECONDS", 0.0)
    name = topic()
    memory.schemas[1] = {"schema": json.dumps(top(a="int"))}
    send_values = [framed(1, top(a="int"), {"a": 1}), framed(2, top(a="int"), {"a": 2})]
    send(name, send_values[:1])
    one = bench(name, memory.url, format="avro")
    for answer in (
        partial(_send, 503, b""),
        partial(_send, 200, b"<html>"),
        partial(_send, 401, b""),
    ):
        memory.answer = answer
        with pytest.raises(Away, match="the schema registry at"):
            one.drain()
        assert (one.rows(), one.rows("_rejected"), one.strays()) == ([], [], [])
    memory.answer = None
    one.drain()
    # Known schemas need no registry; a new one does.
    memory.answer = partial(_send, 500, b"")
    send(name, send_values[:1])
    one.drain()
    assert [row["a"] for row in one.rows()] == [1, 1]
    send(name, send_values)
    with pytest.raises(Away, match="500"):
        one.drain()
    memory.answer = None
    one.drain()
    assert [row["a"] for row in one.rows()] == [1, 1, 1]
    (reject,) = one.rows("_rejected")
    assert (reject["_value"], reject["_reason"]) == (
        send_values[1],
        "schema 2 is not in the registry",
    )
    # Schema 2 arrived in the registry since.
    memory.schemas[2] = memory.schemas[1]
    send(name, send_values)
    one.drain()
    assert [row["a"] for row in one.rows()] == [1, 1, 1, 1, 2]
    assert len(one.rows("_rejected")) == 1


def _send(status: int, body: bytes, handler: Any) -> None:
    wrong_registry.send(handler, status, body)


def test_a_table_of_another_format_is_named(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], memory: WrongRegistry
) -> None:
    name = topic()
    send(name, ['{"a": 1}'])
    bench(name, format="json").drain()
    send(name, ["x"])
    one = bench(name, memory.url, format="avro")
    with pytest.raises(GiveUp, match="the table keeps a schema of another format"):
        one.drain()
