"""The whole system while something is killed every 20 seconds.

    python -m tests.chaos group --minutes 10 --seed S --report FILE

Broker, monitor, controller, Connect server and consumers are processes of this machine; speeds
follow a random walk with δ = 25, and double for the second half. Monitor, controller and Connect
server are started again after a kill, as a supervisor would; consumers are the controller's work.
"""

import argparse
import csv
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lagless.adapters.kafka.watching import Watcher
from lagless.embedded import counting, flows, lifetimes
from lagless.embedded.broker import Broker
from lagless.embedded.spark import ConnectServer
from lagless.embedded.tally import Tally
from lagless.errors import LaglessError
from lagless.wiring import controller as wiring
from tests.chaos.run import RECOVERY, SMALL, TOPICS, Run, settle, told

KINDS = ("consumer", "controller", "monitor", "connect")
PARTITION = 60_000
"""Bytes/s that a partition has at most before the spike, if not told; on average half of it."""
MOST = 5
"""Consumers at most."""
STEP = 10.0


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
    tree = {
        "monitor": {"interval": 2, "window": 10},
        "controller": {"iteration": 20, "pause": 5, "catch_up": 30, "max_consumers": MOST},
        "provisioner": {"directory": str(folder / "consumers")},
    }
    settings = settle(folder, bootstrap, connect.url, rate, tree)
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
