"""Sessions of Spark, however Spark runs: in this process, on a cluster, or behind Connect."""

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lagless import extras
from lagless.embedded import distribution, java, ports, tuning
from lagless.embedded import jars as parts
from lagless.errors import WrongSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(
    url: str,
    conf: Mapping[str, str] | None = None,
    jars: Iterable[Path] | None = None,
) -> "SparkSession":
    """Return a tuned session on `local[n]`, a cluster's master URL, or a Connect address.

    `conf` wins over the tuning. Where this process starts Spark itself, the given jars come with
    it (by default Kafka's connector and Delta); a Connect server was started with its own.
    """
    given = dict(conf or {})
    with extras.needed("spark"):
        spark = _open(url, given, jars)
    for key, value in tuning.TUNING.items():
        if key not in given:
            spark.conf.set(key, value)
    return spark


def is_here(url: str) -> bool:
    """Say whether all of a Spark is on this machine; an API server that is says nothing of pods."""
    return url.startswith(("local", f"spark://{ports.HOST}"))


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
                    f"the Spark server at {url} does not let a session set {key}: "
                    "set it where that server is started"
                ) from error
        return spark
    distribution.home()
    java.find_for_spark()
    folder = Path(tempfile.mkdtemp(prefix="lagless-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    start = tuning.at_start(folder, parts.spark_jars() if jars is None else jars)
    if is_here(url):
        start |= {"spark.driver.host": ports.HOST, "spark.driver.bindAddress": ports.HOST}
    builder = SparkSession.builder.master(url)
    for key, value in {**start, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
