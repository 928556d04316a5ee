"""Find a Java that Kafka and Spark run on."""

import os
import re
import shutil
import subprocess
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
    modules: frozenset[str] | None = None
    """Its modules, if they are known without starting it."""


def find() -> Java:
    """Return the Java of JAVA_HOME, or else of the path, that is new enough."""
    return _find(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


def find_for_spark() -> Java:
    """Return a Java that also has the module that Spark needs."""
    runtime = find()
    if VECTOR not in (runtime.modules or _modules(runtime.path)):
        raise MissingPart(
            f"Spark needs Java's module {VECTOR}, which {runtime.path} lacks: "
            "install a full Java 17 or newer (on Debian or Ubuntu: openjdk-17-jre-headless)"
        )
    return runtime


@cache
def _find(java_home: str, path: str) -> Java:
    seen: list[Java] = []
    candidates = (java_home and f"{java_home}/bin/java", shutil.which("java", path=path))
    for java in filter(None, map(_ask, map(Path, filter(None, candidates)))):
        if java.version >= OLDEST:
            return java
        seen.append(java)
    what = (
        f"the installed Java is too old, {seen[0].full_version} at {seen[0].path}"
        if seen
        else "there is no Java in JAVA_HOME or on the PATH"
    )
    raise MissingPart(
        f"Java {OLDEST} or newer is required, but {what}: "
        "install one (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless)"
    )


def _ask(command: Path) -> Java | None:
    """Read the runtime's `release` file, or start the runtime where it has none."""
    return _read(command) or _run(command)


def _read(command: Path) -> Java | None:
    # Starting Java twice to ask it takes half a second of a consumer's start.
    home = command.resolve().parent.parent
    try:
        known = dict(re.findall(r'^(\w+)="(.*)"$', (home / "release").read_text(), re.MULTILINE))
        full_version, modules = known["JAVA_VERSION"], known["MODULES"]
        version = int(full_version.removeprefix("1.").split(".")[0])
    except (OSError, KeyError, ValueError):
        return None
    return Java(command, version, full_version, home, frozenset(modules.split()))


def _run(command: Path) -> Java | None:
    try:
        # 1.8 and older print the same properties, so that a too old Java can be named.
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^\s+(java\.[\w.]+) = (.*)$", answer.stderr, re.MULTILINE))
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
    answer = subprocess.run([command, "--list-modules"], capture_output=True, text=True, timeout=60)
    return frozenset(line.split("@")[0] for line in answer.stdout.splitlines())
