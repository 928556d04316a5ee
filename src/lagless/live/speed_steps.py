"""Δt1: from a step in the write speed of a partition until the monitor's word is within 5 % of it.

The load generator writes to real partitions, each in steps of its own. The truth is what the
broker's log files grew by between one step and the next; the answer is what `lagless monitor`
publishes, at the time when a reader of its topic has it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lagless.adapters.kafka.watching import Watcher
from lagless.embedded import flows
from lagless.embedded.flows import Flow
from lagless.embedded.load import Load
from lagless.live import machine, stand
from lagless.live.journal import Journal
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


@dataclass(frozen=True, slots=True)
class Observation:
    """One step: the true speeds around it, and the seconds until it was published."""

    partition: int
    before: float
    after: float
    seconds: float | None
    """None where it was not shown before the next step."""


def levels(count: int, rng: np.random.Generator) -> list[float]:
    """Draw speeds, each well away from the one before."""
    drawn = [float(np.exp(rng.uniform(np.log(SLOWEST), np.log(FASTEST))))]
    while len(drawn) < count:
        new = float(np.exp(rng.uniform(np.log(SLOWEST), np.log(FASTEST))))
        if max(new, drawn[-1]) >= FACTOR * min(new, drawn[-1]):
            drawn.append(new)
    return drawn


def plan(
    steps: int, window: float, interval: float, rng: np.random.Generator
) -> tuple[Flow, list[Step]]:
    """Give the flow and its steps, in seconds from the load's start.

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
    """Give the seconds from `at` until a speed was heard that is near the true one, and stays."""
    after = [(when, said) for when, said in heard if at <= when < until]
    found: float | None = None
    for when, said in after:
        if abs(said - speed) > NEAR * speed:
            found = None
        elif found is None:
            found = when - at
    return found


def rate(sizes: Heard, begin: float, end: float) -> float:
    """Give the bytes/s that a log grew by between two times, from samples of its size."""
    at, size = np.array([when for when, _ in sizes]), np.array([size for _, size in sizes])
    low, high = np.interp([begin, end], at, size)
    return float((high - low) / (end - begin))


def run(
    journal: Journal,
    steps: int,
    window: float,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
) -> None:
    """Observe steps until there are as many as asked for."""
    left = steps - len(journal.all("steps"))
    interval = window / 6
    rng = np.random.default_rng([seed, len(journal.all("steps"))])
    flow, planned = plan(left, window, interval, rng)
    done = steps - left
    told(done, steps)
    with stand.raised(tell, spark=False) as here:
        settings, config = here.settle(
            "dt1",
            {
                "group": "steps",
                "topics": [TOPIC],
                "monitor": {"interval": interval, "window": window},
            },
        )
        with Load(here.broker.bootstrap, flow) as load:
            began = time.time() - load.tally().seconds
            here.start("monitor", "lagless", "monitor", "--config", str(config))
            watcher = Watcher(settings)
            heard: list[list[tuple[float, float]]] = [[] for _ in flow.partitions]
            sizes: list[list[tuple[float, float]]] = [[] for _ in flow.partitions]
            logs = here.broker.data_dir / "data"
            waiting = list(planned)
            try:
                while waiting:
                    time.sleep(0.1)
                    here.children.check()
                    now = time.time()
                    for message in watcher.read():
                        if isinstance(message, WriteSpeeds):
                            for j, speed in message.speeds.get(TOPIC, {}).items():
                                heard[j].append((now, speed))
                    for j in range(len(sizes)):
                        sizes[j].append((now, _size(logs / f"{TOPIC}-{j}")))
                    over = [step for step in waiting if now > began + step.until + 0.5]
                    waiting = [step for step in waiting if step not in over]
                    for step in over:
                        j, at, until = step.partition, began + step.at, began + step.until
                        before = rate(sizes[j], at - window, at)
                        after = rate(sizes[j], at, until)
                        seconds = shown_after(heard[j], at, until, after)
                        journal.note("steps", asdict(Observation(j, before, after, seconds)))
                        done += 1
                        told(done, steps)
            finally:
                watcher.close()
    journal.finish(machine=machine.facts())


def _size(folder: Path) -> float:
    return float(sum(file.stat().st_size for file in folder.glob("*.log")))
