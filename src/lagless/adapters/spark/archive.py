"""Make the archive of classes: `python -m lagless.adapters.spark.archive`.

A JVM runs what a consumer's cycle runs and, as it ends, writes down the classes that it has loaded.
The image's build calls this; a consumer that is a process does it in the background after its first
start.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from zipfile import ZipFile

from lagless import extras
from lagless.adapters.spark import archives, jars, java, jvm, sessions
from lagless.errors import LaglessError, MissingPart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URL, HEAP = "local[1]", "512m"
KAFKA = (
    "org/apache/kafka/clients/consumer",
    "org/apache/kafka/common",
    "org/apache/spark/sql/kafka",
)
"""Packages whose classes are loaded by name, since no broker is at hand."""


def make() -> tuple[Path, bool]:
    """Return the archive and whether it was made now; in a process that has no JVM yet."""
    runtime = java.find_for_spark()
    return archives.make(runtime, jvm.classpath(jars.spark_jars()), _train)


def _train(target: Path) -> None:
    conf = {jvm.HEAP: HEAP}
    # What the second compiler makes would come too late for a JVM of some seconds.
    options = [f"-XX:ArchiveClassesAtExit={target}", "-XX:TieredStopAtLevel=1"]
    jvm.start(URL, conf, use_archive=False, options=options)
    spark = sessions.session(URL, conf)
    with TemporaryDirectory() as folder:
        _cycles(spark, Path(folder))
    _load(spark, jars.spark_jars())
    spark.stop()
    status = jvm.end()
    if not target.is_file():
        raise MissingPart(f"Java wrote no archive of its classes, and ended with status {status}")


def _cycles(spark: "SparkSession", folder: Path) -> None:
    """Parse and write as a cycle does, in Parquet."""
    with extras.needed("spark"):
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

    source = spark.range(1000).select(
        F.encode(F.to_json(F.struct("id", F.lit("x").alias("pad"))), "UTF-8").alias("value"),
        F.col("id").alias("_offset"),
        F.current_timestamp().alias("_timestamp"),
    )
    record = F.from_json(F.col("value").cast("string"), "id BIGINT, pad STRING, _bad STRING")
    for number in range(3):
        observed = Observation()
        parsed = source.withColumn("record", record).observe(
            observed,
            F.count(F.lit(1)).alias("records"),
            F.sum(F.octet_length("value")).alias("size"),
        )
        rows = parsed.where(F.col("record").isNotNull()).select("record.*", "_offset", "_timestamp")
        rows.coalesce(1).write.parquet(str(folder / str(number)))
        assert observed.get["records"] == 1000
    spark.read.parquet(str(folder / "0")).groupBy("pad").count().collect()


def _load(spark: "SparkSession", parts: list[Path]) -> None:
    """Load the classes of Kafka's client and of Spark's connector."""
    virtual = spark.sparkContext._jvm
    assert virtual is not None
    loader = virtual.java.lang.ClassLoader.getSystemClassLoader()
    for part in parts:
        with ZipFile(part) as jar:
            names = [name for name in jar.namelist() if name.endswith(".class")]
        for name in names:
            if name.startswith(KAFKA):
                # Some need libraries that are not there, for compression or for OAuth.
                with suppress(Exception):
                    virtual.java.lang.Class.forName(
                        name.removesuffix(".class").replace("/", "."), False, loader
                    )


def main() -> None:
    """Make the archive, behind everything else, and say where it is."""
    os.nice(10)
    try:
        path, is_new = make()
    except (LaglessError, OSError) as error:
        sys.exit(f"lagless: no archive of Java classes: {error}")
    size = path.stat().st_size / 1e6
    print(f"{path}: {size:.0f} MB, {'created' if is_new else 'exists already'}", file=sys.stderr)


if __name__ == "__main__":
    main()
