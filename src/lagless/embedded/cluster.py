"""A standalone Spark cluster on this machine: a master and its workers."""

import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from lagless.embedded import distribution, lifetimes, ports

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A cluster that runs between entering and leaving, and no longer than this process."""

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        memory: str = "1g",
        folder: Path | str | None = None,
        deadline: float = 120.0,
    ) -> None:
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._temporary = folder is None
        self.folder = Path(
            tempfile.mkdtemp(prefix="lagless-cluster-") if folder is None else folder
        ).absolute()
        self.log = self.folder / "cluster.log"
        self._deadline = deadline
        self._port, self._page = ports.free(2)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The master's address, as sessions take it."""
        return f"spark://{ports.HOST}:{self._port}"

    @property
    def pids(self) -> list[int]:
        """The processes: the master, then the workers."""
        return [process.pid for process in self._processes]

    def start(self) -> Self:
        """Start master and workers, and return when all workers are at the master's hand."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._bear(MASTER, "--port", str(self._port), "--webui-port", str(self._page))
            self._await(lambda: ports.answers(self._port))
            for number in range(self._workers):
                self._bear(
                    WORKER,
                    *("--cores", str(self._cores), "--memory", self._memory),
                    *("--webui-port", "0", "--work-dir", str(self.folder / f"worker-{number}")),
                    self.url,
                )
            self._await(lambda: self._alive() == self._workers)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the workers, then the master."""
        while self._processes:
            lifetimes.end(self._processes.pop())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _bear(self, main: str, *arguments: str) -> None:
        self._processes.append(
            lifetimes.bear(
                distribution.command(main, "--host", ports.HOST, *arguments),
                self.log,
                env=distribution.environment() | {"SPARK_DAEMON_MEMORY": "256m"},
                cwd=self.folder,
            )
        )

    def _await(self, ready: Callable[[], bool]) -> None:
        lifetimes.await_ready("the Spark cluster", self._processes, ready, self._deadline, self.log)

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{ports.HOST}:{self._page}/json/", timeout=5) as it:
                return int(json.load(it)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return 0
