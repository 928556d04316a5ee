"""Partition columns: values in the log, readers that skip by them, compaction within them."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from lagless.adapters.lake import compaction, data_files, partitions, schemas, store
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.table import Table
from lagless.errors import GiveUp
from lagless.ports import Span
from tests.lake.files import TOPIC, P

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

DAY = pa.field("day", pa.date32())


def partitioned(place: Store, *names: str) -> Table:
    return Table(place, "group", TOPIC, pa.schema([*schemas.ALWAYS, DAY]), partition_by=names)


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty place for a table in each kind of store."""
    if request.param == "folder":
        return store.at(tmp_path / "lake").inside("orders")
    from lagless.settings import Bucket, StorageSettings

    storage = StorageSettings(endpoint=request.getfixturevalue("s3").url)
    return store.at(Bucket(request.getfixturevalue("bucket"), "lake"), storage).inside("orders")


class Arrow:
    """A frame of Spark's whose rows are here already."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802  (Spark's name)
        return self.rows


def written(place: Store, first: int, days: list[date | None]) -> list[File]:
    rows = [
        {"_partition": 0, "_offset": first + n, "_timestamp": n, "day": day}
        for n, day in enumerate(days)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*schemas.ALWAYS, DAY]))
    return data_files._upload(Arrow(table), place, ["day"])  # type: ignore[arg-type]


def values(place: Store) -> dict[tuple[str | None, ...], int]:
    """Count the files of each value."""
    counts: dict[tuple[str | None, ...], int] = {}
    for file in compaction._listed(place.table()):
        key = tuple(file.values.values())
        counts[key] = counts.get(key, 0) + 1
    return counts


def test_files_of_different_values_are_never_merged(place: Store) -> None:
    one = partitioned(place, "day")
    one.claim([P[0]], 1, lambda: {P[0]: 0}, {})
    days = [date(2026, 5, 30), date(2026, 5, 31), None]
    for first in range(0, 9, 3):
        one.look([P[0]])
        files = written(place, first, days)
        assert one.commit(files, {P[0]: Span(first, first + 3)}, {P[0]: 1})
    assert values(place) == {("2026-05-30",): 3, ("2026-05-31",): 3, (None,): 3}
    before = place.table().to_pyarrow_table().sort_by("_offset")
    outcome = compaction.compact(place)
    assert (outcome.merged, outcome.files_after, outcome.troubles) == (9, 3, [])
    assert values(place) == {("2026-05-30",): 1, ("2026-05-31",): 1, (None,): 1}
    after = place.table().to_pyarrow_table().sort_by("_offset")
    assert after.select(before.column_names).equals(before)
    assert after["day"].to_pylist() == days * 3


def test_a_table_keeps_its_partition_columns_and_another_setting_is_refused(tmp_path: Path) -> None:
    place = store.at(tmp_path / "orders")
    partitioned(place, "day").handle.open()
    assert place.table().metadata().partition_columns == ["day"]
    partitioned(place, "day").handle.open()
    for names, asked in (((), "nothing"), (("_partition",), "_partition")):
        with pytest.raises(GiveUp) as caught:
            partitioned(place, *names).handle.open()
        sentence = str(caught.value)
        assert f"is partitioned by day, but partition_by asks for {asked}: this cannot" in sentence
        assert "restore the setting or name another table" in sentence


@pytest.mark.parametrize(
    ("value", "text"), [(None, None), ("", None), ("a/b=c %", "a/b=c %"), (True, "true"), (7, "7")]
)
def test_values_are_written_as_delta_does(value: Any, text: str | None) -> None:
    assert partitions.text(value) == text


def test_folders_are_read_as_spark_names_them() -> None:
    assert partitions.of_folder("the%20day=2026-05-31") == ("the day", "2026-05-31")
    assert partitions.of_folder("at_hour=__HIVE_DEFAULT_PARTITION__") == ("at_hour", None)


# ---------------------------------------------------------------------- with Kafka and Spark

TIMES = [datetime(2026, 5, 30, 23, 5, tzinfo=UTC), datetime(2026, 5, 31, 0, 5, tzinfo=UTC)]
LONG = "x" * 300
RECORDS: list[Mapping[str, Any] | None] = [
    {"n": 0, "at": "2026-05-30T23:05:00Z", "country": "PT"},
    {"n": 1, "at": "2026-05-31T00:05:00Z", "country": "a/b=c %ü"},
    {"n": 2, "at": "2026-05-31T01:05:00Z", "country": LONG},
    {"n": 3, "at": "2026-05-30T23:15:00Z", "country": "PT"},
    {"n": 4},
    None,
]


def actions(one: "Bench", *names: str) -> dict[tuple[Any, ...], list[int]]:
    """Return each partition's values, with the bounds of the offsets that its file claims."""
    table = pa.table(DeltaTable(str(one.path)).get_add_actions(flatten=True))
    return {
        tuple(row[f"partition.{name}"] for name in names): [row["min._offset"], row["max._offset"]]
        for row in table.to_pylist()
    }


def produce(send: "Send", name: str) -> None:
    for number, record in enumerate(RECORDS):
        stamp = round(TIMES[number % 2].timestamp() * 1000)
        send(name, [None if record is None else json.dumps(record)], timestamp=stamp)


@pytest.mark.kafka
@pytest.mark.spark
def test_rows_get_their_values_and_every_reader_skips_by_them(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], spark: "SparkSession"
) -> None:
    name = topic()
    produce(send, name)
    by = ["date(at)", "hour(_timestamp)"]
    one = bench(name, format="json", partition_by=by)
    one.drain()
    first, second = date(2026, 5, 30), date(2026, 5, 31)
    assert actions(one, "at_date", "_timestamp_hour") == {
        (first, 23): [0, 0],
        (first, 0): [3, 3],
        (second, 0): [1, 1],
        (second, 23): [2, 2],
        (None, 23): [4, 4],
        (None, 0): [5, 5],
    }
    rows = one.rows()
    assert [row["at_date"] for row in rows] == [first, second, second, first, None, None]
    assert [row["_timestamp_hour"] for row in rows] == [23, 0, 23, 0, 23, 0]
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4, None]
    assert one.strays() == []
    send(name, [json.dumps(RECORDS[1])], timestamp=round(TIMES[1].timestamp() * 1000))
    one.drain()
    assert compaction.compact(store.at(one.path)).merged == 2
    # Who skips files by these columns does not notice that the others are gone.
    table = DeltaTable(str(one.path))
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        if row["partition.at_date"] != second:
            (one.path / row["path"]).unlink()
    records = table.to_pyarrow_dataset()
    assert records.count_rows(filter=ds.field("at_date") == second) == 3
    duckdb = pytest.importorskip("duckdb")
    counted = duckdb.sql("SELECT count(*) FROM records WHERE at_date = DATE '2026-05-31'")
    assert counted.fetchall() == [(3,)]
    frame = spark.read.format("delta").load(str(one.path))
    found = frame.where("at_date = DATE '2026-05-31' AND _timestamp_hour = 0").collect()
    assert sorted(row["n"] for row in found) == [1, 1]


def fragments(one: "Bench", where: ds.Expression) -> int:
    """Count the files that delta-rs would read."""
    return len(list(DeltaTable(str(one.path)).to_pyarrow_dataset().get_fragments(where)))


@pytest.mark.kafka
@pytest.mark.spark
def test_readers_that_ask_for_a_time_skip_files_of_other_dates(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], spark: "SparkSession"
) -> None:
    name = topic()
    produce(send, name)
    schema = "n INT, at TIMESTAMP, country STRING"
    one = bench(name, format="json", schema=schema, partition_by=["date(_timestamp)", "date(at)"])
    one.drain()
    assert one.files() == 6
    midnight = datetime(2026, 5, 31, tzinfo=UTC)
    assert fragments(one, ds.field("_timestamp") >= midnight) == 3
    # Of fields there are no ranges: only the partition column helps.
    assert fragments(one, ds.field("at") >= midnight) == 6
    assert fragments(one, ds.field("at_date") >= midnight.date()) == 2
    # A reader that skips the other files does not notice that they are gone.
    dataset = DeltaTable(str(one.path)).to_pyarrow_dataset()
    later = ds.field("_timestamp") >= midnight
    needed = {Path(fragment.path).name for fragment in dataset.get_fragments(later)}
    for uri in DeltaTable(str(one.path)).file_uris():
        if Path(uri).name not in needed:
            Path(uri).unlink()
    frame = spark.read.format("delta").load(str(one.path))
    found = frame.where("_timestamp >= '2026-05-31T00:00:00Z'").collect()
    assert sorted(row["_offset"] for row in found) == [1, 3, 5]
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT count(*) FROM dataset WHERE _timestamp >= TIMESTAMPTZ '2026-05-31 00:00:00Z'"
    assert duckdb.sql(query).fetchall() == [(3,)]


@pytest.mark.kafka
@pytest.mark.spark
def test_text_of_any_kind_is_a_value(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], spark: "SparkSession"
) -> None:
    name = topic()
    produce(send, name)
    schema = "n INT, at TIMESTAMP, country STRING"
    one = bench(name, format="json", schema=schema, partition_by=["country", "_partition"])
    one.drain()
    assert actions(one, "country", "_partition") == {
        ("PT", 0): [0, 3],
        ("a/b=c %ü", 0): [1, 1],
        (LONG, 0): [2, 2],
        (None, 0): [4, 5],
    }
    frame = spark.read.format("delta").load(str(one.path))
    assert frame.where("country = 'a/b=c %ü'").select("n").collect()[0]["n"] == 1
    assert [row["_partition"] for row in one.rows()] == [0] * 6
    again = bench(name, format="json", schema=schema)
    with pytest.raises(GiveUp, match="is partitioned by country, _partition, but partition_by"):
        again.drain()
