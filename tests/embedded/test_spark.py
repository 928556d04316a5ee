"""Real records from the broker through the Connect server into a real Delta table."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lagless.embedded.broker import Broker
from lagless.embedded.spark import ConnectServer, session
from lagless.errors import WrongSettings

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_delta_table_holds_what_kafka_held(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for seq in range(300):
        producer.produce(name, json.dumps({"seq": seq}), partition=seq % 3)
    assert producer.flush(30) == 0

    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", name)
        .load()
        .select(
            F.from_json(F.col("value").cast("string"), "seq bigint").alias("r"),
            F.col("partition").alias("_partition"),
            F.col("offset").alias("_offset"),
            F.col("timestamp").alias("_timestamp"),
        )
        .select("r.*", "_partition", "_offset", "_timestamp")
    )
    table = tmp_path / "table"
    records.coalesce(1).write.format("delta").save(str(table))

    rows = spark.read.format("delta").load(str(table)).collect()
    assert sorted((row.seq, row._partition, row._offset) for row in rows) == [
        (seq, seq % 3, seq // 3) for seq in range(300)
    ]


def test_files_are_as_delta_needs_them(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).withColumn("at", F.current_timestamp()).write.parquet(str(tmp_path / "files"))

    names = {path.name for path in (tmp_path / "files").iterdir()}
    assert "_SUCCESS" not in names
    import pyarrow.parquet as pq

    file = next((tmp_path / "files").glob("*.parquet"))
    assert str(pq.read_schema(file).field("at").type) == "timestamp[us, tz=UTC]"


def test_a_session_says_which_setting_its_server_refuses(connect: ConnectServer) -> None:
    with pytest.raises(WrongSettings, match=r"spark\.driver\.memory"):
        session(connect.url, {"spark.driver.memory": "1g"})
