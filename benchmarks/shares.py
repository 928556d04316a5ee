"""Shares of a processor for groups of processes: a quota in a control group of Linux, v1 or v2.

A control group with a quota is what a container's CPU limit is. Making one takes a writable
hierarchy, which root usually has. Without one there is no other way to hold a JVM to half a core,
so benchmarks then run with `--cpu 0`: no shares, and everything takes what the machine gives.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

PERIOD = 100_000
"""Microseconds after which a quota starts again: what Docker and Kubernetes take."""
WEIGHT = 20
"""Times the usual weight: a group competes with every thread outside it, and must get its quota."""
JOIN = 'echo $$ > "$0" && exec "$@"'
"""A shell that joins a group and becomes a command, so that nothing runs outside the group."""


class NoShares(Exception):
    """This machine gives no share: run without."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where control groups of the processor are made."""

    root: Path
    version: int

    def written(self, cores: float | None) -> dict[str, str]:
        """Return the files of a group and what they must hold for so many cores; None: no limit."""
        quota = None if cores is None else round(cores * PERIOD)
        if self.version == 2:
            told = f"{'max' if quota is None else quota} {PERIOD}"
            return {"cpu.max": told, "cpu.weight": str(100 * WEIGHT)}
        return {
            "cpu.cfs_period_us": str(PERIOD),
            "cpu.cfs_quota_us": "-1" if quota is None else str(quota),
            "cpu.shares": str(1024 * WEIGHT),
        }


def hierarchy(mounts: str, controllers: Callable[[Path], Sequence[str]]) -> Hierarchy | None:
    """Return the hierarchy that has the processor, from the text of /proc/mounts.

    `controllers` says which controllers a hierarchy of version 2 has: where both versions are
    mounted, the processor belongs to one of them.
    """
    for line in mounts.splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return Hierarchy(Path(where), 1)
        if kind == "cgroup2" and "cpu" in controllers(Path(where)):
            return Hierarchy(Path(where), 2)
    return None


def here() -> Hierarchy:
    """Return this machine's hierarchy; NoShares in one sentence where there is none to write to."""
    found = hierarchy(Path("/proc/mounts").read_text(), _controllers)
    if found is None:
        raise NoShares("no control groups of the processor are mounted here: use --cpu 0")
    if not os.access(found.root, os.W_OK):
        raise NoShares(f"{found.root} is not writable: run this as root, or use --cpu 0")
    return found


def _controllers(root: Path) -> Sequence[str]:
    with suppress(OSError):
        return (root / "cgroup.controllers").read_text().split()
    return ()


def _anonymous(process: psutil.Process) -> float:
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError as error:
        raise psutil.NoSuchProcess(process.pid) from error
    return sum(1024.0 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


class Share:
    """Processes that together get so many cores; with None or 0 cores, all that there are."""

    def __init__(self, name: str, cores: float | None, where: Hierarchy | None) -> None:
        self._where = where
        self._folder = None if where is None else where.root / f"lagless-{os.getpid()}-{name}"
        self._outside: set[int] = set()
        if self._folder is not None and where is not None:
            try:
                if where.version == 2:
                    (where.root / "cgroup.subtree_control").write_text("+cpu")
                self._folder.mkdir()
                self.limit(cores or None)
            except OSError as error:
                self.close()
                raise NoShares(f"{self._folder}: {error.strerror}: use --cpu 0") from error

    def limit(self, cores: float | None) -> None:
        """Change how many cores the processes get together."""
        if self._folder is not None and self._where is not None:
            for file, text in self._where.written(cores).items():
                (self._folder / file).write_text(text)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that joins the share and becomes the given one."""
        if self._folder is None:
            return list(command)
        return ["/bin/sh", "-c", JOIN, str(self._folder / "cgroup.procs"), *command]

    def add(self, pid: int) -> None:
        """Take a process in, and with it everything that it starts from now on."""
        self._outside.add(pid)
        if self._folder is not None:
            (self._folder / "cgroup.procs").write_text(str(pid))

    def processes(self) -> list[psutil.Process]:
        """Return the processes; without a quota, those that were added and what they started."""
        pids: set[int] = set()
        if self._folder is not None:
            with suppress(FileNotFoundError):  # it was closed
                pids = set(map(int, (self._folder / "cgroup.procs").read_text().split()))
        else:
            pids = set(self._outside)
            for pid in self._outside:
                with suppress(psutil.NoSuchProcess):
                    children = psutil.Process(pid).children(recursive=True)
                    pids |= {child.pid for child in children}
        found = []
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def seconds(self) -> float:
        """Return the processor seconds that the running processes have taken."""
        return sum(self._of_each(lambda process: sum(process.cpu_times()[:2])))

    def memory(self) -> float:
        """Return the bytes of memory that the processes hold now (resident, each by itself)."""
        return sum(self._of_each(lambda process: process.memory_info().rss))

    def anonymous(self) -> float:
        """Return the bytes of it that no file backs: the kernel cannot take those back."""
        return sum(self._of_each(_anonymous))

    def _of_each(self, ask: Callable[[psutil.Process], float]) -> list[float]:
        found = []
        for process in self.processes():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                found.append(ask(process))
        return found

    def close(self) -> None:
        """Kill what is left in the share, and remove it."""
        until = time.monotonic() + 20
        while self._folder is not None and self._folder.exists() and time.monotonic() < until:
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            # A group can be removed when the kernel has buried its last process.
            with suppress(OSError):
                self._folder.rmdir()
            time.sleep(0.05)
