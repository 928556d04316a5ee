"""What is started ends with who started it."""

import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from lagless.lab.parts import children
from tests.lab.parts.ended import gone

PARENT = """
import sys, time
from pathlib import Path
from lagless.lab.parts import children
children.sys.platform = sys.argv[2]
child = children.start(["/bin/sleep", "600"], Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""

SERVER = """
import sys, time
from lagless.lab.parts.cluster import Cluster
from lagless.lab.parts.connect import ConnectServer
if sys.argv[2] == "connect":
    print(ConnectServer(sys.argv[1], warm=False).start().pid, flush=True)
else:
    print(*Cluster(1, folder=sys.argv[1]).start().pids, flush=True)
time.sleep(600)
"""


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
    child = children.start([sys.executable, "-c", f"{stubborn}; time.sleep(600)"], log)
    while "up" not in log.read_text():
        time.sleep(0.02)
    children.end(child, patience=0.2)
    assert child.returncode == -9


def test_last_words_are_those_that_tell(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert children.last_lines(log) == "its log is empty"
    log.write_text("INFO a\nERROR the disk is full\nINFO bye\n")
    assert children.last_lines(log) == "ERROR the disk is full"
