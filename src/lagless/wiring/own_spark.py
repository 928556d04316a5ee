"""A Spark of a consumer's own: its JVM before anything else, its archive of classes afterwards."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

from lagless import ports
from lagless.adapters.spark import archives, guard, jars, java, jvm
from lagless.errors import LaglessError
from lagless.settings import Settings

LOOK = 1.0
"""Seconds between two looks at whether the consumer is ready."""
REMOTE = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
"""Variables with which pyspark uses a Connect server whatever the settings say. A process that has
opened a session there hands the first one on to its children."""
MAKE = "lagless.adapters.spark.archive"


def begin(settings: Settings) -> None:
    """Start the JVM, so that it starts while Python imports; what is missing is said later."""
    spark = settings.spark
    if not spark.is_remote:
        for name in REMOTE:
            os.environ.pop(name, None)
    if jvm.can_start(spark.master, spark.configuration):
        with contextlib.suppress(LaglessError):
            if jars.present("spark"):
                jvm.start(spark.master, spark.configuration, use_archive=spark.archive)


def keep_archive(settings: Settings, is_ready: Callable[[], bool], clock: ports.Clock) -> None:
    """Have the archive of classes made once the consumer is ready, for those that start later."""
    spark = settings.spark
    # A pod has no memory for a second JVM: its image has the archive.
    wanted = spark.archive and settings.provisioner.kind == "processes"
    if wanted and jvm.can_start(spark.master, spark.configuration):
        Thread(target=_make, args=(is_ready, clock), name="archive", daemon=True).start()


def _make(is_ready: Callable[[], bool], clock: ports.Clock) -> None:
    while not is_ready():
        clock.sleep(LOOK)
    with contextlib.suppress(LaglessError):
        if archives.find(java.find_for_spark(), jvm.classpath(jars.spark_jars())) is not None:
            return
    # It ends with this thread, which is to say with the consumer.
    subprocess.run(guard.guarded([sys.executable, "-m", MAKE]), stdin=subprocess.DEVNULL)
