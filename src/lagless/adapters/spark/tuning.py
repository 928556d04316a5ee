"""Spark's configuration, tuned for short cycles on few cores."""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

TUNING: Mapping[str, str] = {
    # A cycle's frame is small: more tasks cost more than they gain.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # The newer of Spark's two ways to read Kafka: the older one makes each record a Java object and
    # a row again, a tenth of a cycle. Sources not in this list use the V2 reader.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # INT96, the default, would make the table need nanosecond timestamps.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The table's log says what is complete; a _SUCCESS file would only lie around.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The default of 50 costs 2 s each time a table is opened.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of every session; these can be changed while Spark runs."""

AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("bytes", 64 << 20), ("string", 64 << 20), ("collectionItems", 10_000_000))
)
"""A damaged Avro record may name any length, and Avro reserves that much before it reads on."""


def at_start(folder: Path, jars: Iterable[Path]) -> dict[str, str]:
    """Return what has to be set when Spark starts; its own files go under the folder."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # At the default level every call of a client leaves several lines.
        "spark.log.level": "WARN",
        "spark.driver.memory": "2g",
        "spark.driver.defaultJavaOptions": AVRO_LIMITS,
        "spark.executor.defaultJavaOptions": AVRO_LIMITS,
        # Each session compiles its own: with the default of 100, eight of them push each other out.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # One per partition that is read: with the default of 64, more push each other out, and each
        # cycle opens and closes all of them again. Each may hold some 2 MB that it fetched ahead.
        "spark.kafka.consumer.cache.capacity": "200",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # By default Python workers use whatever python3 is on the PATH.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }


def on_this_machine(jars: Iterable[Path]) -> dict[str, str]:
    """Return the settings of a server whose files and executors are on this machine alone."""
    found = list(jars)
    return {
        # It is needed before Spark looks at spark.jars.
        "spark.driver.extraClassPath": ":".join(map(str, _bare(found))),
        **without_chmod(found),
        # On few cores a collector that works beside the program takes from it.
        "spark.driver.defaultJavaOptions": f"-XX:+UseParallelGC {AVRO_LIMITS}",
    }


def without_chmod(jars: Iterable[Path]) -> dict[str, str]:
    """Return the file system to use for folders, if its jar is there.

    Hadoop's own starts the program chmod some ten times in a cycle: a fifth of its time.
    """
    name = "com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem"
    return {"spark.hadoop.fs.file.impl": name} if _bare(jars) else {}


def _bare(jars: Iterable[Path]) -> list[Path]:
    return [jar for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs")]


def alone(cores: int, own: Iterable[str] = ()) -> list[str]:
    """Return the options of a JVM that serves one consumer, on few cores and in little memory.

    A JVM does not start with two collectors, so one among the user's `own` options wins.
    """
    if any(re.fullmatch(r"-XX:\+Use\w+GC", option) for option in own):
        return [*PATIENT, *MODULES]
    # With one core a collector with threads of its own only waits for them.
    collector = "-XX:+UseSerialGC" if cores == 1 else "-XX:+UseParallelGC"
    return [collector, *PATIENT, *MODULES]


PATIENT = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times the JVM's own thresholds of its second compiler. It takes a third of the processor time
of a start, most for code that only a start runs; the first compiler's code does until then."""


MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens={name}=ALL-UNNAMED"
        for name in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""The options that spark-submit gives every JVM, in its order; a test compares them."""
