"""One consumer's fault run: a testbed, a load, and a harness in the controller's place."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lagless import messages
from lagless.adapters.kafka import topic_records, topics
from lagless.adapters.lake import store
from lagless.adapters.lake.store import Store
from lagless.errors import LaglessError
from lagless.messages import Heartbeat, Order, OrderKind, Receipt
from tests.chaos.buckets import BucketLake
from tests.chaos.evolving import Writing
from tests.chaos.source import Source
from tests.chaos.sparks import Sparks

TOPICS = {"steady": 4, "remade": 2, "short": 2}
"""Topics and their partitions: one is left alone, one is remade, one loses records early."""
DEADLINE = 30.0
"""Seconds of a cycle's deadline: a SIGSTOP lasts longer."""
TREE: dict[str, Any] = {
    "group": "chaos",
    "topics": list(TOPICS),
    "consumer": {
        # A long backlog takes several cycles, and so the next is written ahead.
        "batch_bytes": "100 kB",
        "max_batch_bytes": "1 MB",
        "wait_seconds": 0.5,
        "cycle_deadline": DEADLINE,
        "on_data_loss": "continue",
        "heartbeat": 0.5,
        "lost_after": 5,
    },
}


class Consumer:
    """A consumer process and what it says."""

    def __init__(self, harness: "Harness", number: int, point: str, times: int) -> None:
        self.number = number
        self.incarnation = ""
        self.ready = False
        self.held: set[tuple[str, int]] = set()
        self.last: Heartbeat | None = None
        command = [sys.executable, "-m", "tests.chaos.victim", point, str(times)]
        command += ["consumer", str(number), "--config", str(harness.file)]
        self.birth = f"chaos{time.time_ns()}"
        self.log = (harness.bed.folder / f"consumer-{number}.log").open("ab")
        self.process = subprocess.Popen(
            command,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "LAGLESS_BIRTH": self.birth},
            cwd=Path(__file__).resolve().parents[2],
        )

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Harness:
    """Broker, Spark, load and lake, and the orders of a controller."""

    def __init__(
        self,
        folder: Path,
        rate: float,
        bucket: BucketLake | None = None,
        engine: Sparks | None = None,
        writing: Writing | None = None,
    ) -> None:
        self.writing = writing or Writing("json", TOPICS, folder, 0)
        self.engine = engine or Sparks("connect", folder, 0, "1g")
        self.bed = self.engine.bed
        self.bucket = bucket
        self.disk = self.bed.lake if bucket is None else bucket.disk
        """The folder that holds the tables' bytes."""
        self.disk.mkdir(parents=True)
        self.mounted = _mount(self.disk)
        self.rate = rate
        self.generation = 0
        self.consumers: dict[int, Consumer] = {}

    def start(self) -> None:
        """Bring everything up but the consumer."""
        if self.bucket is not None:
            self.bucket.start()
        self.engine.start()
        self.writing.start()
        self.bed.start().warm_up()
        lake = {} if self.bucket is None else {"lake": self.bucket.settings}
        self.settings, self.file = self.bed.settle(
            {**TREE, **self.writing.settings, **lake, **self.engine.settings}
        )
        topics.ensure(self.settings)
        self.source = Source(self.bed.bootstrap, TOPICS, self.rate, 400, self.writing)
        self.source.start()
        metadata = self.settings.controller.metadata_topic
        self.mail = topic_records.Reader(self.settings.kafka, metadata, 0, "end")
        self.writer = topic_records.Writer(self.settings.kafka)

    def stop(self) -> None:
        """End everything."""
        for consumer in self.consumers.values():
            consumer.kill()
        self.bed.stop()
        self.engine.stop()
        self.writing.stop()
        if self.bucket is not None:
            self.bucket.stop()
        if self.mounted:
            shutil.copytree(self.disk, self.bed.folder / "lake-kept", dirs_exist_ok=True)
            subprocess.run(["umount", str(self.disk)], check=False)

    @property
    def lake(self) -> Store:
        """The tables, past any fault of the lake."""
        return store.at(self.bed.lake) if self.bucket is None else self.bucket.store

    def launch(self, number: int, point: str = "none", times: int = 1) -> Consumer:
        """Start a consumer that dies at the given arrival at a point."""
        self.consumers[number] = Consumer(self, number, point, times)
        return self.consumers[number]

    def listen(self, seconds: float) -> None:
        """Take in what consumers say."""
        with contextlib.suppress(LaglessError):
            for record in self.mail.drain(seconds):
                message = messages.read(record.value)
                if isinstance(message, Receipt | Heartbeat):
                    self._hear(message)

    def _hear(self, said: Receipt | Heartbeat) -> None:
        consumer = self.consumers.get(said.consumer)
        if consumer is None or not said.incarnation.startswith(consumer.birth):
            return
        consumer.incarnation = said.incarnation
        consumer.held = {(topic, partition) for topic, partition, _ in said.held}
        if isinstance(said, Heartbeat):
            consumer.ready = said.state == "ready"
            consumer.last = said

    def order(self, consumer: Consumer, kind: OrderKind) -> None:
        """Order a consumer to start or stop everything, under a new generation."""
        self.generation += 1
        every = tuple((topic, p) for topic, count in TOPICS.items() for p in range(count))
        order = Order(
            group="chaos",
            kind=kind,
            consumer=consumer.number,
            incarnation=consumer.incarnation,
            generation=self.generation,
            partitions=every,
            at=time.time(),
        )
        for _ in range(30):
            try:
                metadata = self.settings.controller.metadata_topic
                self.writer.write(metadata, consumer.number, order.encode())
                return
            except LaglessError:
                time.sleep(1)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Listen until a condition holds, or for so many seconds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.listen(0.2)
        return True

    def run(self, consumer: Consumer, seconds: float = 120) -> bool:
        """Have a consumer hold everything; False if it died on the way."""
        self.until(lambda: consumer.ready or not consumer.alive, seconds)
        total = sum(TOPICS.values())
        end = time.monotonic() + seconds
        while consumer.alive and len(consumer.held) < total and time.monotonic() < end:
            self.order(consumer, "start")
            self.until(lambda: len(consumer.held) == total or not consumer.alive, 15)
        return consumer.alive and len(consumer.held) == total


def _mount(folder: Path) -> bool:
    """Give the lake a small disk of its own, so that it can be filled; False where we may not."""
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
