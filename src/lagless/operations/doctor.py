"""Check a set-up: one finding per check, which also says how to repair what is wrong."""

import contextlib
import importlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from lagless import extras, packing
from lagless.errors import LaglessError
from lagless.settings import Bucket, Settings, units


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: fine or not, and one sentence that says how to repair it."""

    check: str
    fine: bool
    says: str


_OF_OWN_CONSUMERS = ("java", "jars", "spark", "lake", "tables", "transforms")
"""Checks of what only lagless's own consumers need."""
Results = Iterator[tuple[bool, str]]
"""Of a check: what makes a finding, but for the check's name."""


def examine(settings: Settings) -> Iterator[Finding]:
    """Run the checks side by side; a check that fails itself is a finding too."""
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        yield from chain.from_iterable(pool.map(lambda name: _findings(settings, name), CHECKS))


def _findings(settings: Settings, name: str) -> list[Finding]:
    if settings.spark.is_remote and name in ("java", "jars"):
        return [Finding(name, True, "not needed with Spark Connect")]
    if settings.of_others and name in _OF_OWN_CONSUMERS:
        return [Finding(name, True, 'not needed with members.kind = "group"')]
    findings: list[Finding] = []
    try:
        for fine, says in CHECKS[name](settings):
            findings.append(Finding(name, fine, says))
    except LaglessError as error:
        findings.append(Finding(name, False, str(error)))
    return findings


def _java(settings: Settings) -> Results:
    with extras.needed("spark"):
        from lagless.adapters.spark import java
    runtime = java.find_for_spark()
    yield True, f"Java {runtime.full_version} at {runtime.path}"


def _jars(settings: Settings) -> Results:
    from lagless.adapters.spark import jars

    parts, home = "Spark's Kafka connector and Delta are", jars.home("spark")
    if jars.present("spark"):
        yield True, f"{parts} in {home}"
    else:
        yield False, f"{parts} missing from {home}: run python -m lagless.adapters.spark.jars"


def _algorithm(settings: Settings) -> Results:
    packing.algorithm(settings.controller.algorithm)
    if settings.of_others and settings.members.rate is None:
        yield True, f"{settings.controller.algorithm}, what a member can read is learned"
        return
    capacity, max_rate = units.text(settings.capacity), units.text(settings.max_rate)
    yield True, f"{settings.controller.algorithm}, C = {capacity}/s of C̄ = {max_rate}/s"


def _lake(settings: Settings) -> Results:
    path, storage = settings.lake.path, settings.lake.storage
    if isinstance(path, Bucket):
        with extras.needed("spark"):
            from lagless.adapters.lake import bucket_proof
        yield from bucket_proof.prove(path, storage)
        return
    folder = path.absolute()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir():
        yield False, f"{nearest} is a file; lake.path must be a folder"
        return
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield False, f"{nearest} is not writable: give this user write permission"
        return
    free = shutil.disk_usage(nearest).free
    least = 10 * settings.consumer.max_batch_bytes
    trouble = "" if free >= least else f": at least {units.text(least)} should be free"
    yield not trouble, f"{folder} has {units.text(free)} free{trouble}"


def _spark(settings: Settings) -> Results:
    from lagless.adapters.spark import sessions

    url = settings.spark.url
    versions = sessions.versions()
    if not settings.spark.is_remote:
        heap = settings.spark.configuration["spark.driver.memory"]
        yield True, f"{versions}, {settings.spark.master} with a heap of {heap}"
        return
    host, _, port = url.removeprefix("sc://").split("/")[0].split(";")[0].partition(":")
    try:
        socket.create_connection((host, int(port or 15002)), timeout=5).close()
        yield True, f"{versions}, {url} answers"
    except (OSError, ValueError) as error:
        yield False, f"no Spark Connect server at {url} ({error}): start one"


def _transforms(settings: Settings) -> Results:
    for name, topic in settings.topic.items():
        if topic.transform is None:
            continue
        module, _, function = topic.transform.partition(":")
        try:
            exists = callable(getattr(importlib.import_module(module), function, None))
        except ImportError as error:
            yield False, f"topic {name}: {module} cannot be imported: {error}"
            continue
        trouble = "" if exists else f": {module} has no such function"
        yield exists, f"topic {name}: {topic.transform}{trouble}"


def _kafka(settings: Settings) -> Results:
    with extras.needed("kafka"):
        from lagless.adapters.kafka import rights
    for problem in rights.check(settings):
        yield False, problem
    yield True, f"all required rights checked at {settings.kafka.bootstrap}"


def _tables(settings: Settings) -> Results:
    """Several tables cost more than one, which the weights of partitions do not know."""
    names = {name for name in settings.topics if settings.of_interest(name)}
    with extras.needed("kafka"):
        from lagless.adapters.kafka.offsets import Offsets
    # What is wrong with Kafka is the finding of another check.
    with contextlib.suppress(LaglessError):
        offsets = Offsets(settings)
        try:
            names |= {p.topic for p in offsets.partitions(settings.of_interest)}
        finally:
            offsets.close()
    is_measured = bool(settings.consumer.model_fields_set & {"max_rate", "calibrated_rate"})
    count = len({settings.table_of(name) for name in names})
    yield True, cost_of_tables(count, settings.max_rate, is_measured)


def cost_of_tables(count: int, max_rate: float, is_measured: bool) -> str:
    """Return what so many tables mean for C̄, as a sentence."""
    if count <= 1:
        return "1 table" if count else "0 tables"
    says = (
        f"{count} tables: a cycle writes a file and a commit for each, so a consumer that reads "
        "all of them reads fewer bytes/s than from one (less than half with five)"
    )
    if is_measured:
        return f"{says}; C̄ = {units.text(max_rate)}/s should be measured with as many"
    return (
        f"{says}; C̄ = {units.text(max_rate)}/s is the default: set consumer.calibrated_rate to "
        "what `lagless calibrate` measures"
    )


def _registry(settings: Settings) -> Results:
    if settings.registry.url is not None:
        from lagless.adapters.schema_registry import SchemaRegistry

        SchemaRegistry(settings.registry).check()
        yield True, f"the schema registry at {settings.registry.url} answers"


CHECKS: dict[str, Callable[[Settings], Results]] = {
    "kafka": _kafka,
    "algorithm": _algorithm,
    "java": _java,
    "jars": _jars,
    "spark": _spark,
    "lake": _lake,
    "tables": _tables,
    "registry": _registry,
    "transforms": _transforms,
}
