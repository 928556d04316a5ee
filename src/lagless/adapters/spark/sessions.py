"""Sessions of Spark, however Spark runs: in this process, on a cluster, or behind Connect."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from lagless import extras
from lagless.adapters.spark import jars as parts
from lagless.adapters.spark import java, jvm, tuning
from lagless.errors import WrongSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
"""The address of whatever runs on this machine alone."""


def session(
    url: str, conf: Mapping[str, str] | None = None, jars: Iterable[Path] | None = None
) -> "SparkSession":
    """Return a tuned session on `local[n]`, a cluster's master URL, or a Connect address.

    `conf` wins over the tuning. Where this process starts Spark itself, `jars` come with it
    (by default Kafka's connector and Delta); a Connect server was started with its own.
    """
    own = dict(conf or {})
    with extras.needed("spark"):
        spark = _open(url, own, jars)
    for key, value in tuning.TUNING.items():
        if key not in own:
            spark.conf.set(key, value)
    return spark


def versions() -> str:
    """Return the versions of the libraries that read and write the lake."""
    with extras.needed("spark"):
        import deltalake
        import pyspark
    return f"pyspark {pyspark.__version__}, deltalake {deltalake.__version__}"


def is_here(url: str) -> bool:
    """Return whether all of Spark runs on this machine; pods of a local API server may not."""
    return url.startswith(("local", f"spark://{HOST}"))


def _open(url: str, conf: Mapping[str, str], jars: Iterable[Path] | None) -> "SparkSession":
    """Open the session: the one place where the ways to run Spark differ."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if url.startswith("sc://"):
        spark = SparkSession.builder.remote(url).create()
        for key, value in conf.items():
            try:
                spark.conf.set(key, value)
            except PySparkException as error:
                raise WrongSettings(
                    f"the Spark server at {url} does not allow sessions to set {key}: "
                    "set it when you start that server"
                ) from error
        return spark
    parts.spark_home()
    java.find_for_spark()
    folder = Path(tempfile.mkdtemp(prefix="lagless-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = list(parts.spark_jars() if jars is None else jars)
    start = tuning.at_start(folder, own)
    if is_here(url):
        start |= {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
        # Workers of transforms are otherwise whatever python3 is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with ExitStack() as ways:
        if jvm.can_start(url, conf):
            jvm.start(url, conf, own)
            ways.enter_context(jvm.joined())
            # The jars are on the class path already, and no other process needs them.
            start |= {"spark.app.name": "lagless", "spark.jars": "", **tuning.without_chmod(own)}
        builder = SparkSession.builder.master(url)
        for key, value in {**start, **conf}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
