"""The machine and the versions that something was measured with."""

import os
import platform
from importlib import metadata
from pathlib import Path

import lagless
from lagless.embedded import jars, java

LIBRARIES = ("pyspark", "deltalake", "confluent-kafka", "kafka-python", "numpy", "pyarrow")


def facts() -> dict[str, str]:
    """Name what matters of machine and software."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory / 2**30:.0f} GiB",
        "load average at the end": f"{os.getloadavg()[1]:.1f} over five minutes",
        "system": f"{platform.system()} {platform.release()}",
        "lagless": lagless.__version__,
        "Python": platform.python_version(),
        "Java": java.find().full_version,
        "Kafka": _kafka(),
    }
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed under this name"
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _kafka() -> str:
    names = [path.stem for path in jars.home("broker").glob("kafka_2*.jar")]
    return names[0].rpartition("-")[2] if names else "unknown"
