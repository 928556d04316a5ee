"""Where the consumers of a fault run have their Spark, and what of it can be killed.

connect     one Connect server for all, whose executors are threads of it
cluster     one Connect server for all, whose executors are the workers of a standalone cluster
local       a Spark of its own in each consumer
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from lagless.lab.parts.cluster import Cluster
from lagless.lab.testbed import Testbed

MODES = ("connect", "cluster", "local")
WORKERS = 2
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Sparks:
    """The Spark of a fault run."""

    def __init__(
        self,
        mode: str,
        folder: Path,
        seed: int,
        memory: str = "2g",
        listeners: Mapping[str, str] = {},
        brokers: int = 1,
    ) -> None:
        self.mode = mode
        self._random = random.Random(seed)
        self.cluster = Cluster(WORKERS, folder=folder / "cluster") if mode == "cluster" else None
        master = "local[2]" if self.cluster is None else self.cluster.url
        self.bed = Testbed(
            folder,
            spark=mode != "local",
            memory=memory,
            listeners=listeners,
            master=master,
            brokers=brokers,
        )

    @property
    def kinds(self) -> Sequence[str]:
        """What can be killed; the driver is the Connect server, or each consumer's JVM."""
        kinds: dict[str, Sequence[str]] = {
            "connect": ("connect",),
            "cluster": ("connect", "executor", "worker", "master"),
            "local": ("jvm",),
        }
        return kinds[self.mode]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the group, where the testbed does not make them."""
        if self.mode != "local":
            return {}
        return {"spark": {"url": "local", "cores": 1, "memory": "512m"}}

    def start(self) -> None:
        """Start the cluster, if there is one."""
        if self.cluster is not None:
            self.cluster.start()

    def stop(self) -> None:
        """Stop it."""
        if self.cluster is not None:
            self.cluster.stop()

    def kill(self, kind: str, consumers: Callable[[], Sequence[int]]) -> None:
        """Kill a part with -9; what has a supervisor is started again, or starts by itself."""
        if kind == "jvm":
            self._kill_one([child for pid in consumers() for child in _java(pid)])
        elif kind == "executor":
            every = psutil.process_iter(["cmdline"])
            mine = [p for p in every if EXECUTOR in (p.info["cmdline"] or [])]
            self._kill_one([p for p in mine if self._is_mine(p)])
        elif kind == "worker":
            assert self.cluster is not None
            self.cluster.restart_worker(self._random.randrange(WORKERS))
        elif kind == "master":
            assert self.cluster is not None
            self.cluster.restart_master()

    def _kill_one(self, processes: list[psutil.Process]) -> None:
        if processes:
            self._random.choice(processes).kill()

    def _is_mine(self, process: psutil.Process) -> bool:
        assert self.cluster is not None
        return self.cluster.url.rpartition(":")[2] in " ".join(process.info["cmdline"]) or any(
            str(self.cluster.folder) in word for word in process.info["cmdline"]
        )


def _java(pid: int) -> list[psutil.Process]:
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [child for child in children if child.name() == "java"]
    except psutil.NoSuchProcess:
        return []
