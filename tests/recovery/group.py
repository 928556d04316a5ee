"""A small group that runs as it would on a machine, for recoveries by commands.

Monitor and controller run under a supervisor, as with systemd. The page's commands run in a shell
in which `systemctl restart` reaches that supervisor, and `kafka-topics.sh` makes topics as Kafka's
does.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from lagless import settings
from lagless.lab.parts import children
from lagless.lab.parts.broker import Broker
from lagless.lab.testbed import toml
from lagless.wiring import clock
from lagless.wiring import controller as wiring
from tests.waiting import until

PARTITIONS = 2
ROLES = ("monitor", "controller")
SYSTEMCTL = """#!/usr/bin/env bash
# restart NAME…: end a role, and wait until its supervisor has started it again.
shift
for name in "$@"; do
    file="{folder}/$name.pid"; old=$(cat "$file"); kill "$old"
    until [ "$(cat "$file")" != "$old" ]; do sleep 0.1; done
done
"""
TOPICS = """#!{python}
# What Kafka's tool of this name does with --create; the tool is not among the broker's jars.
import argparse
from lagless.lab.load import records
parser = argparse.ArgumentParser()
parser.add_argument("--create", action="store_true", required=True)
parser.add_argument("--bootstrap-server")
parser.add_argument("--topic")
parser.add_argument("--partitions", type=int)
asked = parser.parse_args()
records.make_topics(asked.bootstrap_server, {{asked.topic: asked.partitions}})
"""


class Group:
    """The group, its lake in `folder`/srv/lake, and every number that was produced."""

    def __init__(self, folder: Path, brokers: Mapping[str, Broker], spark: str) -> None:
        self.folder = folder
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        self.lake = folder / "srv" / "lake"
        self.brokers = brokers
        """By the name that the page has for each."""
        self.produced: list[int] = []
        self._bin = folder / "bin"
        self._end = threading.Event()
        self._supervisors: list[threading.Thread] = []
        self.lake.mkdir(parents=True)
        tree = {
            "group": f"shop-{self.topic}",
            "topics": [self.topic],
            "kafka": {"bootstrap": brokers["kafka-1:9092"].bootstrap},
            "spark": {"url": spark},
            "lake": {"path": str(self.lake)},
            "provisioner": {"directory": str(folder / "consumers")},
            "monitor": {"interval": 1, "window": 5},
            "controller": {"iteration": 5, "rebalance": 1, "pause": 0},
            "consumer": {"heartbeat": 0.5, "lost_after": 6, "order_deadline": 8},
            "topic": {self.topic: {"format": "json", "schema": "n BIGINT"}},
        }
        (folder / "lagless.toml").write_text(toml(tree))
        self._equip()
        self.settings = settings.load(folder / "lagless.toml", environ={})

    def start(self) -> None:
        """Start the roles."""
        for role in ROLES:
            thread = threading.Thread(target=self._supervise, args=(role,), daemon=True)
            thread.start()
            self._supervisors.append(thread)

    def _equip(self) -> None:
        """Put the shell's commands into a folder."""
        self._bin.mkdir()
        for name, text in {
            "systemctl": SYSTEMCTL.format(folder=self.folder),
            "kafka-topics.sh": TOPICS.format(python=sys.executable),
            "lagless": f'#!/bin/sh\nexec "{sys.executable}" -m lagless "$@"\n',
            "python3": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        }.items():
            (self._bin / name).write_text(text)
            (self._bin / name).chmod(0o755)

    def stop(self) -> None:
        """End the roles and the consumers."""
        self._end.set()
        for thread in self._supervisors:
            thread.join(30)
        wiring.end_consumers(self.settings)

    def _supervise(self, role: str) -> None:
        words = [sys.executable, "-m", "lagless", role, "--config", "lagless.toml"]
        environment = {**os.environ, clock.END_WITH: str(os.getpid())}
        log = self.folder / f"{role}.log"
        while not self._end.is_set():
            process = children.start(words, log, env=environment, cwd=self.folder)
            (self.folder / f"lagless-{role}.pid").write_text(str(process.pid))
            while process.poll() is None and not self._end.is_set():
                time.sleep(0.1)
            children.end(process)

    def shell(self, text: str) -> str:
        """Run commands of the page, with this group's folder and brokers; return what they say."""
        text = text.replace("orders", self.topic).replace("/srv/", f"{self.folder}/srv/")
        for name, broker in self.brokers.items():
            text = text.replace(name, broker.bootstrap)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def produce(self, count: int, broker: str = "kafka-1:9092") -> None:
        """Produce numbers that were not there before, and wait until the broker has them."""
        producer = Producer({"bootstrap.servers": self.brokers[broker].bootstrap, "log_level": 0})
        first = len(self.produced)
        numbers = range(first, first + count)
        for n in numbers:
            producer.produce(self.topic, json.dumps({"n": n}), partition=n % PARTITIONS)
        assert producer.flush(30) == 0
        self.produced += numbers

    def delete_topics(self, *names: str) -> None:
        """Delete topics of the first broker, and wait until they are gone."""
        admin = AdminClient({"bootstrap.servers": self.brokers["kafka-1:9092"].bootstrap})
        for deleted in admin.delete_topics(list(names)).values():
            deleted.result(30)

        def gone() -> bool:
            return admin.list_topics(timeout=10).topics.keys().isdisjoint(names)

        until(gone, f"the end of {names}")

    def rows(self) -> Counter[int]:
        """Return how often each number is in the table."""
        table = DeltaTable(str(self.lake / self.topic))
        return Counter(table.to_pyarrow_table(columns=["n"])["n"].to_pylist())

    def landed(self, numbers: list[int] | None = None, seconds: float = 120) -> Counter[int]:
        """Wait until all of these numbers are in the table, or all that were produced."""
        wanted = set(self.produced if numbers is None else numbers)

        def all_there() -> Counter[int] | None:
            with contextlib.suppress(Exception):  # the table is not there yet, or being restored
                rows = self.rows()
                return rows if wanted <= rows.keys() else None
            return None

        return until(all_there, f"{len(wanted)} records", seconds)
