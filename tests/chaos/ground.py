"""The ground of one consumer's fault run: broker, Spark, load, lake, and a controller's orders."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lagless.adapters.kafka import reading, topics, writing
from lagless.embedded.broker import Broker
from lagless.embedded.spark import ConnectServer
from lagless.errors import LaglessError
from lagless.live import stand
from lagless.messages import Heartbeat, Order, OrderKind, Receipt, decode
from lagless.settings import Settings, load
from tests.chaos.source import Source

TOPICS = {"steady": 4, "anew": 2, "short": 2}
"""Topics and their partitions: one is left alone, one is remade, one loses records early."""
DEADLINE = 30.0
"""Seconds of a cycle's deadline: a SIGSTOP lasts longer."""
SCHEMA = "seq BIGINT, run STRING, pad STRING"


class Ward:
    """A consumer process and what it says."""

    def __init__(self, world: "World", number: int, point: str, times: int) -> None:
        self.number = number
        self.incarnation = ""
        self.ready = False
        self.held: set[tuple[str, int]] = set()
        self.last: Heartbeat | None = None
        command = [sys.executable, "-m", "tests.chaos.victim", point, str(times)]
        command += ["consumer", str(number), "--config", str(world.file)]
        self.birth = f"chaos{time.time_ns()}"
        self.log = (world.folder / f"consumer-{number}.log").open("ab")
        self.process = subprocess.Popen(
            command,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "LAGLESS_BIRTH": self.birth},
            cwd=Path(__file__).resolve().parents[2],
        )

    @property
    def alive(self) -> bool:
        """Say whether the process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


class World:
    """Broker, Spark, load and lake, and the orders of a controller."""

    def __init__(self, folder: Path, rate: float) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.lake.mkdir(parents=True)
        self.mounted = _mount(self.lake)
        self.file = folder / "lagless.toml"
        self.broker = Broker(folder / "broker")
        self.spark = ConnectServer(folder / "spark", memory="1g")
        self.rate = rate
        self.generation = 0
        self.wards: dict[int, Ward] = {}

    def start(self) -> None:
        """Bring everything up but the consumer."""
        self.broker.start()
        self.spark.start()
        self.spark.warm_up(self.broker.bootstrap)
        self.file.write_text(stand.toml(self._tree()))
        self.settings: Settings = load(self.file)
        topics.ensure(self.settings)
        self.source = Source(self.broker.bootstrap, TOPICS, self.rate, 400)
        self.source.start()
        metadata = self.settings.controller.metadata_topic
        self.mail = reading.Reader(self.settings.kafka, metadata, 0, "end")
        self.writer = writing.Writer(self.settings.kafka)

    def _tree(self) -> dict[str, Any]:
        return {
            "group": "chaos",
            "topics": list(TOPICS),
            "kafka": {"bootstrap": self.broker.bootstrap},
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
            "spark": {"url": self.spark.url},
            "lake": {"path": str(self.lake)},
            "topic": {topic: {"format": "json", "schema": SCHEMA} for topic in TOPICS},
        }

    def stop(self) -> None:
        """End everything."""
        for ward in self.wards.values():
            ward.kill()
        self.spark.stop()
        self.broker.stop()
        if self.mounted:
            shutil.copytree(self.lake, self.folder / "lake-kept", dirs_exist_ok=True)
            subprocess.run(["umount", str(self.lake)], check=False)

    def bear(self, number: int, point: str = "none", times: int = 1) -> Ward:
        """Start a consumer that dies at the given arrival at a point."""
        self.wards[number] = Ward(self, number, point, times)
        return self.wards[number]

    def listen(self, seconds: float) -> None:
        """Hear what consumers say."""
        with contextlib.suppress(LaglessError):
            for record in self.mail.drain(seconds):
                said = json.loads(record.value)
                if "kind" in said:
                    self._hear(decode(Receipt, record.value))
                elif "incarnation" in said:
                    self._hear(decode(Heartbeat, record.value))

    def _hear(self, said: Receipt | Heartbeat) -> None:
        ward = self.wards.get(said.consumer)
        if ward is None or not said.incarnation.startswith(ward.birth):
            return
        ward.incarnation = said.incarnation
        ward.held = {(topic, partition) for topic, partition, _ in said.held}
        if isinstance(said, Heartbeat):
            ward.ready = said.state == "ready"
            ward.last = said

    def order(self, ward: Ward, kind: OrderKind) -> None:
        """Order a consumer to start or stop everything, under a new generation."""
        self.generation += 1
        every = tuple((topic, p) for topic, count in TOPICS.items() for p in range(count))
        order = Order(
            group="chaos",
            kind=kind,
            consumer=ward.number,
            incarnation=ward.incarnation,
            generation=self.generation,
            partitions=every,
            at=time.time(),
        )
        for _ in range(30):
            try:
                metadata = self.settings.controller.metadata_topic
                self.writer.write(metadata, ward.number, order.encode())
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

    def run(self, ward: Ward, seconds: float = 120) -> bool:
        """Have a consumer hold everything; False if it died on the way."""
        self.until(lambda: ward.ready or not ward.alive, seconds)
        total = sum(TOPICS.values())
        end = time.monotonic() + seconds
        while ward.alive and len(ward.held) < total and time.monotonic() < end:
            self.order(ward, "start")
            self.until(lambda: len(ward.held) == total or not ward.alive, 15)
        return ward.alive and len(ward.held) == total


def _mount(folder: Path) -> bool:
    """Give the lake a small disk of its own, so that it can be filled; False where we may not."""
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
