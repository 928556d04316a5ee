"""The assignor's jar, built by Maven in a source tree when its sources are newer."""

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

from lagless.errors import GiveUp, MissingPart

HOME = Path(__file__).parents[4] / "assignor"
JAR = HOME / "target" / "lagless-assignor.jar"
TESTED = HOME / "target" / "tested"
"""Is as new as the sources whose tests have passed."""
PROPERTIES = {
    "group.consumer.assignors": "uniform,range,lagless.assignor.PlanAssignor",
    "lagless.plan.refresh.ms": "2000",
}
"""What a broker has to be told about it."""


@cache
def built(*, tested: bool = False) -> Path:
    """Return the jar; building it needs Maven and a JDK, and `tested` runs its own tests too."""
    if not (HOME / "pom.xml").exists():
        raise MissingPart(
            f"the assignor's sources are not at {HOME}: run lagless from a clone of its "
            "repository, or build assignor/ there and add the jar to your own broker's libs/"
        )
    wanted = TESTED if tested else JAR
    if _current(wanted):
        return JAR
    if not (shutil.which("mvn") and shutil.which("javac")):
        raise MissingPart(f"building {HOME} needs Maven and a JDK 17: install both")
    JAR.parent.mkdir(exist_ok=True)
    # Two processes build one jar: the second waits, and then finds it.
    with (JAR.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _current(wanted):
            done = subprocess.run(
                ["mvn", "-q", "-B", "package", f"-DskipTests={str(not tested).lower()}"],
                cwd=HOME,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if done.returncode != 0:
                raise GiveUp(f"building {HOME} failed: {done.stdout[-4000:]}")
            JAR.touch()  # Maven leaves a jar as it is if only its sources' times are newer
            if tested:
                TESTED.touch()
    return JAR


def _current(file: Path) -> bool:
    sources = [HOME / "pom.xml", *(HOME / "src").rglob("*.java")]
    newest = max(source.stat().st_mtime for source in sources)
    return JAR.exists() and file.exists() and file.stat().st_mtime >= newest
