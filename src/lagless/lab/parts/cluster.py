"""A standalone Spark cluster on this machine: a master and its workers."""

import json
import subprocess
import urllib.request
from pathlib import Path

from lagless.adapters.spark import jars, sessions
from lagless.lab.parts import children

MASTER = "org.apache.spark.deploy.master.Master"
NAME = "the Spark cluster"
WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster(children.Server):
    """A cluster that runs between entering and leaving, and no longer than this process.

    Each worker has one core and 1 GB. The master keeps what it knows on disk, so that a restarted
    one goes on with the workers and applications of the one before.
    """

    title = "Spark cluster"

    def __init__(self, workers: int = 2, *, folder: Path | str | None = None) -> None:
        self._master, self._page = children.free_tcp_ports(2)
        super().__init__(folder, self._master, "cluster.log")
        self._workers = workers

    @property
    def url(self) -> str:
        """The master's address, as sessions take it."""
        return f"spark://{sessions.HOST}:{self._master}"

    @property
    def pids(self) -> list[int]:
        """The processes: the master, then the workers."""
        return [process.pid for process in self._processes]

    def restart_master(self) -> None:
        """Kill the master, and start it again."""
        self._end(0)
        self._processes[0] = self._start_master()
        self._await(NAME, lambda: children.answers(self._master))

    def restart_worker(self, number: int) -> None:
        """Kill a worker, which takes its executors along, and start it again."""
        self._end(1 + number)
        self._processes[1 + number] = self._start_worker(number)

    def _launch(self) -> None:
        """Start master and workers, and wait until all workers have registered."""
        self._processes = [self._start_master()]
        self._await(NAME, lambda: children.answers(self._master))
        self._processes += [self._start_worker(number) for number in range(self._workers)]
        self._await(NAME, lambda: self._alive() == self._workers)

    def _end(self, index: int) -> None:
        self._processes[index].kill()
        self._processes[index].wait()

    def _start_master(self) -> subprocess.Popen[bytes]:
        return self._run(MASTER, "--port", str(self._master), "--webui-port", str(self._page))

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = str(self.folder / f"worker-{number}")
        limits = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        return self._run(WORKER, *limits, "--work-dir", folder, self.url)

    def _run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = jars.spark_command(main, "--host", sessions.HOST, *arguments)
        recovery = {"mode": "FILESYSTEM", "directory": self.folder / "recovery"}
        words = [f"-Dspark.deploy.recovery{key.title()}={value}" for key, value in recovery.items()]
        own = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": " ".join(words)}
        environment = jars.spark_environment() | own
        return children.start(command, self.log, env=environment, cwd=self.folder)

    def _alive(self) -> int:
        url = f"http://{sessions.HOST}:{self._page}/json/"
        try:
            with urllib.request.urlopen(url, timeout=5) as it:  # nosec B310  # on this machine
                return int(json.load(it)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return 0
