"""The JVM of a consumer's own Spark, started while Python is still importing.

pyspark starts a JVM once it is imported itself, through shell scripts and another JVM that works
out the command. Here the command is known, so the JVM is started first, and pyspark is told where
it listens, as a notebook's launcher would tell it.

1. The JVM ends with this process: it reads from a pipe that only this process holds.
2. Its process group is its own: a signal for the consumer must not end Spark in the middle of a
   cycle.
3. A setting that only spark-submit understands leaves the start to spark-submit.
4. A JVM that ended is not started again: the consumer ends too, and whoever started it decides.
"""

import atexit
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lagless.adapters.spark import archives, jars, java, tuning
from lagless.errors import GiveUp

HEAP = "spark.driver.memory"
OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
MAIN = "org.apache.spark.api.python.PythonGatewayServer"
NO_PYTHON = "no-python-data-sources"
"""Is not a command. Spark starts a Python worker that looks for data sources written in Python when
the driver's Python is one; workers of transforms do not depend on it."""
ONLY_SUBMIT = ("spark.submit.", "spark.jars", "spark.driver.extra", "spark.files", "spark.archives")
DEADLINE = 120.0
"""Seconds for the JVM to say where it listens."""
LOGGING = ("-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds*=off:stderr")
"""The JVM's own warnings go to stderr: stdout is for results."""
AS_MADE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Map the archive to the address for which it was made. By default recent Javas map it elsewhere,
so that nobody can guess where it lies, and rewrite each pointer in it: half a second, and pages of
memory that are no longer the file's."""


@dataclass(frozen=True, slots=True)
class Jvm:
    """A JVM that was started."""

    process: "subprocess.Popen[bytes]"
    address: Path
    """The file in which it writes its port and secret."""
    heap: str


_lock = threading.Lock()
_started: Jvm | None = None


def can_start(url: str, conf: Mapping[str, str]) -> bool:
    """Return whether a JVM with these settings can be started without spark-submit."""
    configured = "SPARK_CONF_DIR" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ
    only_submit = any(key.startswith(ONLY_SUBMIT) and key not in OPTIONS for key in conf)
    heap = re.fullmatch(r"[0-9]+[kmgKMG]", conf.get(HEAP, "2g"))
    return url.startswith("local") and not configured and not only_submit and heap is not None


def start(
    url: str,
    conf: Mapping[str, str],
    parts: Iterable[Path] | None = None,
    use_archive: bool = True,
    options: Sequence[str] = (),
) -> None:
    """Start the JVM if none was started, and return at once."""
    global _started  # noqa: PLW0603  (a process can have one JVM of Spark, as pyspark has it)
    with _lock:
        if _started is not None:
            return
        runtime = java.find_for_spark()
        heap = conf.get(HEAP, "2g").lower()
        paths = classpath(jars.spark_jars() if parts is None else parts)
        archive = archives.find(runtime, paths) if use_archive else None
        own = [option for key in OPTIONS for option in shlex.split(conf.get(key, ""))]
        command = [
            str(runtime.path),
            *("-cp", ":".join(map(str, paths))),
            f"-Xmx{heap}",
            *tuning.alone(cores(url), own),
            *LOGGING,
            *([*AS_MADE, f"-XX:SharedArchiveFile={archive}"] if archive else []),
            *options,
            *own,
            MAIN,
        ]
        folder = Path(tempfile.mkdtemp(prefix="lagless-jvm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        address = folder / "address"
        environment = {
            # Each thread would get an arena of its own, which keeps what it once held.
            "MALLOC_ARENA_MAX": "2",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **os.environ,
            "PYSPARK_DRIVER_PYTHON": NO_PYTHON,
            "SPARK_HOME": str(jars.spark_home()),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address),
        }
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, process_group=0)
        _started = Jvm(process, address, heap)


@contextmanager
def joined() -> Iterator[None]:
    """Let pyspark use the JVM that was started; GiveUp if that has ended."""
    assert _started is not None
    port, secret = _address(_started)
    told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


def end() -> int:
    """Let the JVM end as it would with this process, and return its status."""
    assert _started is not None
    _, _ = _started.process.communicate()
    return _started.process.returncode


def cores(url: str) -> int:
    """Return how many tasks run at once on `local[n]`; all of this machine's cores for `*`."""
    number = re.match(r"local\[(\d+)", url)
    if number:
        return int(number[1])
    return 1 if url == "local" else os.cpu_count() or 1


def classpath(parts: Iterable[Path]) -> list[Path]:
    """Return Spark's jars and the parts in an order that is the same wherever they lie.

    An archive of classes holds for one order only, and a folder lists its files in any.
    """
    spark = sorted((jars.spark_home() / "jars").glob("*.jar"))
    first = [jar for jar in spark if jar.name.startswith("slf4j-api")]

    return [*first, *(jar for jar in spark if jar not in first), *sorted(parts)]


def _address(jvm: Jvm) -> tuple[int, str]:
    until = time.monotonic() + DEADLINE
    while jvm.process.poll() is None:
        if jvm.address.exists():
            told = jvm.address.read_bytes()
            port, length = struct.unpack_from(">ii", told)
            return port, told[8 : 8 + length].decode()
        if time.monotonic() > until:
            raise GiveUp(f"the JVM did not start within {DEADLINE:g} s")
        time.sleep(0.01)
    raise GiveUp(_why(jvm))


def _why(jvm: Jvm) -> str:
    status = jvm.process.returncode
    if status == -9:
        return (
            "the JVM was killed, as the kernel does when a machine or container is out of memory: "
            f"spark.memory is {jvm.heap}, and the JVM and Python need some 700 MB besides"
        )
    return f"the JVM ended with status {status}; its output says why"
