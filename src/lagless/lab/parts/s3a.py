"""S3A, through which Spark itself reaches a bucket: for readers and rivals, never for consumers."""

from collections.abc import Mapping
from pathlib import Path

from lagless.adapters.spark import jars


def all_jars() -> list[Path]:
    """Return the jars of a Spark that reads Kafka and Delta, in folders and in buckets."""
    return [*jars.spark_jars(), *sorted(jars.fetch("s3a").glob("*.jar"))]


def options(endpoint: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which Delta's reader and writer reach a store by its credentials.

    In a session's settings they begin with `spark.hadoop.` too.
    """
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": environment["AWS_REGION"],
        "fs.s3a.access.key": environment["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": environment["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https://")).lower(),
        # Of the ways to read, the one that needs no further library.
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.fast.upload.buffer": "bytebuffer",
    }
