"""What is started ends with who started it."""

import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from lagless.embedded import lifetimes

PARENT = """
import sys, time
from pathlib import Path
from lagless.embedded import lifetimes
lifetimes.sys.platform = sys.argv[2]
child = lifetimes.bear(["/bin/sleep", "600"], Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""

SERVER = """
import sys, time
from lagless.embedded.spark import Cluster, ConnectServer
if sys.argv[2] == "connect":
    print(ConnectServer(sys.argv[1], warm=False).start().pid, flush=True)
else:
    print(*Cluster(1, folder=sys.argv[1]).start().pids, flush=True)
time.sleep(600)
"""


def gone(pid: int, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def children_of_a_killed_parent(program: str, *arguments: str) -> list[int]:
    """Run a program that prints the pids of its children, and kill it as nobody can refuse."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            assert parent.stdout is not None
            pids = [int(text) for text in parent.stdout.readline().split()]
            assert pids
            assert all(psutil.pid_exists(pid) for pid in pids)
        finally:
            parent.kill()
    return pids


@pytest.mark.parametrize("platform", ["linux", "another"])
def test_a_child_dies_with_its_parent(platform: str, tmp_path: Path) -> None:
    (child,) = children_of_a_killed_parent(PARENT, str(tmp_path / "log"), platform)
    assert gone(child)


@pytest.mark.spark
@pytest.mark.parametrize("what", ["connect", "cluster"])
def test_spark_dies_with_its_parent(what: str, tmp_path: Path) -> None:
    for pid in children_of_a_killed_parent(SERVER, str(tmp_path), what):
        assert gone(pid)


def test_a_child_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    log = tmp_path / "log"
    child = lifetimes.bear([sys.executable, "-c", f"{stubborn}; time.sleep(600)"], log)
    while "up" not in log.read_text():
        time.sleep(0.02)
    lifetimes.end(child, patience=0.2)
    assert child.returncode == -9


def test_last_words_are_those_that_tell(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert lifetimes.last_words(log) == "its log is empty"
    log.write_text("INFO a\nERROR the disk is full\nINFO bye\n")
    assert lifetimes.last_words(log) == "ERROR the disk is full"
