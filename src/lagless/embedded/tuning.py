"""What Spark is told: what mattered for short cycles on few cores."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

TUNING: Mapping[str, str] = {
    # A cycle's frame is small: more tasks cost more than they bring.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # The newer of Spark's two ways to read Kafka: the older one makes each record a Java object and
    # a row again, a tenth of a cycle. Not to be listed here is to be read in the newer way.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # INT96, the default, would make the table need nanosecond timestamps.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The table's log says what is complete; a _SUCCESS file would only lie about.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The default of 50 costs 2 s at each look at a table.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
"""What every session gets; these can be set while Spark runs."""


def at_start(folder: Path, jars: Iterable[Path]) -> dict[str, str]:
    """Return what has to be said when Spark starts; its own files go under the folder."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # At the default level every call of a client leaves several lines.
        "spark.log.level": "WARN",
        "spark.driver.memory": "2g",
        # Each session compiles its own: with the default of 100, eight of them push each other out.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # One per partition that is read: with the default of 64, more push each other out, and each
        # cycle makes and closes all of them anew. Each may hold some 2 MB that it fetched ahead.
        "spark.kafka.consumer.cache.capacity": "200",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Else Python workers are whatever python3 the path has.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }


def on_this_machine(jars: Iterable[Path]) -> dict[str, str]:
    """Return what a server is told whose files and executors are on this machine alone."""
    files = [str(jar) for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs")]
    return {
        # It is needed before Spark looks at spark.jars.
        "spark.driver.extraClassPath": ":".join(files),
        # Hadoop's own starts the program chmod some ten times in a cycle: a fifth of its time.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem",
        # On few cores a collector that works beside the program takes from it.
        "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
    }
