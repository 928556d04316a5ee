"""One fault run of the whole system: its folder, its processes, what it hears and its report."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types

from lagless.adapters.kafka.watching import Watcher
from lagless.dashboard.decisions import Decisions
from lagless.embedded import counting, lifetimes, records
from lagless.embedded.spark import ConnectServer
from lagless.live import stand
from lagless.messages import Decision, Heartbeat
from lagless.settings import Settings, load

TOPICS = {"orders": 6, "clicks": 6}
SMALL = 30.0
"""Seconds of lag that count as small."""
RECOVERY = 60.0
"""Seconds after the last kill within which the lag must be small again."""


@dataclass(slots=True)
class Run:
    """One fault run: its folder, its processes and what it hears."""

    folder: Path
    dice: np.random.Generator
    settings: Settings
    connect: ConnectServer
    watcher: Watcher
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    decisions: Decisions = field(default_factory=Decisions)
    beats: dict[int, tuple[float, Heartbeat]] = field(default_factory=dict)
    consumers_max: int = 0
    restart: Thread | None = None

    @property
    def config(self) -> Path:
        """The settings file, which every process has in its command line."""
        return self.folder / "lagless.toml"

    def start(self, name: str, *words: str) -> None:
        """Start `python -m …`, with a log of its own."""
        log = self.folder / f"{name}.log"
        self.children[name] = lifetimes.bear([sys.executable, "-m", *words], log)

    def start_role(self, role: str) -> None:
        """Start monitor or controller."""
        self.start(role, "lagless", role, "--config", str(self.config))

    def listen(self) -> None:
        """Take in what the group says."""
        now = time.time()
        while found := self.watcher.read():
            for message in found:
                if isinstance(message, Decision):
                    self.decisions.take(message)
                elif isinstance(message, Heartbeat):
                    self.beats[message.consumer] = (now, message)
        self.consumers_max = max(self.consumers_max, len(self.fresh()))

    def fresh(self) -> list[Heartbeat]:
        """Give the last heartbeats of those that are heard."""
        return [beat for at, beat in self.beats.values() if time.time() - at < 8]

    def lag(self) -> float | None:
        """Give the largest lag in seconds; None while a partition has no consumer."""
        beats = [beat for beat in self.fresh() if beat.state == "ready"]
        held = {(topic, number) for beat in beats for topic, number, _ in beat.held}
        wanted = self.written()
        if not wanted or len(held) < wanted:
            return None
        return max(beat.lag_seconds for beat in beats)

    def written(self) -> int:
        """Count the partitions of the topics that have been written to."""
        return sum(TOPICS.values())

    def consumers(self) -> list[int]:
        """Give the pids of consumers that run."""
        found = []
        for file in sorted((self.folder / "consumers").glob("consumer-*.json")):
            record = json.loads(file.read_text())
            if record["pid"] and psutil.pid_exists(record["pid"]) and not record["ending_at"]:
                found.append(record["pid"])
        return found

    def kill(self, kind: str) -> str:
        """Kill something with -9, and start again what has a supervisor; give what was killed."""
        if kind == "consumer":
            alive = self.consumers()
            if not alive:
                return self.kill("monitor")
            psutil.Process(alive[int(self.dice.integers(len(alive)))]).kill()
        elif kind == "connect":
            self.join()
            self.connect.kill()
            self.restart = Thread(target=self.connect.start, name="restart", daemon=True)
            self.restart.start()
        else:
            process = self.children.pop(kind)
            process.kill()
            process.wait()
            self.start_role(kind)
        self.kills[kind] += 1
        return kind

    def join(self) -> None:
        """Wait until a Connect server that is starting is up."""
        if self.restart is not None:
            self.restart.join()
            self.restart = None

    def wait(self, seconds: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Let time go by while listening; say whether `done` came true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.listen()
            if done():
                return True
            time.sleep(0.2)
        return done()

    def arrived(self) -> int:
        """Count the records that the lake has."""
        return counting.arrived(self.folder / "lake", TOPICS)

    def left(self) -> list[str]:
        """Give the processes that have the folder in their command line."""
        found = []
        # Who started this run may name the folder too.
        mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        for process in psutil.process_iter(["cmdline", "status", "pid"]):
            words = " ".join(process.info["cmdline"] or [])
            if process.info["pid"] in mine:
                continue
            if str(self.folder) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.info['pid']} {words[:150]}")
        return found


def settle(
    folder: Path, bootstrap: str, spark: str, rate: float, tree: Mapping[str, Any]
) -> Settings:
    """Write the settings of the group, the same for all but for the tree, and read them back."""
    whole = {
        "group": "chaos",
        "topics": list(TOPICS),
        "kafka": {"bootstrap": bootstrap},
        "consumer": {"max_rate": int(rate), "batch_bytes": "1 MB", "wait_seconds": 1},
        "spark": {"url": spark},
        "lake": {"path": str(folder / "lake")},
        "topic": {topic: {"format": "json", "schema": records.SCHEMA} for topic in TOPICS},
        **tree,
    }
    config = folder / "lagless.toml"
    config.write_text(stand.toml(whole))
    return load(config, environ={})


def told(one: Run, count: counting.Count) -> dict[str, Any]:
    """Give the report's fields that follow from what was counted and heard."""
    made = one.decisions.reassignments

    def median(name: str) -> float | None:
        known = [value for value in (getattr(m, name) for m in made) if value is not None]
        return round(statistics.median(known), 3) if known else None

    late = count.delay(0.99)
    return {
        "produced": count.produced,
        "landed": count.landed,
        "lost": count.lost,
        "gone": count.gone,
        "duplicated": count.duplicated,
        "out_of_order": count.out_of_order,
        "rejected": count.rejected,
        "reassignments": len(made),
        "migrations": sum(m.migrations for m in made),
        "consumers_max": one.consumers_max,
        "lag_seconds_p99": None if late is None else round(late, 3),
        "dt1": None,
        "dt2": median("dt2"),
        "dt3": median("dt3"),
        "dt4": median("dt4"),
        "kills": dict(one.kills),
    }
