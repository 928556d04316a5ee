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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from lagless.embedded import java, lifetimes
from lagless.errors import MissingPart

Parts: TypeAlias = Literal["broker", "spark"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many jars are there, and how many there will be."""

WHOSE: Mapping[Parts, str] = {"broker": "the broker's", "spark": "Spark's"}


def fetch(parts: Parts, progress: Progress | None = None) -> Path:
    """Return the folder with the verified jars of the broker or of Spark, fetching them if needed.

    The sums are checked on every call (a fraction of a second), so that a jar that rotted is
    fetched anew.
    """
    wanted = sums(parts)
    folder = home(parts)
    if _complete(folder, wanted):
        return folder
    with _alone(folder):
        if _complete(folder, wanted):
            return folder
        _clear(folder)
        with tempfile.TemporaryDirectory(
            prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
        ) as scratch:
            jars = _retrieve(parts, Path(scratch), len(wanted), progress or (lambda *_: None))
            wrong = [name for name, it in wanted.items() if _sum(jars / name) != it]
            if wrong:
                raise MissingPart(
                    f"of {WHOSE[parts]} jars some are not those expected ({', '.join(wrong)} "
                    "missing or different): try again, and look at what stands between this "
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
    """Tell whether the jars are there and right, fetching nothing."""
    return _complete(home(parts), sums(parts))


def home(parts: Parts) -> Path:
    """Return the folder of the parts; another list of jars is another folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    listed = "".join(f"{name} {digest}\n" for name, digest in sums(parts).items())
    version = hashlib.sha256(listed.encode()).hexdigest()[:12]
    return Path(cache) / "lagless" / "jars" / f"{parts}-{version}"


def sums(parts: Parts) -> dict[str, str]:
    """Return the SHA-256 of each jar of the parts, by file name."""
    lines = resources.files("lagless.embedded").joinpath("jars.sha256").read_text().splitlines()
    listed = (line.split() for line in lines)
    return {
        path.removeprefix(f"{parts}/"): digest
        for digest, path in listed
        if path.startswith(f"{parts}/")
    }


def _complete(folder: Path, wanted: Mapping[str, str]) -> bool:
    return folder.is_dir() and all(_sum(folder / name) == it for name, it in wanted.items())


def _sum(jar: Path) -> str | None:
    try:
        with jar.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the kernel gives it back when its holder dies."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear(folder: Path) -> None:
    for left in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    if folder.exists():
        # Renamed first: a half-removed folder must not carry the name.
        rotten = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        folder.rename(rotten / "rotten")
        shutil.rmtree(rotten, ignore_errors=True)


def _retrieve(parts: Parts, scratch: Path, count: int, progress: Progress) -> Path:
    """Fetch the jars into a folder under the scratch folder with the Ivy that Spark ships."""
    with resources.as_file(resources.files("lagless.embedded").joinpath("ivy.xml")) as listed:
        command = [
            str(java.find().path),
            # Else Ivy would look into, and make, folders in the user's home.
            f"-Divy.default.ivy.user.dir={scratch / 'ivy'}",
            "-jar",
            str(_ivy()),
            *("-ivy", str(listed), "-confs", parts, "-cache", str(scratch / "cache")),
            *("-retrieve", str(scratch / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        last: deque[str] = deque(maxlen=200)
        done = 0
        progress(done, count)
        with subprocess.Popen(
            lifetimes.guarded(command),
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
            f"{WHOSE[parts]} jars are not in {home(parts)} and could not be fetched "
            f"({_reason(last)}): connect this machine to the internet and try again"
        )
    return scratch / parts


def _ivy() -> Path:
    spec = find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise MissingPart(
            "the JVM parts are fetched with the Ivy that the Python package pyspark ships: "
            "pip install 'lagless[spark]'"
        )
    return found[-1]


def _reason(lines: deque[str]) -> str:
    telling = [line for line in lines if re.search(r"Exception|UNRESOLVED|not found", line)]
    return (telling or list(lines) or ["Ivy said nothing"])[0][:200]


def main() -> None:
    """Fetch everything, telling how far it is; both at once, since Ivy takes jar after jar."""
    missing = [kind for kind in WHOSE if not present(kind)]
    for kind in missing:
        print(f"fetching {WHOSE[kind]} jars: about a minute, once", file=sys.stderr)
    with ThreadPoolExecutor(len(WHOSE)) as both:
        for _ in both.map(lambda kind: fetch(kind, partial(_tell, kind)), missing):
            pass


def _tell(kind: Parts, done: int, count: int) -> None:
    if done == count or (sys.stderr.isatty() and done % 5 == 0):
        print(f"{WHOSE[kind]} jars: {done} of {count}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except MissingPart as error:
        sys.exit(f"lagless: {error}")
