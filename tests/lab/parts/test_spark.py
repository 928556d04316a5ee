"""Real records from the broker through the Connect server into a real Delta table."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lagless.adapters.spark.sessions import session
from lagless.errors import WrongSettings
from lagless.lab.parts.broker import Broker
from lagless.lab.parts.cluster import Cluster
from lagless.lab.parts.connect import ConnectServer

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


def test_kafka_is_read_without_an_object_per_record(
    spark: SparkSession,
    broker: Broker,
    topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic()}
    spark.read.format("kafka").options(**options).load().explain()
    assert "BatchScan" in capsys.readouterr().out  # the older source is a "Scan KafkaRelation"


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


ANYWHERE = """
import sys
from lagless.adapters.spark import sessions
session = sessions.session(sys.argv[1], {"spark.sql.shuffle.partitions": "3"})
session.range(100).repartition(2).write.format("delta").save(sys.argv[2])
print(session.read.format("delta").load(sys.argv[2]).count())
print(session.conf.get("spark.sql.shuffle.partitions"))
print(session.conf.get("spark.sql.adaptive.enabled"))
session.stop()
"""


@pytest.mark.parametrize("where", ["local[1]", "cluster", "connect"])
def test_a_session_is_the_same_wherever_spark_runs(
    where: str, connect: ConnectServer, tmp_path: Path
) -> None:
    with ExitStack() as running:
        url = where
        if where == "cluster":
            url = running.enter_context(Cluster(workers=1)).url
        elif where == "connect":
            url = connect.url
        cwd = tmp_path / "cwd"
        cwd.mkdir()
        # A process of its own: one that has met Connect cannot start Spark itself.
        env = {name: it for name, it in os.environ.items() if not name.startswith("SPARK_")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", ANYWHERE, url, str(tmp_path / "table")],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=env,
            timeout=250,
        )
    assert done.stdout.split() == ["100", "3", "false"], done.stderr
    assert list(cwd.iterdir()) == []


def test_the_server_leaves_nothing_in_the_working_folder(connect: ConnectServer) -> None:
    assert connect.log.exists()
    assert str(connect.folder) in " ".join(psutil.Process(connect.pid).cmdline())
    assert not Path("spark-warehouse").exists()
    assert not Path("derby.log").exists()


def test_the_servers_temporary_files_are_in_its_folder(connect: ConnectServer) -> None:
    assert list((connect.folder / "tmp").glob("artifacts-*"))
