"""The whole system while something is killed every 20 seconds.

    python -m tests.chaos group --minutes 10 --seed S --report FILE

Broker, monitor, controller, Connect server and consumers are processes of this machine; speeds
follow a random walk with δ = 25, and double for the second half. Monitor, controller and Connect
server are started again after a kill, as a supervisor would; consumers are the controller's work.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types

from lagless.adapters.kafka.watching import Watcher
from lagless.dashboard.decisions import Decisions
from lagless.embedded import counting, flows, lifetimes, records
from lagless.embedded.broker import Broker
from lagless.embedded.spark import ConnectServer
from lagless.embedded.tally import Tally
from lagless.errors import LaglessError
from lagless.messages import Decision, Heartbeat
from lagless.settings import Settings, load
from lagless.wiring import controller as wiring

TOPICS = {"orders": 6, "clicks": 6}
KINDS = ("consumer", "controller", "monitor", "connect")
PARTITION = 60_000
"""Bytes/s that a partition has at most before the spike, if not told; on average half of it."""
MOST = 5
"""Consumers at most."""
STEP = 10.0
RECOVERY = 60.0
"""Seconds after the last kill within which the lag must be small again."""
SMALL = 30.0
"""Seconds of lag that count as small."""
SETTINGS = """
group = "chaos"
topics = {topics}
[kafka]
bootstrap = "{bootstrap}"
[monitor]
interval = 2
window = 10
[controller]
iteration = 20
pause = 5
catch_up = 30
max_consumers = {most}
[consumer]
max_rate = {rate}
batch_bytes = "1 MB"
wait_seconds = 1
[spark]
url = "{spark}"
[lake]
path = "{lake}"
[provisioner]
directory = "{consumers}"
"""


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
        if len(held) < sum(TOPICS.values()):
            return None
        return max(beat.lag_seconds for beat in beats)

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


def write_flow(
    folder: Path, seconds: float, dice: np.random.Generator, speed: float
) -> tuple[Path, float]:
    """Write the load's speeds, a walk with δ = 25, doubled later; give the highest sum too."""
    partitions = flows.spread(TOPICS)
    rows = int((seconds + RECOVERY + 120) / STEP) + 1
    flow = flows.walk(partitions, speed, 25, rows, dice, step=STEP, start="half")
    speeds = flow.speeds.copy()
    speeds[int(seconds / 2 / STEP) :] *= 2
    file = folder / "load.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([f"{p.topic}:{p.partition}" for p in partitions])
        writer.writerows([f"{speed:.0f}" for speed in row] for row in speeds.tolist())
    return file, float(speeds.sum(axis=1).max())


def run(
    folder: Path,
    minutes: float,
    seed: int,
    every: float,
    say: Callable[[str], None],
    speed: float = PARTITION,
) -> dict[str, Any]:
    """Run it all, and give the report."""
    dice = np.random.default_rng(seed)
    connect = ConnectServer(folder / "connect", warm=False)
    with Broker(folder / "broker") as broker, connect:
        say("broker and Connect server are up")
        connect.warm_up(broker.bootstrap)
        file, peak = write_flow(folder, 60 * minutes, dice, speed)
        # The load is half of what the group can read, at its highest.
        one = prepare(folder, broker.bootstrap, connect, dice, 2 * peak / MOST)
        try:
            for role in ("monitor", "controller"):
                one.start_role(role)
            words = ["--bootstrap", broker.bootstrap, "--flow", "replay", "--file", str(file)]
            words += ["--step", f"{STEP:g}", "--tally", str(folder / "tally.json")]
            one.start("load", "lagless.embedded.load", *words)
            say("waiting until every partition has a reader")
            started = one.wait(180, lambda: one.lag() is not None)
            say(f"the group reads: {started}")
            began = time.monotonic()
            while time.monotonic() - began < 60 * minutes:
                one.wait(every)
                killed = one.kill(KINDS[int(dice.integers(len(KINDS)))])
                lag = one.lag()
                say(
                    f"{time.monotonic() - began:.0f} s: killed {killed}, lag {lag}, "
                    f"{len(one.fresh())} consumers heard"
                )
            one.join()
            last = time.monotonic()
            one.wait(5)
            small = one.wait(3 * RECOVERY, lambda: (one.lag() or 10**9) < SMALL)
            recovered = time.monotonic() - last if small else None
            say(f"lag under {SMALL:g} s again after {recovered} s")
            report = finish(one, say)
        finally:
            one.join()
            for process in one.children.values():
                lifetimes.end(process, 5)
            wiring.end_consumers(one.settings)
            one.watcher.close()
    report["recovered_seconds"] = recovered
    report["left"] = one.left()
    return report


def prepare(
    folder: Path,
    bootstrap: str,
    connect: ConnectServer,
    dice: np.random.Generator,
    rate: float,
) -> Run:
    """Write the settings and begin to listen."""
    text = SETTINGS.format(
        topics=json.dumps(list(TOPICS)),
        bootstrap=bootstrap,
        rate=int(rate),
        most=MOST,
        spark=connect.url,
        lake=folder / "lake",
        consumers=folder / "consumers",
    )
    for topic in TOPICS:
        text += f'\n[topic.{topic}]\nformat = "json"\nschema = "{records.SCHEMA}"\n'
    config = folder / "lagless.toml"
    config.write_text(text)
    settings = load(config, environ={})
    return Run(folder, dice, settings, connect, Watcher(settings))


def finish(one: Run, say: Callable[[str], None]) -> dict[str, Any]:
    """Stop the load, let consumers read what is left, end everything and count."""
    load_process = one.children.pop("load")
    load_process.send_signal(signal.SIGTERM)
    load_process.wait(60)
    tally = Tally.load(one.folder / "tally.json")
    say(f"{tally.records} records were produced")
    one.wait(240, lambda: one.arrived() >= tally.records)
    for role in ("controller", "monitor"):
        lifetimes.end(one.children.pop(role), 10)
    wiring.end_consumers(one.settings)
    count = counting.count(one.folder / "lake", {topic: topic for topic in TOPICS}, tally.produced)
    return told(one, count)


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


def main(arguments: Sequence[str]) -> int:
    """Run it by command; exit 1 if anything was lost, doubled, disordered, late or left."""
    parser = argparse.ArgumentParser("python -m tests.chaos group", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--every", type=float, default=20, help="seconds between kills")
    parser.add_argument("--speed", type=float, default=PARTITION, help="bytes/s per partition")
    parser.add_argument("--data-dir", type=Path, help="keep everything here")
    kinds = ("processes", "kubernetes")
    parser.add_argument("--provisioner", choices=kinds, default="processes")
    asked = parser.parse_args(arguments)
    folder = asked.data_dir or Path(tempfile.mkdtemp(prefix="lagless-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    play, judge = run, is_good
    if asked.provisioner == "kubernetes":
        from tests.chaos import pods

        play, judge = pods.run, pods.is_good

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} {text}", file=sys.stderr, flush=True)

    try:
        report = play(folder.resolve(), asked.minutes, asked.seed, asked.every, say, asked.speed)
    except LaglessError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 1
    finally:
        if asked.data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    if asked.report is not None:
        asked.report.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report))
    return 0 if judge(report) else 1


def is_good(report: dict[str, Any]) -> bool:
    """Say whether nothing was lost, doubled, disordered, late or left."""
    late = report["recovered_seconds"] is None or report["recovered_seconds"] > RECOVERY
    wrong = ("lost", "duplicated", "out_of_order")
    return not late and not report["left"] and all(report[name] == 0 for name in wrong)
