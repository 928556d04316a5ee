"""What is wrong with a set-up, and how to mend it: one finding per check."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lagless import extras, packing
from lagless.errors import LaglessError
from lagless.settings import Settings, units


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: fine or not, in one sentence that also says how to mend it."""

    check: str
    fine: bool
    says: str


Check = Callable[[Settings], Iterator[Finding]]


def examine(settings: Settings) -> Iterator[Finding]:
    """Run every check; one that cannot be made is a finding too."""
    for name, check in CHECKS.items():
        try:
            yield from check(settings)
        except LaglessError as error:
            yield Finding(name, False, str(error))


def _java(settings: Settings) -> Iterator[Finding]:
    if settings.spark.url.startswith("sc://"):
        yield Finding("java", True, "not needed: Spark runs behind a Connect address")
        return
    with extras.needed("spark"):
        from lagless.embedded import java
    found = java.find_for_spark()
    yield Finding("java", True, f"Java {found.full_version} at {found.path}")


def _jars(settings: Settings) -> Iterator[Finding]:
    if settings.spark.url.startswith("sc://"):
        yield Finding("jars", True, "not needed: Spark runs behind a Connect address")
        return
    from lagless.embedded import jars

    fine = jars.present("spark")
    yield Finding(
        "jars",
        fine,
        f"Spark's Kafka connector and Delta are in {jars.home('spark')}"
        if fine
        else f"Spark's Kafka connector and Delta are not in {jars.home('spark')}: "
        "run python -m lagless.embedded.jars",
    )


def _algorithm(settings: Settings) -> Iterator[Finding]:
    packing.algorithm(settings.controller.algorithm)
    yield Finding(
        "algorithm",
        True,
        f"{settings.controller.algorithm}, C = {units.text(settings.capacity)}/s of "
        f"C̄ = {units.text(settings.max_rate)}/s",
    )


def _lake(settings: Settings) -> Iterator[Finding]:
    folder = settings.lake.path.absolute()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir():
        yield Finding("lake", False, f"{nearest} is a file: lake.path should be a folder")
        return
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding("lake", False, f"{nearest} cannot be written to: give this user the right")
        return
    free = shutil.disk_usage(nearest).free
    least = 10 * settings.consumer.max_batch_bytes
    yield Finding(
        "lake",
        free >= least,
        f"{folder} has {units.text(free)} free"
        + ("" if free >= least else f": at least {units.text(least)} should be"),
    )


def _spark(settings: Settings) -> Iterator[Finding]:
    with extras.needed("spark"):
        import deltalake
        import pyspark
    versions = f"pyspark {pyspark.__version__}, deltalake {deltalake.__version__}"
    if not settings.spark.url.startswith("sc://"):
        yield Finding("spark", True, f"{versions}, {settings.spark.url}")
        return
    address = settings.spark.url.removeprefix("sc://").split("/")[0].split(";")[0]
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port or 15002)), timeout=5).close()
        yield Finding("spark", True, f"{versions}, {settings.spark.url} answers")
    except (OSError, ValueError) as error:
        yield Finding(
            "spark",
            False,
            f"nothing answers at {settings.spark.url} ({error}): start a Connect server there",
        )


def _transforms(settings: Settings) -> Iterator[Finding]:
    import importlib

    for name, topic in settings.topic.items():
        if topic.transform is None:
            continue
        module, _, function = topic.transform.partition(":")
        try:
            found = callable(getattr(importlib.import_module(module), function, None))
        except ImportError as error:
            yield Finding("transforms", False, f"topic {name}: {module} does not import: {error}")
            continue
        yield Finding(
            "transforms",
            found,
            f"topic {name}: {topic.transform}"
            + ("" if found else f": {module} has no such function"),
        )


def _kafka(settings: Settings) -> Iterator[Finding]:
    with extras.needed("kafka"):
        from lagless.adapters.kafka import rights
    for problem in rights.check(settings):
        yield Finding("kafka", False, problem)
    yield Finding("kafka", True, f"{settings.kafka.bootstrap} was asked for everything needed")


CHECKS: dict[str, Check] = {
    "algorithm": _algorithm,
    "java": _java,
    "jars": _jars,
    "spark": _spark,
    "lake": _lake,
    "transforms": _transforms,
    "kafka": _kafka,
}
