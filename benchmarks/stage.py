"""What `benchmarks.scale` and `benchmarks.start` stand on: a broker with a backlog, and the three
ways to run Spark, with each process in a share of the processor.

own       each consumer has a Spark of its own: Python and JVM in the consumer's share
shared    thin consumers and one Connect server, which has the share of one consumer
cluster   thin consumers and one Connect server on a standalone cluster: each consumer brings a
          worker with one executor, in the consumer's share; the server plans, in another share

Broker and benchmark are under no quota: they must not be what is measured.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from benchmarks.shares import Hierarchy, Share
from lagless.lab.parts import children
from lagless.lab.parts.broker import Broker
from lagless.lab.parts.cluster import Cluster
from lagless.lab.testbed import toml
from lagless.settings import Settings, load

MODES = ("own", "shared", "cluster")
TOPIC, RECORD = "backlog", 500
SCHEMA = "topic STRING, partition INT, seq BIGINT, at DOUBLE, pad STRING"
HEAP, SERVER_HEAP = "512m", "1g"
CHUNK = 8e6
"""Bytes that are written to each partition at a time."""
DEADLINE = 300.0
"""Seconds that a server may take under its share."""


def say(text: str) -> None:
    """Tell people how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Stage:
    """A broker with one topic of JSON records, in a folder that goes with it."""

    def __init__(self, partitions: int, cores: float, where: Hierarchy | None) -> None:
        self.partitions = partitions
        self.cores = cores or None
        self.where = where if cores else None
        self.folder = Path(tempfile.mkdtemp(prefix="lagless-stage-"))
        self.written = dict.fromkeys(range(partitions), 0)
        """Records in each partition."""
        self._producer: Any = None
        self._broker = Broker(self.folder / "broker", heap="1g")

    def __enter__(self) -> Self:
        from confluent_kafka import Producer

        from lagless.lab.load import records

        # Consumers would make it in the background, in their own shares.
        say("making the archive of classes, if there is none")
        subprocess.run([sys.executable, "-m", "lagless.adapters.spark.archive"], check=False)
        self._broker.start()
        records.make_topics(self.bootstrap, {TOPIC: self.partitions})
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 50, "batch.size": 1 << 20}
            | {"queue.buffering.max.messages": 1_000_000}
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._producer = None  # it would complain that the broker is gone
        self._broker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self._broker.bootstrap

    def fill(self, partition: int, count: int) -> None:
        """Write so many more records to a partition."""
        form = b'{"topic":"backlog","partition":%d,"seq":%d,"at":%.3f,"pad":"%b"}'
        pad = b"abcdefghij" * (RECORD // 10)
        at = time.time()
        first = self.written[partition]
        length = len(form % (partition, first + count, at, b""))
        for seq in range(first, first + count):
            value = form % (partition, seq, at, pad[: RECORD - length])
            while True:
                try:
                    self._producer.produce(TOPIC, value, partition=partition)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if seq % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush()
        self.written[partition] = first + count

    def keep_ahead(self, offsets: dict[int, int], size: float) -> bool:
        """Fill partitions until each has so many bytes left to read; return whether any lacked."""
        lacked = False
        for partition in range(self.partitions):
            while (self.written[partition] - offsets.get(partition, 0)) * RECORD < size:
                self.fill(partition, int(CHUNK / RECORD))
                lacked = True
        return lacked

    def bytes_per_offset(self) -> float:
        """Return the log bytes of a record, over all partitions."""
        folders = (self._broker.data_dir / "data").glob(f"{TOPIC}-[0-9]*")
        size = sum(log.stat().st_size for folder in folders for log in folder.glob("*.log"))
        return size / sum(self.written.values())

    def group(self, name: str, spark: dict[str, Any], **tree: Any) -> tuple[Settings, Path]:
        """Return settings of a fresh group and lake, and the file that holds them."""
        home = self.folder / name
        home.mkdir()
        batch = {"batch_bytes": 5_000_000, "max_batch_bytes": 5_000_000}
        whole: dict[str, Any] = {
            "group": name,
            "topics": [TOPIC],
            "kafka": {"bootstrap": self.bootstrap},
            "lake": {"path": str(home / "lake")},
            "spark": spark,
            # Under a share the first cycles are slow.
            "consumer": {**batch, "cycle_deadline": DEADLINE, "start_deadline": DEADLINE},
            "topic": {TOPIC: {"format": "json", "schema": SCHEMA}},
        }
        for key, more in tree.items():
            whole[key] = {**whole.get(key, {}), **more}
        file = home / "lagless.toml"
        file.write_text(toml(whole))
        return load(file, environ={}), file

    def share(self, name: str) -> Share:
        """Return a share of one consumer."""
        return Share(name, self.cores, self.where)

    def start(self, share: Share, log: Path, *words: str) -> "subprocess.Popen[bytes]":
        """Start `python -m lagless …` in a share."""
        command = share.command([sys.executable, "-m", "lagless", *words])
        process = children.start(command, log)
        share.add(process.pid)
        return process


class Way:
    """One way to run Spark, for as many consumers as it was made for."""

    def __init__(self, mode: str, stage: Stage, consumers: int) -> None:
        self.mode = mode
        self.stage = stage
        self.shares = {n: stage.share(f"{mode}-{n}") for n in range(1, consumers + 1)}
        self._server = None if mode == "own" else stage.share(f"{mode}-server")
        self._cluster: Cluster | None = None
        self.spark: dict[str, Any] = {"url": "local", "cores": 1, "memory": HEAP}

    def __enter__(self) -> Self:
        try:
            if self.mode == "cluster":
                self._start_cluster()
            if self._server is not None:
                self._start_server(self._server)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for share in self.shares.values():
            share.close()
        if self._cluster is not None:
            self._cluster.stop()

    def seconds(self) -> float:
        """Return the processor seconds of everything that has a share."""
        whole = [*self.shares.values(), *([] if self._server is None else [self._server])]
        return sum(share.seconds() for share in whole)

    def _start_cluster(self) -> None:
        folder = self.stage.folder / "cluster"
        self._cluster = Cluster(len(self.shares), folder=folder).start()
        for share, pid in zip(self.shares.values(), self._cluster.pids[1:], strict=True):
            share.add(pid)  # its executor is started later, and by it

    def _start_server(self, share: Share) -> None:
        (port,) = children.free_tcp_ports()
        log = self.stage.folder / f"{self.mode}-server.log"
        words = ["connect", "--port", str(port), "--memory", SERVER_HEAP, "--json"]
        words += ["--folder", str(self.stage.folder / f"{self.mode}-server")]
        if self._cluster is not None:
            words += ["--master", self._cluster.url, "--conf", "spark.executor.cores=1"]
            words += ["--conf", f"spark.executor.memory={HEAP}"]
        # Starting it is not measured, and takes minutes under a share.
        share.limit(None)
        process = self.stage.start(share, log, *words)
        until = time.monotonic() + DEADLINE
        while '"url"' not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the Connect server does not start: {children.last_lines(log)}")
            time.sleep(0.1)
        share.limit(self.stage.cores)
        self.spark = {"url": f"sc://127.0.0.1:{port}"}
