"""Fetch the JVM parts with Ivy, check them, and keep them in the user's cache folder.

1. A folder of jars appears under its name only when every jar in it has the SHA-256 of the list.
2. Whoever fetches holds a lock: the others wait, and then find the jars there.
3. What a fetcher that was killed left behind is removed by the next one.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from lagless.adapters.spark import guard, java
from lagless.errors import MissingPart

Parts: TypeAlias = Literal["broker", "spark", "s3a", "registry"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of jars that are there, and the total."""

WHOSE: Mapping[Parts, str] = {
    "broker": "the broker's",
    "spark": "Spark's",
    "s3a": "S3A's",
    "registry": "the schema registry's",
}
USUAL: tuple[Parts, ...] = ("broker", "spark")
"""The parts that everybody needs; the others are for tests and benchmarks alone."""
ALONE = {"registry"}
"""What brings everything itself; its poms may name others that are not to be had."""


def fetch(parts: Parts, progress: Progress | None = None) -> Path:
    """Return the folder with the verified jars of some parts, fetching them if needed.

    The sums are checked on every call (a fraction of a second), so that a damaged jar is
    fetched again.
    """
    wanted = sums(parts)
    folder = home(parts)
    if _complete(folder, wanted):
        return folder
    with alone(folder):
        if _complete(folder, wanted):
            return folder
        clear(folder)
        with tempfile.TemporaryDirectory(
            prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
        ) as scratch:
            jars = _retrieve(parts, Path(scratch), len(wanted), progress or (lambda *_: None))
            wrong = [name for name, it in wanted.items() if _sum(jars / name) != it]
            if wrong:
                raise MissingPart(
                    f"some of {WHOSE[parts]} jars failed verification ({', '.join(wrong)} "
                    "missing or different): try again, and check proxies between this "
                    "machine and the package registry"
                )
            jars.rename(folder)
    return folder


def classpath(parts: Parts) -> str:
    """Return the jars of the parts as Java's class path."""
    return str(fetch(parts) / "*")


def spark_jars() -> list[Path]:
    """Return the jars that Spark needs beyond its own: Kafka's connector and Delta."""
    return sorted(fetch("spark").glob("*.jar"))


def present(parts: Parts) -> bool:
    """Return whether the jars are there and right, fetching nothing."""
    return _complete(home(parts), sums(parts))


def cache() -> Path:
    """Return lagless's folder in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lagless"


def home(parts: Parts) -> Path:
    """Return the folder of the parts; another list of jars is another folder."""
    listed = "".join(f"{name} {digest}\n" for name, digest in sums(parts).items())
    version = hashlib.sha256(listed.encode()).hexdigest()[:12]
    return cache() / "jars" / f"{parts}-{version}"


def sums(parts: Parts) -> dict[str, str]:
    """Return the SHA-256 of each jar of the parts, by file name."""
    listed = resources.files("lagless.adapters.spark").joinpath("jars.sha256").read_text()
    found = re.findall(rf"^(\w+) +{parts}/(.+)$", listed, re.MULTILINE)
    return {jar: digest for digest, jar in found}


def _complete(folder: Path, wanted: Mapping[str, str]) -> bool:
    return folder.is_dir() and all(_sum(folder / name) == it for name, it in wanted.items())


def _sum(jar: Path) -> str | None:
    try:
        with jar.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder or file; the kernel releases it when the holder dies."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clear(folder: Path) -> None:
    """Remove a damaged folder, and what was left by others who did not finish making it."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    if folder.exists():
        # Renamed first: a half-removed folder must not carry the name.
        rotten = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        folder.rename(rotten / "rotten")
        shutil.rmtree(rotten, ignore_errors=True)


def _retrieve(parts: Parts, scratch: Path, count: int, progress: Progress) -> Path:
    """Fetch the jars into a folder under the scratch folder with the Ivy that Spark ships."""
    with resources.as_file(resources.files("lagless.adapters.spark").joinpath("ivy.xml")) as listed:
        command = [
            str(java.find().path),
            # By default Ivy uses folders in the user's home.
            f"-Divy.default.ivy.user.dir={scratch / 'ivy'}",
            "-jar",
            str(_ivy()),
            *(("-settings", str(listed.with_name("ivy-alone.xml"))) if parts in ALONE else ()),
            *("-ivy", str(listed), "-confs", parts, "-cache", str(scratch / "cache")),
            *("-retrieve", str(scratch / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        last: deque[str] = deque(maxlen=200)
        done = 0
        progress(done, count)
        with subprocess.Popen(
            guard.guarded(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as ivy:
            assert ivy.stdout is not None
            try:
                for line in ivy.stdout:
                    last.append(line.strip())
                    if "[SUCCESSFUL ]" in line:
                        done += 1
                        progress(min(done, count), count)
            except BaseException:
                ivy.kill()
                raise
    if ivy.returncode != 0 or not (scratch / parts).is_dir():
        raise MissingPart(
            f"{WHOSE[parts]} jars are not in {home(parts)} and could not be downloaded "
            f"({_reason(last)}): connect this machine to the internet and try again"
        )
    return scratch / parts


def _ivy() -> Path:
    ivy = sorted(folder.glob("jars/ivy-*.jar")) if (folder := _pyspark()) else []
    if not ivy:
        raise MissingPart(
            "downloading the jars needs Ivy, which is part of the Python package pyspark: "
            "pip install 'lagless[spark]'"
        )
    return ivy[-1]


def _pyspark() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _reason(lines: deque[str]) -> str:
    telling = [line for line in lines if re.search(r"Exception|UNRESOLVED|not found", line)]
    return (telling or list(lines) or ["Ivy gave no reason"])[0][:200]


def spark_home() -> Path:
    """Return the folder with Spark's own jars and scripts."""
    folder = _pyspark()
    if folder is None or not (folder / "jars").is_dir():
        raise MissingPart(
            "this needs the Python package pyspark with its jars (pyspark-client has none): "
            "pip install 'lagless[spark]'"
        )
    return folder


def spark_command(main: str, *arguments: str) -> list[str]:
    """Return the command that runs a main class of Spark's; the shell in it becomes Java."""
    return ["/bin/bash", str(spark_home() / "bin" / "spark-class"), main, *arguments]


def spark_environment() -> dict[str, str]:
    """Return this process's environment, with Spark's home, Java's, and one address.

    Spark's Python workers are this interpreter unless PYSPARK_PYTHON names another: they have to
    find the same packages, and spark.pyspark.python is heard by spark-submit alone.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        "PYSPARK_PYTHON": sys.executable,
        **kept,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java.find_for_spark().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


def main(words: Sequence[str] = ()) -> None:
    """Fetch the named parts or the usual ones, showing progress; both at once: Ivy is slow."""
    unknown = [word for word in words if word not in WHOSE]
    if unknown:
        raise MissingPart(f"there are no parts called {unknown[0]}: there are {', '.join(WHOSE)}")
    wanted = [kind for kind in WHOSE if kind in (words or USUAL)]
    missing = [kind for kind in wanted if not present(kind)]
    for kind in missing:
        print(f"downloading {WHOSE[kind]} jars (once, about a minute)", file=sys.stderr)
    with ThreadPoolExecutor(len(WHOSE)) as pool:
        for _ in pool.map(lambda kind: fetch(kind, partial(_tell, kind)), missing):
            pass


def _tell(kind: Parts, done: int, count: int) -> None:
    if done == count or (sys.stderr.isatty() and done % 5 == 0):
        print(f"{WHOSE[kind]} jars: {done} of {count}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except MissingPart as error:
        sys.exit(f"lagless: {error}")
