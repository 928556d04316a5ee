"""End-to-end latency: from a record's timestamp to the commit that makes it readable in the lake.

lagless with MWF and with sticky against groups of fixed size with Kafka's assignment by count
(kd_n), which run the same consumer by hand, with as many consumers as lagless used on average; the
same stream and the same limits for all. Beside it the paper's model on the same stream.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lagless.adapters.kafka.watching import Watcher
from lagless.dashboard.decisions import Decisions
from lagless.embedded import holdings, records
from lagless.evaluation import experiments
from lagless.live import bench, machine, stand, traffic
from lagless.live.journal import Journal
from lagless.live.traffic import PACKED
from lagless.messages import Decision, Heartbeat
from lagless.settings import Settings
from lagless.simulation.latency import Latency
from lagless.wiring import controller as wiring

TOPIC = "delay"
SILENT = 6.0
"""Seconds without a heartbeat after which a consumer does not count."""
START = 120.0


def tree(algorithm: str) -> dict[str, Any]:
    """Give the settings of every group."""
    return {
        "group": "delay",
        "topics": [TOPIC],
        "monitor": {"interval": 2, "window": 10},
        "controller": {
            "algorithm": algorithm,
            "iteration": traffic.ITERATION,
            "rebalance": traffic.REBALANCE,
            "pause": 5,
            "catch_up": 30,
            "max_consumers": traffic.PARTITIONS,
        },
        "consumer": {"max_rate": traffic.MAX_RATE, "wait_seconds": 2},
        "topic": {TOPIC: {"format": "json", "schema": records.SCHEMA}},
    }


def run(
    journal: Journal,
    minutes: float,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
) -> None:
    """Run the groups that are not there yet."""
    stream = traffic.stream(minutes, seed)
    for name in PACKED:
        _one(journal, name, stream, seed, tell, told)
    for name in counted(journal.all("runs")):
        _one(journal, name, stream, seed, tell, told)
    journal.finish(machine=machine.facts())


def counted(runs: list[dict[str, Any]]) -> list[str]:
    """Name the fixed groups: as many consumers as each packed run used, rounded up."""
    sizes = {int(np.ceil(row["consumers"])) for row in runs if row["name"] in PACKED}
    return [f"kd_{size}" for size in sorted(sizes)]


def _one(
    journal: Journal,
    name: str,
    stream: traffic.Stream,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
) -> None:
    there = journal.all("runs")
    total = 100 * (len(PACKED) + (len(counted(there)) or len(PACKED)))
    if any(row["name"] == name for row in there):
        return
    done = 100 * len(there)
    tell(f"delay: {name}")
    with stand.raised(tell, spark=True) as here:
        settings, config = here.settle("delay", tree(name if name in PACKED else "sticky"))
        decisions = Decisions()
        group = (
            packed(here, settings, config, decisions)
            if name in PACKED
            else fixed(here, config, int(name.removeprefix("kd_")))
        )
        found = bench.run(
            here,
            settings.lake.path,
            TOPIC,
            stream,
            group,
            lambda x: told(done + int(99 * x), total),
        )
    made = decisions.reassignments
    model = experiments.waited(name, stream.speeds, traffic.CAPACITY, traffic.MODEL, "fixed", seed)
    journal.note(
        "runs",
        {
            "name": name,
            **found,
            "reassignments": len(made),
            "migrations": sum(one.migrations for one in made),
            "model": predicted(model),
        },
    )
    told(done + 100, total)


@contextlib.contextmanager
def packed(
    here: stand.Stand, settings: Settings, config: Path, decisions: Decisions
) -> Iterator[Callable[[float], int]]:
    """Run monitor, controller and whatever consumers it starts."""
    watcher = Watcher(settings)
    heard: dict[int, float] = {}

    def size(_: float) -> int:
        now = time.time()
        for message in watcher.read():
            if isinstance(message, Heartbeat):
                heard[message.consumer] = 0.0 if message.state == "ending" else now
            elif isinstance(message, Decision):
                decisions.take(message)
        return sum(now - at < SILENT for at in heard.values())

    for role in ("monitor", "controller"):
        here.start(role, "lagless", role, "--config", str(config))
    try:
        yield size
    finally:
        here.children.end("controller", patience=5)
        wiring.end_consumers(settings)
        here.children.end("monitor", patience=5)
        watcher.close()


@contextlib.contextmanager
def fixed(here: stand.Stand, config: Path, size: int) -> Iterator[Callable[[float], int]]:
    """Run a fixed group, partition i to consumer i mod n + 1; all read before the load begins."""
    holdings.make_topics(here.broker.bootstrap, {TOPIC: traffic.PARTITIONS})
    names = []
    for consumer in range(1, size + 1):
        mine = [str(p) for p in range(traffic.PARTITIONS) if p % size + 1 == consumer]
        words = ["consumer", str(consumer), "--config", str(config)]
        name = f"consumer-{consumer}"
        here.start(name, "lagless", *words, "--assign", f"{TOPIC}:{','.join(mine)}")
        names.append(name)
    log = here.folder / "delay" / "lake" / TOPIC / "_delta_log"
    until = time.monotonic() + START
    # Each consumer commits its claim before it reads.
    while len(list(log.glob("*.json"))) < size and time.monotonic() < until:
        here.children.check()
        time.sleep(0.2)
    try:
        yield lambda _: size
    finally:
        here.children.end(*names, patience=15)


def predicted(found: Latency) -> dict[str, float]:
    """Give what the model says: of all bytes, not only of the late ones as `lagless latency`."""
    late = found.late.total / found.bytes if found.bytes else 0.0

    def quantile(q: float) -> float:
        return 0.0 if q <= 1 - late else found.late.quantile((q - (1 - late)) / late)

    return {
        "consumers": round(found.consumers, 2),
        "late": round(late, 4),
        **{f"p{q:g}": round(quantile(q / 100), 3) for q in (50, 90, 99)},
        "max": round(found.late.max, 3),
    }
