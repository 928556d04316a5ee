"""The whole system while something is killed every 20 seconds.

    python -m tests.chaos group --minutes 10 --seed S --report FILE
    python -m tests.chaos group --lake s3 --minutes 10 --seed S --report FILE
    python -m tests.chaos group --operations --minutes 10 --seed S --report FILE
    python -m tests.chaos group --network --minutes 10 --seed S --report FILE
    python -m tests.chaos group --spark cluster --minutes 10 --seed S --report FILE
    python -m tests.chaos group --brokers 3 --minutes 10 --seed S --report FILE

Broker, monitor, controller, Connect server and consumers are processes of this machine; speeds
follow a random walk with δ = 25, and double for the second half. Monitor, controller and Connect
server are started again after a kill, as a supervisor would; consumers are the controller's work.
With `--lake s3` the lake is in a bucket, whose requests meet faults too (see `buckets`). With
`--operations` the group is also paused, drained and reset (see `operations`). With `--network`
connections are cut, slowed down and held too (see `network`). `--spark` says where
Spark runs, parts of which are killed too (see `sparks`). With `--brokers 3` Kafka is a cluster,
whose leaders change (see `elections`).
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lagless.errors import LaglessError
from lagless.lab.load import flows
from lagless.lab.testbed import Listener
from lagless.wiring import controller as wiring
from tests.chaos import buckets, elections, network, operations, sparks
from tests.chaos.buckets import BucketLake
from tests.chaos.network import Network
from tests.chaos.operations import Operations
from tests.chaos.run import RECOVERY, SMALL, TOPICS, Run, count, tree
from tests.chaos.sparks import Sparks

KINDS = ("consumer", "controller", "monitor")
PARTITION = 60_000
"""Bytes/s that a partition has at most before the spike, if not told; on average half of it."""
MOST = 5
"""Consumers at most; fewer where each has a JVM."""
STEP = 10.0


def draw_flow(seconds: float, dice: np.random.Generator, speed: float) -> flows.Flow:
    """Draw the load's speeds: a walk with δ = 25, doubled later."""
    rows = int((seconds + RECOVERY + 120) / STEP) + 1
    flow = flows.walk(flows.spread(TOPICS), speed, 25, rows, dice, step=STEP, start="half")
    flow.speeds[int(seconds / 2 / STEP) :] *= 2
    return flow


def run(
    folder: Path,
    minutes: float,
    seed: int,
    every: float,
    say: Callable[[str], None],
    speed: float = PARTITION,
    bucket: BucketLake | None = None,
    spark: str = "connect",
    operate: bool = False,
    faulty_network: bool = False,
    chosen: Sequence[str] = (),
    brokers: int = 1,
) -> dict[str, Any]:
    """Run it all, and return the report."""
    dice = np.random.default_rng(seed)
    with ExitStack() as parts:
        if bucket is not None:
            parts.callback(bucket.stop)
            bucket.start()
        links = parts.enter_context(closing(Network(folder, dice))) if faulty_network else None
        listeners = {} if links is None else links.listeners
        engine = Sparks(spark, folder, seed, listeners=listeners, brokers=brokers)
        parts.callback(engine.stop)
        engine.start()
        bed = parts.enter_context(engine.bed)
        say("broker and Spark are up")
        flow = draw_flow(60 * minutes, dice, speed)
        most = MOST if spark != "local" else 3
        # The load is half of what the group can read, at its highest.
        rate = 2 * float(flow.speeds.sum(axis=1).max()) / most
        lake = {} if bucket is None else {"lake": bucket.settings}
        settings, config = bed.settle(
            tree(
                rate,
                **lake,
                **engine.settings,
                monitor={"interval": 2, "window": 10},
                controller={"iteration": 20, "pause": 5, "catch_up": 30, "max_consumers": most},
            )
        )
        one = Run(bed, dice, settings, config, Listener(settings), bucket=bucket, engine=engine)
        kinds = [*KINDS, *engine.kinds, *(buckets.KINDS if bucket is not None else ())]
        if operate:
            one.operations = Operations(config, TOPICS, dice, one.arrived)
        roles = ["monitor", "controller"]
        one.elections = elections.of(bed, TOPICS, seed)
        if one.elections is not None:
            bed.make_topics(TOPICS)
            kinds += elections.KINDS
        if links is not None:
            links.start(bed)
            one.network = links
            roles.append("standby")
            kinds += network.KINDS
        faults = one.deal(chosen or [*kinds, *(operations.KINDS if operate else ())])
        try:
            for role in roles:
                one.start_role(role)
            bed.start_load(flow)
            say("waiting until every partition has a reader")
            started = one.wait(180, lambda: one.lag() is not None)
            say(f"the group reads: {started}")
            began = time.monotonic()
            while time.monotonic() - began < 60 * minutes:
                one.wait(every)
                killed = one.kill(next(faults))
                lag = one.lag()
                say(
                    f"{time.monotonic() - began:.0f} s: {killed}, lag {lag}, "
                    f"{len(one.listener.fresh())} consumers heard"
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
            bed.children.end(patience=5)
            wiring.end_consumers(settings)
            one.listener.close()
    report["recovered_seconds"] = recovered
    report["left"] = one.left()
    return report


def finish(one: Run, say: Callable[[str], None]) -> dict[str, Any]:
    """Stop the load, let consumers read what is left, end everything and count."""
    tally = one.bed.end_load()
    say(f"{tally.records} records were produced")
    if one.operations is None:
        one.wait(240, lambda: one.arrived() >= tally.records)
    else:
        one.wait(240, lambda: operations.caught_up(one.settings, tally.produced))
    one.bed.children.end()
    wiring.end_consumers(one.settings)
    return count(one, tally.produced)


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
    parser.add_argument("--lake", choices=("folder", "s3"), default="folder")
    parser.add_argument("--spark", choices=sparks.MODES, default="connect")
    parser.add_argument("--operations", action="store_true", help="pause, drain and reset too")
    parser.add_argument("--network", action="store_true", help="cut and slow connections too")
    parser.add_argument("--brokers", type=int, default=1, help="of Kafka; from 2 on a cluster")
    parser.add_argument("--kinds", help="faults, with commas between; all by default")
    asked = parser.parse_args(arguments)
    if asked.provisioner == "kubernetes" and (
        asked.lake == "s3" or asked.spark != "connect" or asked.operations or asked.network
    ):
        parser.error(
            "--lake s3, --spark, --operations and --network need consumers that are processes"
        )
    if asked.network and asked.spark != "connect":
        parser.error("--network needs --spark connect")
    if asked.brokers > 1 and (asked.network or asked.provisioner == "kubernetes"):
        parser.error("--brokers needs consumers that are processes, and no --network")
    folder = asked.data_dir or Path(tempfile.mkdtemp(prefix="lagless-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    bucket = BucketLake(folder.resolve(), asked.seed) if asked.lake == "s3" else None
    play: Callable[..., dict[str, Any]] = partial(
        run,
        bucket=bucket,
        spark=asked.spark,
        operate=asked.operations,
        faulty_network=asked.network,
        chosen=asked.kinds.split(",") if asked.kinds else [],
        brokers=asked.brokers,
    )
    judge = is_good
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
    """Return whether nothing was lost, doubled, disordered, late or left."""
    late = report["recovered_seconds"] is None
    wrong = ("lost", "duplicated", "out_of_order", "holes", "read_while_paused")
    failed = report["left"] or report.get("failed_operations") or report.get("acts_while_cut")
    failed = failed or report.get("taken_over", 0) < report["kills"].get(network.SPLIT, 0)
    return not late and not failed and all(report.get(name, 0) == 0 for name in wrong)
