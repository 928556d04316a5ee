"""Formats, rejects, transforms and odd topics, from a real broker through a real Spark."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from lagless.adapters.lake import ingestion
from lagless.errors import ClaimLost, DataLost, GiveUp
from lagless.model import TopicPartition
from lagless.ports import Span
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker
    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
Make = "Callable[..., Bench]"


def test_raw_keeps_bytes_keys_headers_and_nulls(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, [b"\xff\x00"], key=b"k", headers=[("h", b"1"), ("h", b"2")])
    send(name, [None], key=None)
    send(name, [b""], key=b"")
    one = bench(name)
    one.drain()
    first, second, third = one.rows()
    assert (first["_key"], first["value"]) == (b"k", b"\xff\x00")
    assert first["_headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": b"2"}]
    assert (second["_key"], second["value"], second["_headers"]) == (None, None, None)
    assert (third["_key"], third["value"]) == (b"", b"")
    assert [row["_offset"] for row in one.rows()] == [0, 1, 2]


def test_text_rejects_what_is_no_text(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ["grüße", b"\xff\xfe", None, ""])
    one = bench(name, format="text")
    one.drain()
    assert [row["value"] for row in one.rows()] == ["grüße", None, ""]
    (reject,) = one.rows("_rejected")
    assert (reject["_offset"], reject["_value"], reject["_reason"]) == (1, b"\xff\xfe", "not UTF-8")


GOOD = ['{"a": 1, "b": "x", "c": 1, "s": {"k": 1}, "l": [1, 2]}', '{"a": null}', "{}", '{"b": 5}']
BAD = [
    "",
    "   ",
    "null",
    "[1]",
    '[{"a": 1}]',
    "5",
    '"x"',
    '{"a": "x"}',
    '{"a": 1.5}',
    '{"a": 99999999999999999999}',
    '{"a": true}',
    '{"s": {"k": "x"}}',
    '{"s": 5}',
    '{"l": [1, "x"]}',
    '{"l": 5}',
    '{"a": 1} rest',
    '{"a": 1}{"a": 2}',
    '{"a": 1',
    "{'a': 1}",
    '{"c": NaN}',
    '{"c": 1e999}',
    b'{"b": "\xff"}',
]


def test_json_rejects_what_does_not_fit_and_keeps_tombstones(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, [*GOOD, None, *BAD])
    schema = "a BIGINT, b STRING, c DOUBLE, s STRUCT<k: INT>, l ARRAY<INT>"
    one = bench(name, format="json", schema=schema)
    one.drain()
    rows = one.rows()
    assert [row["a"] for row in rows] == [1, None, None, None, None]
    assert [row["b"] for row in rows] == ["x", None, None, "5", None]
    assert (rows[0]["c"], rows[0]["s"], rows[0]["l"]) == (1.0, {"k": 1}, [1, 2])
    rejects = one.rows("_rejected")
    wanted = [value.encode() if isinstance(value, str) else value for value in BAD]
    assert [row["_value"] for row in rejects] == wanted
    assert all(row["_reason"] for row in rejects)


def test_unknown_fields_are_counted(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ['{"a": 1, "x": 2, "y": 3}', '{"a": 1, "x": 2}'])
    one = bench(name, format="json", schema="a BIGINT")
    (taken,) = one.run().taken.values()
    assert taken.intake.unknown_fields == 3
    assert "x" not in one.rows()[0]


def test_unknown_fields_become_columns_where_allowed(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ['{"a": 1}'])
    one = bench(name, format="json", schema="a BIGINT", evolve=True)
    one.drain()
    send(name, ['{"a": 2, "x": "new", "n": null}', '{"a": 3, "x": "more", "n": 1.5}'])
    one.drain()
    assert [(row["a"], row["x"], row["n"]) for row in one.rows()] == [
        (1, None, None),
        (2, "new", None),
        (3, "more", 1.5),
    ]


def test_a_schema_is_inferred_once_and_kept(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ['{"a": 1, "b": "x"}', '{"a": 2.5, "o": {"k": [true]}}'])
    bench(name, format="json").drain()
    send(name, ['{"a": "no number"}', '{"a": 7, "b": "y"}'])
    again = bench(name, format="json")
    again.drain()
    assert [(row["a"], row["b"]) for row in again.rows()] == [(1.0, "x"), (2.5, None), (7.0, "y")]
    assert again.rows()[1]["o"] == {"k": [True]}
    assert [row["_offset"] for row in again.rows("_rejected")] == [2]


def test_one_file_per_cycle_and_gaps_of_compaction_and_transactions(
    bench: "Callable[..., Bench]", broker: "Broker", topic: Callable[..., str]
) -> None:
    from confluent_kafka import Producer

    name = topic(partitions=4)
    config = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"tx-{name}"}
    producer = Producer(config)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for partition in range(4):
            producer.produce(name, f"{number}", partition=partition)
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    one = bench(name, format="text")
    one.drain()
    assert [row["value"] for row in one.rows() if row["_partition"] == 2] == ["0", "2", "4"]
    assert one.files() == 1
    # Markers and aborted records are behind us too: nothing is left to be read.
    assert not one.cycle.gather(one.held).spans


def test_open_transactions_are_waited_for(
    bench: "Callable[..., Bench]", broker: "Broker", topic: Callable[..., str]
) -> None:
    from confluent_kafka import Producer

    name = topic()
    config = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"tx-{name}"}
    producer = Producer(config)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, "a")
    producer.flush()
    one = bench(name, format="text")
    one.drain()
    assert one.rows() == []
    producer.commit_transaction()
    # The broker writes its marker in its own time.
    until(lambda: bool(one.cycle.gather(one.held).spans), "records", 10)
    one.drain()
    assert [row["value"] for row in one.rows()] == ["a"]


def test_small_and_large_records(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic(max_message_bytes="20000000")
    send(name, [b"x", b"y" * 5_000_000, b"z"])
    one = bench(name)
    one.drain()
    assert [len(row["value"]) for row in one.rows()] == [1, 5_000_000, 1]


def test_a_transform_adds_columns(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ['{"a": 1}', '{"a": 2}'])
    transform = "tests.lake.transforms:doubled"
    one = bench(name, format="json", schema="a BIGINT", transform=transform)
    one.drain()
    assert [row["twice"] for row in one.rows()] == [2, 4]


@pytest.mark.parametrize("transform", ["picky", "python"])
def test_a_record_on_which_the_transform_raises_is_found_and_rejected(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], transform: str
) -> None:
    name = topic(partitions=2)
    send(name, [json.dumps({"a": number}) for number in range(10, 18)], 0)
    send(name, [json.dumps({"a": number}) for number in range(20, 24)], 1)
    module = f"tests.lake.transforms:{transform}"
    one = bench(name, format="json", schema="a BIGINT", transform=module)
    one.drain()
    assert [row["a"] for row in one.rows()] == [10, 11, 12, 14, 15, 16, 17, 20, 21, 22, 23]
    (reject,) = one.rows("_rejected")
    assert (reject["_partition"], reject["_offset"]) == (0, 3)
    assert reject["_value"] == b'{"a": 13}'
    assert reject["_reason"].startswith("transform: ")


@pytest.mark.parametrize(
    ("transform", "words"),
    [("forgetful", "drops _offset"), ("broken", "plan"), ("raising", "raises RuntimeError: no")],
)
def test_a_transform_that_never_works_is_said_to_be_wrong(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    transform: str,
    words: str,
) -> None:
    name = topic()
    send(name, ['{"a": 1}'])
    module = f"tests.lake.transforms:{transform}"
    one = bench(name, format="json", schema="a BIGINT", transform=module)
    with pytest.raises(GiveUp, match=words):
        one.drain()
    assert one.rows() == []


def test_a_crash_between_the_two_tables_repeats_and_doubles_nothing(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic(partitions=2)
    send(name, ['{"a": 1}', "bad", '{"a": 2}'], 0)
    send(name, ["worse"], 1)
    one = bench(name, format="json", schema="a BIGINT")

    _reject_only(one, monkeypatch)
    assert len(one.rows("_rejected")) == 2
    assert one.rows() == []
    send(name, ["bad again", '{"a": 3}'], 0)
    again = bench(name, format="json", schema="a BIGINT")
    again.drain()
    assert [row["a"] for row in again.rows()] == [1, 2, 3]
    assert [row["_value"] for row in again.rows("_rejected")] == [b"bad", b"bad again", b"worse"]


def test_what_retention_deleted_is_named_and_gone_on_behind(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], broker: "Broker"
) -> None:
    name = topic()
    send(name, ["a", "b"])
    one = bench(name, format="text")
    one.drain()
    send(name, ["c", "d", "e", "f"])
    _delete_records(broker, name, 5)
    one.drain()
    assert [row["value"] for row in one.rows()] == ["a", "b", "f"]
    (gone,) = one.rows("_gone")
    assert (gone["first"], gone["until"], gone["reason"]) == (2, 5, "retention")


def test_a_reject_that_landed_is_not_named_gone(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    broker: "Broker",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic()
    send(name, ['{"a": 1}', "bad", '{"a": 2}', '{"a": 3}', "worse", "worst"])
    one = bench(name, format="json", schema="a BIGINT")
    _reject_only(one, monkeypatch)
    _delete_records(broker, name, 5)
    one.drain()
    assert one.rows() == []
    ranges = [(row["first"], row["until"]) for row in one.rows("_gone")]
    assert sorted(ranges) == [(0, 1), (2, 4)]
    assert [row["_offset"] for row in one.rows("_rejected")] == [1, 4, 5]


def test_a_reject_of_a_deleted_topic_is_not_named_gone(
    bench: "Callable[..., Bench]",
    send: "Send",
    topic: Callable[..., str],
    broker: "Broker",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic()
    send(name, ['{"a": 1}', "bad"])
    one = bench(name, format="json", schema="a BIGINT")
    _reject_only(one, monkeypatch)
    old = one.claims.topics[name].id
    _remake(broker, topic, name)
    send(name, ["bad anew", '{"a": 7}'])
    one.drain()
    assert [row["a"] for row in one.rows()] == [7]
    ranges = [(row["_topic_id"], row["first"], row["until"]) for row in one.rows("_gone")]
    assert sorted(ranges, key=str) == [(old, 0, 1), (old, 2, None)]
    rejected = {(row["_topic_id"] == old, row["_offset"]) for row in one.rows("_rejected")}
    assert rejected == {(True, 1), (False, 0)}


def test_who_slept_names_nothing_gone_that_its_successor_has_read(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], broker: "Broker"
) -> None:
    name = topic()
    send(name, ["a", "b", "c"])
    sleeper, successor = bench(name, format="text"), bench(name, format="text")
    sleeper.claim(1)
    successor.claim(2)
    successor.drain()
    _delete_records(broker, name, 3)
    described = sleeper.claims.topics[name]
    with pytest.raises(ClaimLost):
        sleeper.lake.give_up(
            described, {TopicPartition(name, 0): Span(0, 3)}, {TopicPartition(name, 0): 1}
        )
    assert [row["value"] for row in successor.rows()] == ["a", "b", "c"]
    assert successor.rows("_gone") == []


def test_what_retention_deleted_is_an_error_that_names_it(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], broker: "Broker"
) -> None:
    name = topic()
    send(name, ["a", "b"])
    one = bench(name, format="text")
    one.cycle.on_data_loss = "fail"
    one.claim()
    _delete_records(broker, name, 1)
    with pytest.raises(DataLost, match=f"{name}:0 offsets 0 to 0"):
        one.drain()
    assert one.rows() == []


def test_a_topic_created_again_starts_afresh_and_names_what_is_gone(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], broker: "Broker"
) -> None:
    name = topic()
    send(name, ["old 0", "old 1"])
    one = bench(name, format="text")
    one.drain()
    old = one.claims.topics[name].id
    send(name, ["unread"])
    _remake(broker, topic, name)
    send(name, ["new 0"])
    one.drain()
    assert sorted(row["value"] for row in one.rows()) == ["new 0", "old 0", "old 1"]
    (gone,) = one.rows("_gone")
    assert (gone["_topic_id"], gone["first"], gone["until"]) == (old, 2, None)
    assert gone["reason"] == "deleted"


def test_group_offsets_count_only_at_the_first_meeting(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    send(name, ["a", "b", "c"], 0)
    send(name, ["d"], 1)
    one = bench(name, format="text")
    one.offsets.commit({TopicPartition(name, 0): 2})
    one.offsets.committed([TopicPartition(name, 0)])
    until(lambda: one.offsets.committed([TopicPartition(name, 0)]) != {}, "an offset", 10)
    one.drain()
    assert [row["value"] for row in one.rows()] == ["c", "d"]
    one.offsets.commit({TopicPartition(name, 0): 0})
    again = bench(name, format="text")
    again.drain()
    assert [row["value"] for row in again.rows()] == ["c", "d"]


def test_a_table_past_the_logs_end_is_an_error(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ["a"])
    one = bench(name, format="text")
    one.claim()
    described = one.claims.topics[name]
    table = one.lake._pipeline(described).table
    assert table.commit([], {TopicPartition(name, 0): Span(0, 50)}, one.held)
    report = one.run()
    assert str(report.troubles[name]).startswith(
        f"{name}:0: the table is at offset 50, but Kafka has lost what was read from offset 1 on"
    )


def test_72_partitions_land_in_one_file(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic(partitions=72)
    for partition in range(72):
        send(name, [f"{partition}"], partition)
    one = bench(name, format="text")
    one.drain()
    assert [row["value"] for row in one.rows()] == [str(number) for number in range(72)]
    assert one.files() == 1


def _reject_only(one: "Bench", patch: pytest.MonkeyPatch) -> None:
    """Let a cycle end after the rejects have landed, and before the rest does."""

    def crash(*_: object) -> None:
        raise KeyError("killed")

    with patch.context() as patched:
        patched.setattr(ingestion, "commit", crash)
        assert one.run().troubles


def _remake(broker: "Broker", topic: Callable[..., str], name: str) -> None:
    import time

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([name])[name].result(30)

    for _ in range(50):
        try:
            topic(name=name)
            return
        except KafkaException:
            time.sleep(0.2)
    raise AssertionError(f"{name} could not be made again")


def _delete_records(broker: "Broker", name: str, before: int) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([Place(name, 0, before)]).values():
        future.result(30)


def test_keys_may_be_text_and_headers_are_kept_where_they_are_wanted(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, ['{"a": 1}'], key="schlüssel", headers=[("h", b"1")])
    send(name, ['{"a": 2}', "bad"], key=b"\xff")
    send(name, ['{"a": 3}'], key=None)
    one = bench(name, format="json", schema="a BIGINT", key_format="text", headers=True)
    one.drain()
    rows = [(row["_key"], row["a"], row["_headers"]) for row in one.rows()]
    assert rows == [("schlüssel", 1, [{"key": "h", "value": b"1"}]), (None, 3, None)]
    rejects = [(row["_key"], row["_reason"]) for row in one.rows("_rejected")]
    assert rejects == [
        (b"\xff", "the key is not UTF-8"),
        (b"\xff", "no JSON object that fits the schema"),
    ]
    other = topic()
    send(other, ["x"], headers=[("h", b"1")])
    plain = bench(other, format="text", headers=False)
    plain.drain()
    assert list(plain.rows()[0]) == ["_partition", "_offset", "_timestamp", "_key", "value"]
