"""What other readers see of a table in a bucket, each straight from there."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import duckdb
import polars
import pytest

from lagless.adapters.lake import compaction, store
from lagless.adapters.lake.store import Store
from lagless.lab.parts import s3a
from lagless.lab.parts.object_store import ObjectStore
from lagless.ports import Span
from lagless.settings import Bucket, StorageSettings
from tests.lake.files import P, claimed, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.s3
Rows = list[tuple[int, int, str]]
"""Partition, offset and value of each row, in order."""
Read = Callable[[Store, ObjectStore], Rows]


@pytest.fixture
def table(s3: ObjectStore, bucket: str) -> Store:
    """Make a table of two partitions: commits, of which some were compacted."""
    place = store.at(Bucket(bucket, "a/lake"), StorageSettings(endpoint=s3.url)).inside("orders")
    one = claimed(place, 1, (0, 1))
    for number in range(6):
        partition, first = number % 2, number // 2 * 10
        one.look([P[0], P[1]])
        file = written(place, partition, first, first + 10)
        assert one.commit([file], {P[partition]: Span(first, first + 10)}, {P[partition]: 1})
        if number == 3:
            assert compaction.compact(place).troubles == []
    return place


EXPECTED: Rows = [(partition, o, str(o)) for partition in (0, 1) for o in range(30)]


def by_delta_rs(table: Store, s3: ObjectStore) -> Rows:
    rows = table.table().to_pyarrow_table().to_pylist()
    return sorted((row["_partition"], row["_offset"], row["value"]) for row in rows)


def by_duckdb(table: Store, s3: ObjectStore) -> Rows:
    records = table.table().to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("records", records)
        query = "select _partition, _offset, value from records order by all"
        wrong = "select count(*) from records where _timestamp < epoch_ms(0) or _offset >= 30"
        assert connection.execute(wrong).fetchone() == (0,)
        return connection.execute(query).fetchall()


def by_polars(table: Store, s3: ObjectStore) -> Rows:
    frame = polars.scan_delta(table.uri, storage_options=s3.options())
    columns = ["_partition", "_offset", "value"]
    assert frame.filter(polars.col("_offset") == 17).collect().height == 2
    return frame.select(columns).sort(columns[:2]).collect().rows()


@pytest.mark.parametrize("read", [by_delta_rs, by_duckdb, by_polars], ids=lambda it: it.__name__)
def test_readers_in_python_see_every_row(table: Store, s3: ObjectStore, read: Read) -> None:
    assert read(table, s3) == EXPECTED


@pytest.mark.kafka
@pytest.mark.spark
def test_sparks_delta_sees_every_row(table: Store, s3: ObjectStore, spark: "SparkSession") -> None:
    reader = spark.read.format("delta").options(**s3a.options(s3.url, s3.environment))
    frame = reader.load(table.uri.replace("s3://", "s3a://"))
    rows = frame.select("_partition", "_offset", "value").collect()
    assert sorted(tuple(row) for row in rows) == EXPECTED
    assert frame.where("_offset = 17").count() == 2
