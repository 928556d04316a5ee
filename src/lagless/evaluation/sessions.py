"""The Spark session of an evaluation: plain, without the jars that a consumer needs."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lagless import packing
from lagless.embedded import spark as embedded
from lagless.errors import WrongInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = {
    "spark.sql.extensions": "",
    "spark.sql.catalog.spark_catalog": "builtin",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    # A run is over before the second compiler pays: with it the JVM takes twice the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def opened(
    master: str, algorithms: Sequence[str] = (), conf: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """Open a session on any master and stop it at the end; `conf` is what else Spark is told.

    While Spark starts, the algorithms are compiled here, so that its workers find them on disk.
    """
    compiling = threading.Thread(target=_compile, args=(tuple(algorithms),), daemon=True)
    compiling.start()
    if master.startswith("sc://"):
        session = embedded.session(master, conf)
    else:
        if embedded.is_here(master):
            # Else Spark's workers are whatever python3 the path has.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = embedded.session(master, {**PLAIN, **(conf or {})}, jars=())
    try:
        compiling.join()
        yield session
    finally:
        session.stop()


def settings(words: Iterable[str]) -> dict[str, str]:
    """Read what Spark is told, "spark.executor.cores=2" say."""
    found = {}
    for word in words:
        key, given, value = word.partition("=")
        if not given or not key.startswith("spark."):
            raise WrongInput(f"--conf takes spark.KEY=VALUE, not {word!r}")
        found[key] = value
    return found


def _compile(algorithms: Sequence[str]) -> None:
    speeds, previous = np.full(2, 0.5), np.ones(2, dtype=np.int64)
    for name in algorithms:
        packing.packer(name)(speeds, 1.0, previous)
