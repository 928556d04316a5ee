"""The Spark that the Python package pyspark ships: where it is and how it is run."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from lagless.embedded import java
from lagless.errors import MissingPart


def home() -> Path:
    """Return the folder with Spark's own jars and scripts."""
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "jars").is_dir():
        raise MissingPart(
            "this needs the Python package pyspark with its jars (pyspark-client has none): "
            "pip install 'lagless[spark]'"
        )
    return folder


def command(main: str, *arguments: str) -> list[str]:
    """Return the command that runs a main class of Spark's; the shell in it becomes Java."""
    return ["/bin/bash", str(home() / "bin" / "spark-class"), main, *arguments]


def environment() -> dict[str, str]:
    """Return this process's environment, with Spark's home, Java's, and one address.

    Spark's Python workers are this interpreter unless PYSPARK_PYTHON names another: they have to
    find the same packages, and spark.pyspark.python is heard by spark-submit alone.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return (
        {"PYSPARK_PYTHON": sys.executable}
        | kept
        | {
            "SPARK_HOME": str(home()),
            "JAVA_HOME": str(java.find_for_spark().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
        }
    )
