"""What other readers see: the same rows, and statistics at whose bounds nothing is skipped."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lagless.adapters.lake import data_files, schemas, store
from lagless.ports import Span
from tests.lake.files import P, claimed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

MOMENT = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)


def timed(path: Path, moments: list[datetime]) -> data_files.File:
    rows = [
        {"_partition": 0, "_offset": number, "_timestamp": moment}
        for number, moment in enumerate(moments)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schemas.ALWAYS), path)
    return data_files.measure(store.at(path.parent), path.name)


def test_a_maximum_is_rounded_up_and_a_minimum_down(tmp_path: Path) -> None:
    file = timed(tmp_path / "a.parquet", [MOMENT, MOMENT + timedelta(microseconds=2)])
    said = json.loads(file.statistics)
    assert said["numRecords"] == 2
    assert said["minValues"]["_timestamp"] == "2026-01-01T12:00:00.123Z"
    assert said["maxValues"]["_timestamp"] == "2026-01-01T12:00:00.124Z"
    assert (said["minValues"]["_offset"], said["maxValues"]["_offset"]) == (0, 1)
    assert said["nullCount"] == {"_partition": 0, "_offset": 0, "_timestamp": 0}


def test_a_column_of_nulls_has_no_range(tmp_path: Path) -> None:
    rows = [{"_partition": None, "_offset": 3, "_timestamp": MOMENT}]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schemas.ALWAYS), path)
    said = json.loads(data_files.measure(store.at(tmp_path), path.name).statistics)
    assert "_partition" not in said["minValues"]
    assert said["nullCount"]["_partition"] == 1


def lake(path: Path) -> list[datetime]:
    """Make a table of three files whose timestamps differ by microseconds at the borders."""
    one = claimed(path)
    moments = [MOMENT + timedelta(microseconds=number) for number in range(9)]
    for number in range(3):
        offset = one.look([P[0]])[P[0]].offset
        file = timed(path / f"{number}.parquet", moments[number * 3 : number * 3 + 3])
        assert one.commit([file], {P[0]: Span(offset, offset + 3)}, {P[0]: 1})
    return moments


def test_pyarrow_finds_rows_at_the_bounds(tmp_path: Path) -> None:
    moments = lake(tmp_path)
    dataset = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    for moment in moments:
        assert dataset.to_table(filter=ds.field("_timestamp") == moment).num_rows == 1
        wanted = sum(other >= moment for other in moments)
        assert dataset.to_table(filter=ds.field("_timestamp") >= moment).num_rows == wanted


def test_duckdb_finds_rows_at_the_bounds(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    moments = lake(tmp_path)
    records = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("records", records)
    for moment in moments:
        found = connection.execute(
            "select count(*) from records where _timestamp = ?", [moment]
        ).fetchone()
        assert found == (1,)
    connection.close()


@pytest.mark.kafka
@pytest.mark.spark
def test_sparks_delta_and_pyarrow_read_the_same_rows(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], spark: "SparkSession"
) -> None:
    name = topic(partitions=2)
    one = bench(name, format="json", schema="a BIGINT, b STRING, d DECIMAL(9, 2), t TIMESTAMP")
    for number in range(3):
        record = {"a": number, "b": f"ü{number}", "d": 1.25, "t": "2026-01-01T00:00:00.123456Z"}
        send(name, [json.dumps(record), None], number % 2)
        one.drain()
    names = ["_partition", "_offset", "a", "b", "d", "t"]
    frame = spark.read.format("delta").load(str(one.path))
    read = sorted(
        (tuple(row[n] for n in names[:5]) for row in frame.select(names).collect()),
        key=lambda row: row[:2],
    )
    assert read == [tuple(row[n] for n in names[:5]) for row in one.rows()]
    assert len(read) == 6
    # Columns without statistics: nobody may skip a file because of them.
    dataset = DeltaTable(str(one.path)).to_pyarrow_dataset()
    for column, value in (("a", 1), ("b", "ü1")):
        assert frame.where(frame[column] == value).count() == 1
        assert dataset.to_table(filter=ds.field(column) == value).num_rows == 1
    stamps = [row["_timestamp"] for row in one.rows()]
    for moment in (min(stamps), max(stamps)):
        text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
        condition = f"_timestamp = timestamp '{text}'"
        assert frame.where(condition).count() == sum(stamp == moment for stamp in stamps)
    assert frame.where("_offset >= 1 and _partition = 0").count() == sum(
        row["_partition"] == 0 and row["_offset"] >= 1 for row in one.rows()
    )
