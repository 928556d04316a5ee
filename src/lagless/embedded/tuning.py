"""What Spark is told: what mattered for short cycles on few cores."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

TUNING: Mapping[str, str] = {
    # A cycle's frame is small: more tasks cost more than they bring.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
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
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Else Python workers are whatever python3 the path has.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }
