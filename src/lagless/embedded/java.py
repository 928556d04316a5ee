"""Find a Java that Kafka and Spark run on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lagless.errors import MissingPart

OLDEST = 17
VECTOR = "jdk.incubator.vector"
"""The module without which Spark does not start; cut-down Java runtimes lack it."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: the path of its command, and its version as `17` and as `17.0.15`."""

    path: Path
    version: int
    full_version: str
    home: Path


def find() -> Java:
    """Return the Java of JAVA_HOME, or else of the path, that is new enough."""
    return _find(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


def find_for_spark() -> Java:
    """Return a Java that also has the module that Spark needs."""
    found = find()
    if VECTOR not in _modules(found.path):
        raise MissingPart(
            f"Spark needs Java's module {VECTOR}, which {found.path} lacks: "
            "install a full Java 17 or newer (on Debian or Ubuntu: openjdk-17-jre-headless)"
        )
    return found


@cache
def _find(java_home: str, path: str) -> Java:
    seen: list[Java] = []
    for command in _candidates(java_home, path):
        java = _ask(command)
        if java is None:
            continue
        if java.version >= OLDEST:
            return java
        seen.append(java)
    what = (
        f"the Java found is too old, {seen[0].full_version} at {seen[0].path}"
        if seen
        else "no Java was found in JAVA_HOME or on the path"
    )
    raise MissingPart(
        f"Java {OLDEST} or newer is needed, and {what}: "
        "install one (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless)"
    )


def _candidates(java_home: str, path: str) -> Iterator[Path]:
    if java_home:
        yield Path(java_home, "bin", "java")
    on_path = shutil.which("java", path=path)
    if on_path:
        yield Path(on_path)


def _ask(command: Path) -> Java | None:
    try:
        # 1.8 and older print the same properties, so that a too old Java can be named.
        told = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^\s+(java\.[\w.]+) = (.*)$", told.stderr, re.MULTILINE))
    try:
        specification = properties["java.specification.version"].removeprefix("1.")
        return Java(
            command,
            int(specification.split(".")[0]),
            properties["java.version"],
            Path(properties["java.home"]),
        )
    except (KeyError, ValueError):
        return None


@cache
def _modules(command: Path) -> frozenset[str]:
    told = subprocess.run([command, "--list-modules"], capture_output=True, text=True, timeout=60)
    return frozenset(line.split("@")[0] for line in told.stdout.splitlines())
