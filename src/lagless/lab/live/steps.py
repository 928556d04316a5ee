"""Δt1: from a step in a partition's write speed until the monitor publishes one within 5 % of it.

`live_findings.steps` says how; the answer counts from when a reader of the monitor's topic has it.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from lagless.adapters.kafka.topic_watch import Watcher
from lagless.lab import report
from lagless.lab.live.journal import Journal
from lagless.lab.load import flows
from lagless.lab.load.flows import Flow
from lagless.lab.load.load import Load
from lagless.lab.testbed import Testbed
from lagless.messages import WriteSpeeds

NEAR = 0.05
"""How close to the new speed the published one has to be, relatively."""
PARTITIONS = 8
SLOWEST, FASTEST = 60_000.0, 400_000.0
"""Bytes/s that levels are drawn between."""
FACTOR = 1.5
"""A level is at least so many times the one before, or that much less."""
ROW = 0.5
"""Seconds of a row of the flow."""
TOPIC = "steps"

Heard = Sequence[tuple[float, float]]
"""When a speed was heard, and the speed."""


@dataclass(frozen=True, slots=True)
class Step:
    """A partition changes its speed at a time; `until` is its next change."""

    partition: int
    at: float
    until: float


def levels(count: int, rng: np.random.Generator) -> list[float]:
    """Draw speeds, each well away from the one before."""
    drawn: list[float] = []
    while len(drawn) < count:
        new = float(np.exp(rng.uniform(np.log(SLOWEST), np.log(FASTEST))))
        if not drawn or max(new, drawn[-1]) >= FACTOR * min(new, drawn[-1]):
            drawn.append(new)
    return drawn


def plan(
    steps: int, window: float, interval: float, rng: np.random.Generator
) -> tuple[Flow, list[Step]]:
    """Return the flow and its steps, in seconds from the load's start.

    Steps of different partitions fall anywhere between two measurements.
    """
    partitions = min(PARTITIONS, steps)
    each = -(-steps // partitions)
    quiet, dwell = window + 2 * interval, window + 3 * interval
    seconds = quiet + each * dwell + interval
    speeds = np.empty((int(seconds / ROW) + 1, partitions))
    found: list[Step] = []
    for j in range(partitions):
        drawn = levels(each + 1, rng)
        shift = round(rng.uniform(0, interval) / ROW) * ROW
        changes = [quiet + shift + k * dwell for k in range(each + 1)]
        speeds[:, j] = drawn[0]
        for k in range(each):
            speeds[int(changes[k] / ROW) :, j] = drawn[k + 1]
            found.append(Step(j, changes[k], min(changes[k + 1], seconds)))
    flow = Flow(flows.spread({TOPIC: partitions}), speeds, ROW)
    return flow, sorted(found, key=lambda step: step.at)[:steps]


def shown_after(heard: Heard, at: float, until: float, speed: float) -> float | None:
    """Return the seconds from `at` until the published speed is near the true one, and stays."""
    found: float | None = None
    for when, said in heard:
        if at <= when < until:
            near = abs(said - speed) <= NEAR * speed
            found = (when - at if found is None else found) if near else None
    return found


def rate(sizes: Heard, begin: float, end: float) -> float:
    """Return the bytes/s by which a log grew between two times, from samples of its size."""
    low, high = np.interp([begin, end], *np.transpose(sizes))
    return float((high - low) / (end - begin))


def run(journal: Journal, steps: int, window: float, seed: int) -> None:
    """Observe steps until there are as many as asked for."""
    interval = window / 6
    done = len(journal.all("steps"))
    flow, waiting = plan(steps - done, window, interval, np.random.default_rng([seed, done]))
    journal.progress(done, steps)
    monitor = {"interval": interval, "window": window}
    with Testbed(spark=False) as bed:
        settings, config = bed.settle({"group": "steps", "topics": [TOPIC], "monitor": monitor})
        with Load(bed.broker.bootstrap, flow) as load:
            began = time.time() - load.tally().seconds
            bed.start_role("monitor", config)
            heard: list[list[tuple[float, float]]] = [[] for _ in flow.partitions]
            sizes: list[list[tuple[float, float]]] = [[] for _ in flow.partitions]
            logs = bed.broker.data_dir / "data"
            with closing(Watcher(settings)) as watcher:
                while waiting:
                    time.sleep(0.1)
                    bed.children.check()
                    now = time.time()
                    for message in watcher.read():
                        if isinstance(message, WriteSpeeds):
                            for j, speed in message.speeds.get(TOPIC, {}).items():
                                heard[j].append((now, speed))
                    for j, known in enumerate(sizes):
                        files = (logs / f"{TOPIC}-{j}").glob("*.log")
                        known.append((now, float(sum(file.stat().st_size for file in files))))
                    over = [step for step in waiting if now > began + step.until + 0.5]
                    waiting = [step for step in waiting if step not in over]
                    for step in over:
                        j, at, until = step.partition, began + step.at, began + step.until
                        speeds = {
                            "before": rate(sizes[j], at - window, at),
                            "after": rate(sizes[j], at, until),
                        }
                        # None where it was not shown before the next step.
                        seconds = shown_after(heard[j], at, until, speeds["after"])
                        journal.note("steps", {"partition": j, **speeds, "seconds": seconds})
                        journal.progress(len(journal.all("steps")), steps)
    journal.finish(machine=report.machine())
