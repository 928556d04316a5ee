"""End-to-end latency: from a record's timestamp to the commit that makes it readable in the lake.

`live_findings.delay` says what is compared; the same stream and the same limits for all.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lagless.history import History
from lagless.lab import report
from lagless.lab.live import live_stream
from lagless.lab.live.journal import Journal
from lagless.lab.live.live_stream import PACKED
from lagless.lab.load import records
from lagless.lab.model.latency import Latency
from lagless.lab.paper import experiments
from lagless.lab.testbed import Listener, Testbed
from lagless.settings import Settings
from lagless.wiring import controller as wiring

TOPIC = "delay"
SILENT = 6.0
"""Seconds without a heartbeat after which a consumer does not count."""
START = 120.0


def tree(algorithm: str) -> dict[str, Any]:
    """Return the settings of every group."""
    times = {"iteration": live_stream.ITERATION, "rebalance": live_stream.REBALANCE}
    limits = {"pause": 5, "catch_up": 30, "max_consumers": live_stream.PARTITIONS}
    # Algorithms are compared, so that each of their answers is followed.
    limits |= {"dead_band": 0, "shrink_after": 0, "max_move": 1}
    return {
        "group": "delay",
        "topics": [TOPIC],
        "monitor": {"interval": 2, "window": 10},
        "controller": {"algorithm": algorithm, **times, **limits},
        "consumer": {"max_rate": live_stream.MAX_RATE, "wait_seconds": 2},
        "topic": {TOPIC: {"format": "json", "schema": records.SCHEMA}},
    }


def run(journal: Journal, minutes: float, seed: int) -> None:
    """Run the groups that the journal lacks."""
    stream = live_stream.stream(minutes, seed)
    for name in PACKED:
        _run_group(journal, name, stream, seed)
    for name in counted(journal.all("runs")):
        _run_group(journal, name, stream, seed)
    journal.finish(machine=report.machine())


def counted(runs: list[dict[str, Any]]) -> list[str]:
    """Return the names of the fixed groups: as large as each packed run on average, rounded up."""
    sizes = {int(np.ceil(row["consumers"])) for row in runs if row["name"] in PACKED}
    return [f"kd_{size}" for size in sorted(sizes)]


def _run_group(journal: Journal, name: str, stream: live_stream.Stream, seed: int) -> None:
    there = journal.all("runs")
    total = 100 * (len(PACKED) + (len(counted(there)) or len(PACKED)))
    if any(row["name"] == name for row in there):
        return
    done = 100 * len(there)
    journal.say(f"delay: {name}")
    with Testbed() as bed:
        settings, config = bed.settle(tree(name if name in PACKED else "sticky"))
        history = History()
        if name in PACKED:
            group = packed(bed, settings, config, history)
        else:
            group = fixed(bed, config, int(name.removeprefix("kd_")))
        measured = live_stream.run(
            bed, TOPIC, stream, group, lambda percent: journal.progress(done + percent, total)
        )
    model = experiments.waited(
        name, stream.speeds, live_stream.CAPACITY, live_stream.MODEL, "fixed", seed
    )
    moved = {
        "reassignments": len(history.reassignments),
        "migrations": sum(reassignment.migrations for reassignment in history.reassignments),
    }
    journal.note("runs", {"name": name, **measured, **moved, "model": predicted(model)})
    journal.progress(done + 100, total)


@contextlib.contextmanager
def packed(
    bed: Testbed, settings: Settings, config: Path, history: History
) -> Iterator[Callable[[float], int]]:
    """Run monitor, controller and whatever consumers it starts."""

    listener = Listener(settings, history)

    def size(_: float) -> int:
        listener.listen()
        return sum(beat.state != "ending" for beat in listener.fresh(SILENT))

    for role in ("monitor", "controller"):
        bed.start_role(role, config)
    try:
        yield size
    finally:
        bed.children.end("controller", patience=5)
        wiring.end_consumers(settings)
        bed.children.end("monitor", patience=5)
        listener.close()


@contextlib.contextmanager
def fixed(bed: Testbed, config: Path, size: int) -> Iterator[Callable[[float], int]]:
    """Run a fixed group, partition i to consumer i mod n + 1; all read before the load begins."""
    names = [f"consumer-{consumer}" for consumer in range(1, size + 1)]
    for consumer, name in enumerate(names, 1):
        mine = ",".join(map(str, range(consumer - 1, live_stream.PARTITIONS, size)))
        words = ["consumer", str(consumer), "--config", str(config)]
        bed.start_module(name, "lagless", *words, "--assign", f"{TOPIC}:{mine}")
    log = bed.lake / TOPIC / "_delta_log"
    # Each consumer commits its claim before it reads.
    claimed = lambda: len(list(log.glob("*.json"))) >= size  # noqa: E731
    bed.until(claimed, "the fixed group does not claim its partitions", START)
    try:
        yield lambda _: size
    finally:
        bed.children.end(*names, patience=15)


def predicted(found: Latency) -> dict[str, float]:
    """Return the model's prediction for all bytes, not only the late ones as `lagless latency`."""
    late = found.late.total / found.bytes if found.bytes else 0.0

    def quantile(q: float) -> float:
        return 0.0 if q <= 1 - late else found.late.quantile((q - (1 - late)) / late)

    return {
        "consumers": round(found.consumers, 2),
        "late": round(late, 4),
        **{f"p{q:g}": round(quantile(q / 100), 3) for q in (50, 90, 99)},
        "max": round(found.late.max, 3),
    }
