"""Programs of others that are built with Go, once per machine, and kept in the cache folder.

Their source comes from Go's module proxy, which checks it against Go's public checksum database.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from lagless.adapters.spark import guard, jars
from lagless.errors import MissingPart


class GoTool(NamedTuple):
    """A program by the package that it is built from."""

    title: str
    """What a message calls it, such as `the S3 server for tests`."""
    package: str
    version: str
    folder: str
    """Where the binary is kept, in lagless's cache folder."""

    @property
    def name(self) -> str:
        """What Go calls the binary."""
        return self.package.rpartition("/")[2]

    def binary(self) -> Path:
        """Return where the program is once it is built; another version is another file."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "lagless" / self.folder / f"{self.name}-{self.version.split('-')[-1]}"

    def can_run(self) -> bool:
        """Return whether the program is built, or could be."""
        return self.binary().exists() or _go() is not None

    @property
    def lacking(self) -> str:
        """What to tell who has no Go."""
        return (
            f"{self.title} is built from source with Go, and there is no go on the path: "
            "install Go 1.24 or newer (https://go.dev/doc/install) and try again"
        )

    def build(self) -> Path:
        """Return the binary; build it where it is missing, which takes minutes."""
        target = self.binary()
        with jars.alone(target):
            if not target.exists():
                self._install(target)
        return target

    def _install(self, target: Path) -> None:
        go = _go()
        if go is None:
            raise MissingPart(self.lacking)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
            # Into a cache of its own: 2 GB that nobody needs when the binary is there.
            own = {"GOBIN": scratch, "GOCACHE": f"{scratch}/cache", "GOMODCACHE": f"{scratch}/mod"}
            flags = ["-modcacherw", "-trimpath", "-ldflags=-s -w"]
            command = guard.guarded([go, "install", *flags, f"{self.package}@{self.version}"])
            environment = {**os.environ, "CGO_ENABLED": "0", **own}
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                reason = " / ".join(done.stderr.strip().splitlines()[-3:]) or "go gave no reason"
                raise MissingPart(f"{self.title} could not be built: {reason}")
            Path(scratch, self.name).rename(target)


def _go() -> str | None:
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
