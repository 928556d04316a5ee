"""Consumers as processes: the exam, and what only processes can get wrong."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from lagless.adapters import processes
from lagless.adapters.processes import ProcessProvisioner
from lagless.model import Consumer
from lagless.ports import Provisioner
from tests.adapters.provisioner_exam import ProvisionerExam

SLEEPER = "import sys, time; print('up', sys.argv[1], flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def make(folder: Path, program: str = SLEEPER, grace: float = 5.0) -> ProcessProvisioner:
    command = [sys.executable, "-c", program, "{}", str(folder)]
    return ProcessProvisioner(folder, command, restarts=2, grace=grace)


def found(folder: Path) -> dict[Consumer, int]:
    """Find consumers by their command lines."""
    pids = {}
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if words[-1:] == [str(folder)] and process.info["status"] != psutil.STATUS_ZOMBIE:
            pids[int(words[-2])] = process.pid
    return pids


def wait(condition: Callable[[], bool], seconds: float = 15) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def provisioner(tmp_path: Path) -> Iterator[ProcessProvisioner]:
    made = make(tmp_path)
    yield made
    made.end_all()


class TestExam(ProvisionerExam):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def running(self, provisioner: Provisioner) -> set[Consumer]:
        return set(found(self.folder))


def test_a_consumer_has_a_process_group_and_a_log_of_its_own(
    provisioner: ProcessProvisioner, tmp_path: Path
) -> None:
    provisioner.create([1, 2])
    assert wait(lambda: (tmp_path / "consumer-2.log").read_text() == "up 2\n")
    pids = found(tmp_path)
    groups = {os.getpgid(pid) for pid in pids.values()}
    assert groups == set(pids.values())
    assert os.getpgid(0) not in groups


def test_the_next_controller_adopts_what_runs(
    provisioner: ProcessProvisioner, tmp_path: Path
) -> None:
    provisioner.create([1])
    (before,) = provisioner.instances()
    other = make(tmp_path)
    assert other.create([1]) == {}
    assert list(other.instances()) == [before]
    other.delete({1: f"{before.birth}.x"})
    assert wait(lambda: not other.instances())
    assert not found(tmp_path)


def test_a_consumer_outlives_a_controller_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.adapters import test_processes as t; "
        f"t.make(Path({str(tmp_path)!r})).create([1]); print('done', flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == b"done\n"
    parent.kill()
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    next_one = make(tmp_path)
    assert [(i.consumer, i.phase) for i in next_one.instances()] == [(1, "running")]
    next_one.end_all()
    assert not found(tmp_path)


def test_a_reused_pid_is_not_mistaken_for_a_consumer(
    provisioner: ProcessProvisioner, tmp_path: Path
) -> None:
    provisioner.create([1])
    file = tmp_path / "consumer-1.json"
    kept = file.read_text()
    file.write_text(kept.replace('"started": "', '"started": "9'))
    other = make(tmp_path)
    assert [i.phase for i in other.instances()] == ["failed"]
    other.delete({1: ""})
    assert not other.instances()
    assert 1 in found(tmp_path), "a process that is not the consumer must not be ended"
    file.write_text(kept)


def test_who_dies_has_failed_and_can_be_started_again(
    provisioner: ProcessProvisioner, tmp_path: Path
) -> None:
    provisioner.create([1])
    assert wait(lambda: 1 in found(tmp_path))
    os.kill(found(tmp_path)[1], signal.SIGKILL)
    assert wait(lambda: [i.phase for i in provisioner.instances()] == ["failed"])
    assert "consumer-1.log" in provisioner.instances()[0].trouble
    provisioner.delete({1: ""})
    assert not provisioner.instances()
    assert provisioner.create([1]) == {}
    assert [i.phase for i in provisioner.instances()] == ["running"]


def test_who_keeps_dying_is_not_started_for_ever(tmp_path: Path) -> None:
    provisioner = make(tmp_path, "raise SystemExit('no')")
    starts = 0
    for _ in range(10):
        troubles = provisioner.create([1])
        if troubles:
            break
        starts += 1
        assert wait(lambda: [i.phase for i in provisioner.instances()] == ["failed"])
        provisioner.delete({1: ""})
        assert not provisioner.instances()
    assert starts == 3, "the first start and two restarts"
    assert "crashed 3 times" in troubles[1]
    assert "no\n" in (tmp_path / "consumer-1.log").read_text()


def test_who_does_not_listen_is_ended_all_the_same(tmp_path: Path) -> None:
    provisioner = make(tmp_path, DEAF, grace=0.3)
    provisioner.create([1])
    assert wait(lambda: 1 in found(tmp_path))
    time.sleep(0.3)
    provisioner.delete({1: ""})
    assert wait(lambda: not provisioner.instances())
    assert not found(tmp_path)


def test_a_command_that_cannot_be_run_is_a_trouble_with_its_name(tmp_path: Path) -> None:
    provisioner = ProcessProvisioner(tmp_path, ["/no/such/program", "{}"])
    assert provisioner.create([1]) == {
        1: "/no/such/program cannot be run: No such file or directory"
    }


def test_the_command_names_the_settings(tmp_path: Path) -> None:
    command = processes.consumer_command(tmp_path / "lagless.toml", ["group=x"])
    assert command[1:] == [
        "-m",
        "lagless",
        "consumer",
        "{}",
        "--config",
        str(tmp_path / "lagless.toml"),
        "--set",
        "group=x",
    ]
