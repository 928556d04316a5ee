"""One fault run of the whole system: its folder, its processes, what it hears and its report."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types

from lagless.adapters.lake import store
from lagless.adapters.lake.store import Store
from lagless.lab import demo_summary
from lagless.lab.load import counting, records
from lagless.lab.load.account import Counts
from lagless.lab.testbed import Listener, Testbed
from lagless.settings import Settings
from tests.chaos import buckets, elections, network, operations
from tests.chaos.buckets import BucketLake
from tests.chaos.elections import Elections
from tests.chaos.network import Network
from tests.chaos.operations import Operations
from tests.chaos.sparks import Sparks

TOPICS = {"orders": 6, "clicks": 6}
SMALL = 30.0
"""Seconds of lag that count as small."""
RECOVERY = 60.0
"""Seconds after the last kill within which the lag is small again on a machine that does nothing
else. A run reports how long it took, and fails after three times as long."""


@dataclass(slots=True)
class Run:
    """One fault run: its folder, its processes and what it hears."""

    bed: Testbed
    dice: np.random.Generator
    settings: Settings
    config: Path
    listener: Listener
    kills: Counter[str] = field(default_factory=Counter)
    restart: Thread | None = None
    bucket: BucketLake | None = None
    engine: Sparks | None = None
    operations: Operations | None = None
    network: Network | None = None
    elections: Elections | None = None

    @property
    def lake(self) -> Store:
        """The tables, past any fault of the lake."""
        return store.of(self.settings.lake) if self.bucket is None else self.bucket.store

    def deal(self, kinds: Sequence[str]) -> Iterator[str]:
        """Return faults for ever, each kind as often as every other."""
        while True:
            yield from (kinds[int(i)] for i in self.dice.permutation(len(kinds)))

    def lag(self) -> float | None:
        """Return the largest lag in seconds; None while a partition has no consumer."""
        beats = [beat for beat in self.listener.fresh() if beat.state == "ready"]
        held = {(topic, number) for beat in beats for topic, number, _ in beat.held}
        wanted = self.written()
        if not wanted or len(held) < wanted:
            return None
        return max(beat.lag_seconds for beat in beats)

    def written(self) -> int:
        """Count the partitions of the topics that have been written to."""
        return sum(TOPICS.values())

    def consumers(self) -> list[int]:
        """Return the pids of consumers that run."""
        found = []
        for file in sorted((self.bed.folder / "consumers").glob("consumer-*.json")):
            record = json.loads(file.read_text())
            if record["pid"] and psutil.pid_exists(record["pid"]) and not record["ending_at"]:
                found.append(record["pid"])
        return found

    def kill(self, kind: str) -> str:
        """Kill something with -9, and start again what has a supervisor; give what was killed.

        What can happen to requests to a bucket is let happen.
        """
        if self.bucket is not None and kind in buckets.KINDS:
            self.bucket.misbehave(kind, lambda done, seconds: self.wait(seconds, done))
        elif self.network is not None and kind in network.KINDS:
            done = self.network.misbehave(kind, self.bed, self.wait)
            self.kills[kind] += 1
            return done
        elif self.elections is not None and kind in elections.KINDS:
            done = self.elections.hold(self.wait)
            self.kills[kind] += 1
            return done
        elif self.operations is not None and kind in operations.KINDS:
            return self.operations.carry_out(kind, lambda: self.kill("consumer"))
        elif self.engine is not None and kind in self.engine.kinds and kind != "connect":
            self.engine.kill(kind, self.consumers)
        elif kind == "consumer":
            alive = self.consumers()
            if not alive:
                return self.kill("monitor")
            psutil.Process(alive[int(self.dice.integers(len(alive)))]).kill()
        elif kind == "connect":
            self.join()
            self.bed.connect.kill()
            self.restart = Thread(target=self.bed.connect.start, name="restart", daemon=True)
            self.restart.start()
        else:
            self.bed.children.kill(kind)
            self.start_role(kind)
        self.kills[kind] += 1
        return kind

    def start_role(self, role: str) -> None:
        """Start the monitor or a controller."""
        if self.network is None:
            self.bed.start_role(role, self.config)
        else:
            self.network.start_role(self.bed, role, self.config)

    def join(self) -> None:
        """Wait until a Connect server that is starting is up."""
        if self.restart is not None:
            self.restart.join()
            self.restart = None

    def wait(self, seconds: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Listen for so many seconds, or until `done`; return whether it is."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.listener.listen()
            if done():
                return True
            time.sleep(0.2)
        return done()

    def arrived(self) -> int:
        """Count the records that the lake has."""
        return counting.arrived(self.lake, TOPICS)

    def left(self) -> list[str]:
        """Return the processes that have the folder in their command line."""
        found = []
        # The process that started this run may name the folder too.
        mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        for process in psutil.process_iter(["cmdline", "status", "pid"]):
            words = " ".join(process.info["cmdline"] or [])
            if process.info["pid"] in mine:
                continue
            if str(self.bed.folder) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.info['pid']} {words[:150]}")
        return found


def tree(rate: float, **more: Any) -> dict[str, Any]:
    """Return the settings of a group, the same for all but for `more`."""
    return {
        "group": "chaos",
        "topics": list(TOPICS),
        "consumer": {"max_rate": int(rate), "batch_bytes": "1 MB", "wait_seconds": 1},
        "topic": {topic: {"format": "json", "schema": records.SCHEMA} for topic in TOPICS},
        **more,
    }


def count(run: Run, produced: Counts) -> dict[str, Any]:
    """Count the lake, and return the report's fields."""
    met = {} if run.bucket is None else run.bucket.calm()
    counted = counting.count(run.lake, {topic: topic for topic in TOPICS}, produced)
    return {
        **demo_summary.make(counted, run.listener).fields(),
        "holes": buckets.holes(run.lake),
        "kills": dict(run.kills),
        **met,
        **({} if run.network is None else run.network.report()),
        **({} if run.elections is None else run.elections.report()),
        **({} if run.operations is None else run.operations.report(run.lake, produced)),
    }
