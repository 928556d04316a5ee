"""Archives of the classes that a consumer's JVM loads (class data sharing), in the cache folder.

A JVM that maps such an archive does not read, check and link ten thousand classes again. The
archive holds for one Java and one class path only:

1. Its folder is named by everything that it depends on. After an upgrade another one is looked for.
2. The folder gets its name when the archive and its sum are complete, while a lock is held.
3. The sum is checked before each use: the JVM itself does not notice a damaged archive.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lagless import __version__
from lagless.adapters.spark import jars, tuning
from lagless.adapters.spark.java import Java

KEPT = 3
"""Archives that are kept: other versions of lagless may run on this machine."""
_CLASSES, _SUM = "classes.jsa", "classes.sha256"


def home(runtime: Java, classpath: Sequence[Path]) -> Path:
    """Return the folder of the archive for this Java and these jars, in this order."""
    core = runtime.home / "lib" / "server" / "libjvm.so"
    depends = [__version__, runtime.full_version, *tuning.MODULES]
    for file in (core, *classpath):
        # Container layers keep times in whole seconds.
        status = file.stat() if file.exists() else None
        depends.append(f"{file} {status and (status.st_size, int(status.st_mtime))}")
    name = hashlib.sha256("\n".join(depends).encode()).hexdigest()[:16]
    return jars.cache() / "classes" / name


def find(runtime: Java, classpath: Sequence[Path]) -> Path | None:
    """Return the archive, or None if there is none or it is damaged."""
    folder = home(runtime, classpath)
    archive = folder / _CLASSES
    try:
        expected = (folder / _SUM).read_text()
        with archive.open("rb") as file:
            return archive if hashlib.file_digest(file, "sha256").hexdigest() == expected else None
    except OSError:
        return None


def make(
    runtime: Java, classpath: Sequence[Path], write: Callable[[Path], None]
) -> tuple[Path, bool]:
    """Return the archive and whether it was made now, by `write`, which is given the file's path.

    Of several that make it at once one does, and the others wait for it.
    """
    folder = home(runtime, classpath)
    with jars.alone(folder):
        found = find(runtime, classpath)
        if found is not None:
            return found, False
        jars.clear(folder)
        with TemporaryDirectory(
            prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
        ) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            write(made / _CLASSES)
            with (made / _CLASSES).open("rb") as file:
                (made / _SUM).write_text(hashlib.file_digest(file, "sha256").hexdigest())
            made.rename(folder)
    _prune(folder.parent)
    return folder / _CLASSES, True


def _prune(parent: Path) -> None:
    """Remove all but the newest archives: an upgrade makes another one."""
    folders = [path for path in parent.iterdir() if (path / _SUM).is_file()]
    for old in sorted(folders, key=os.path.getmtime, reverse=True)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
