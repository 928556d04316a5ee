"""Keys with fields: one column `_key`, whatever the format of the values."""

import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless import settings as tree
from lagless.adapters.lake import compaction, store
from lagless.adapters.lake.formats import avro_columns, avro_types
from lagless.adapters.lake.formats.avro_columns import KEY
from lagless.adapters.lake.formats.avro_types import Type, Unusable
from lagless.errors import GiveUp, WrongSettings
from lagless.lab.parts.apicurio import Apicurio
from tests.adapters.wrong_registry import WrongRegistry
from tests.lake import avro_strategies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.lake.bench import Bench
    from tests.lake.conftest import Send


def parse(schema: Any) -> Type:
    return avro_columns.keys(avro_types.parse(json.dumps(schema)))


def grown(*writers: Any) -> Type:
    columns = None
    for writer in writers:
        columns = avro_columns.grown_key(columns, parse(writer))
    assert columns is not None
    return columns


def ddl(columns: Type) -> dict[str, str]:
    return {name: avro_columns.ddl(kind) for name, kind in columns.fields.items()}


def record(**fields: Any) -> dict[str, Any]:
    listed = [{"name": label, "type": kind} for label, kind in fields.items()]
    return {"type": "record", "name": "OrderKey", "fields": listed}


def read(schema: Any, value: Any, columns: Type) -> Any:
    """Read a key as Spark does: with the writer's schema, into the column's."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    writer = parse(schema)
    kinds = [writer, avro_columns.reader(writer, columns)]
    schemas = [json.loads(avro_types.text(kind)) for kind in kinds]
    return fastavro.schemaless_reader(io.BytesIO(out.getvalue()), *schemas)[KEY]  # type: ignore[call-overload,index]


@pytest.mark.parametrize(
    ("writers", "column"),
    [
        (["long"], "BIGINT"),
        (["string"], "STRING"),
        ([["null", "string"]], "STRING"),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}], "STRING"),
        ([record(id="long")], "STRUCT<`id`: BIGINT>"),
        # A record with one field is a record still, whatever the field is called.
        ([record(value="long")], "STRUCT<`value`: BIGINT>"),
        ([record(id="long"), record(shop="string")], "STRUCT<`id`: BIGINT, `shop`: STRING>"),
        ([record(id="long"), ["null", record(b="int")]], "STRUCT<`id`: BIGINT, `b`: INT>"),
        # What is not a record stays what it is.
        (["long", record(id="long")], "BIGINT"),
        ([record(id="long"), "string"], "STRUCT<`id`: BIGINT>"),
        (["null", "long"], "BIGINT"),
        ([record(_offset="long")], "STRUCT<`_offset`: BIGINT>"),
    ],
)
def test_the_column_is_what_the_first_key_is_and_records_gain_fields(
    writers: list[Any], column: str
) -> None:
    assert ddl(grown(*writers)) == {KEY: column}


def test_a_key_that_does_not_fit_is_named_by_its_place_in_the_column() -> None:
    columns = grown(record(id="int"))
    with pytest.raises(Unusable, match=r"the field _key\.id is string, and the column is INT"):
        avro_columns.reader(parse(record(id="string")), columns)
    with pytest.raises(Unusable, match=r"the field _key is long, and the column is STRUCT"):
        avro_columns.reader(parse("long"), columns)
    with pytest.raises(Unusable, match="the field ID, and the table the column id"):
        avro_columns.grown_key(columns, parse(record(ID="int")))


@settings(deadline=None, max_examples=40)
@given(avro_strategies.written(), avro_strategies.written())
def test_keys_of_two_writers_are_read_whole_or_refused(
    first: tuple[Any, list[Any]], second: tuple[Any, list[Any]]
) -> None:
    both = grown(first[0], second[0])
    assert avro_types.parse(avro_types.text(both)) == both
    assert avro_columns.grown_key(both, parse(second[0])) == both
    for schema, values in (first, second) if both.fields else ():
        refused = ""
        try:
            avro_columns.reader(parse(schema), both)
        except Unusable as error:
            refused = str(error)
        if refused:
            assert schema is second[0] or _holds_nothing_somewhere(schema)
            assert "does not fit the table: the field _key" in refused
            continue
        for value in values:
            try:
                row = read(schema, value, both)
            except fastavro.read.SchemaResolutionError:
                # A union has a type that the column lacks.
                assert schema is second[0] or _holds_nothing_somewhere(schema)
                continue
            (held,) = both.fields[KEY].branches
            assert row.keys() == held.fields.keys()
            assert all(row[name] is None for name in row if name not in value)


def _holds_nothing_somewhere(schema: Any) -> bool:
    """Return whether a field of a writer joins only with what another writer has there."""
    return not all(map(avro_columns.holds, avro_types.parse(json.dumps(schema)).inner))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["int", "long", "double", "string", "boolean"]), st.data())
def test_keys_that_are_no_records_are_read_as_they_are(kind: str, data: st.DataObject) -> None:
    values: dict[str, st.SearchStrategy[Any]] = {
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "double": st.floats(allow_nan=False),
        "string": st.text(st.characters(exclude_categories=["Cs"])),
        "boolean": st.booleans(),
    }
    value = data.draw(values[kind])
    assert read(kind, value, grown(kind)) == value
    assert read(["null", kind], None, grown(kind)) is None


def test_settings_that_cannot_work_are_refused() -> None:
    least = {"group": "g", "topics": ["t"], "lake": {"path": "lake"}}
    for part, words in (
        ({"key_format": "avro"}, r"topic\.t\.key_format is 'avro', which needs a schema registry"),
        ({"key_schema": "id INT"}, 'key_schema needs key_format = "json"'),
        ({"key_format": "protobuf"}, "key_format"),
    ):
        with pytest.raises(WrongSettings, match=words):
            tree.parse({**least, "topic": {"t": part}})


@pytest.fixture
def memory() -> Iterator[WrongRegistry]:
    with WrongRegistry() as running:
        yield running


def serializer(registry: Apicurio, schema: Any) -> Callable[[str, Any], bytes]:
    """Return Confluent's own serializer of keys."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))

    def write(topic: str, value: Any) -> bytes:
        written = serialize(value, SerializationContext(topic, MessageField.KEY))
        assert isinstance(written, bytes)
        return written

    return write


@pytest.mark.kafka
@pytest.mark.spark
def test_avro_keys_evolve_like_values_and_bad_ones_are_rejected(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    registry: Apicurio,
    spark: "SparkSession",
) -> None:
    name = topic()
    first = serializer(registry, record(id="long"))
    wider = record(id="long")
    wider["fields"].append({"name": "shop", "type": ["null", "string"], "default": None})
    second = serializer(registry, wider)
    one = bench(name, registry.url, format="json", schema="a INT", key_format="avro", evolve=True)
    fixed = bench(name, registry.url, format="json", schema="a INT", key_format="avro")
    send(name, ['{"a": 0}'])
    one.drain()
    assert "_key" not in one.rows()[0]
    # The column joins with the first key, whether new fields may or not.
    fixed.claim()
    good = first(name, {"id": 7})
    send(name, ['{"a": 1}'], key=good)
    fixed.drain()
    one.claim()
    send(name, ['{"a": 2}', None], key=second(name, {"id": 8, "shop": "Ur"}))
    bad = [good[:-1], good + b"\0", b"", b"plain", b"\0\x7f\xff\xff\xf0" + good[5:]]
    for key in bad:
        send(name, ['{"a": 3}'], key=key)
    send(name, ["no object"], key=b"plain")
    one.drain()
    # A consumer that has not heard of the new field goes on.
    fixed.claim()
    send(name, ['{"a": 4}'], key=good)
    send(name, ['{"a": 5}'], key=None)
    fixed.drain()
    wanted = [
        (0, None),
        (1, {"id": 7, "shop": None}),
        (2, {"id": 8, "shop": "Ur"}),
        (None, {"id": 8, "shop": "Ur"}),
        (4, {"id": 7, "shop": None}),
        (5, None),
    ]
    assert [(row["a"], row["_key"]) for row in one.rows()] == wanted
    assert one.strays() == []
    rejects = one.rows("_rejected")
    assert [row["_key"] for row in rejects] == [*bad, b"plain"]
    number = int.from_bytes(good[1:5])
    assert [row["_reason"] for row in rejects] == [
        f"key: no Avro key that fits schema {number}",
        f"key: no Avro key that fits schema {number}",
        "key: no schema id before the key",
        "key: no schema id before the key",
        "key: schema 2147483632 is not in the registry",
        "no JSON object that fits the schema",
    ]
    compaction.compact(store.at(one.path))
    assert [(row["a"], row["_key"]) for row in one.rows()] == wanted
    frame = spark.read.format("delta").load(str(one.path))
    assert [row["a"] for row in frame.where("_key.shop = 'Ur' AND a = 2").collect()] == [2]
    assert frame.where("_key IS NULL").count() == 2


@pytest.mark.kafka
@pytest.mark.spark
def test_json_keys_and_avro_values_each_have_their_own_schema(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], memory: WrongRegistry
) -> None:
    name = topic()
    memory.schemas[1] = {"schema": json.dumps(record(id="int"))}
    value = b"\0\0\0\0\1\x0e"
    one = bench(name, memory.url, format="avro", key_format="json")
    send(name, [value])
    one.drain()
    send(name, [value], key='{"tenant": "a", "n": 1}')
    send(name, [value], key='{"tenant": "b", "later": 1, "_offset": 3}')
    send(name, [value], key="{}")
    one.drain()
    for key in ("[1]", '{"n": "x"}', "", "{}{}"):
        send(name, [value], key=key)
    one.drain()
    assert [(row["id"], row["_key"]) for row in one.rows()] == [
        (7, None),
        (7, {"tenant": "a", "n": 1, "later": None, "_offset": None}),
        (7, {"tenant": "b", "n": None, "later": 1, "_offset": 3}),
        (7, {"tenant": None, "n": None, "later": None, "_offset": None}),
    ]
    assert [row["_reason"] for row in one.rows("_rejected")] == [
        "key: no JSON object that fits the schema",
        "key: no JSON object that fits the schema",
        "key: empty",
        "key: no JSON object that fits the schema",
    ]
    raw = bench(name, memory.url, format="avro")
    send(name, [value], key="k")
    with pytest.raises(GiveUp, match=r"a struct of tenant, n, .* and binary in .* key_format"):
        raw.drain()
