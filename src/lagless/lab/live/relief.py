"""Step → relieved: from a step in the load until the backlog that it left is gone, end to end.

Both groups get the same load: it settles, and then grows by `FACTOR` at each step. The backlog at a
time is counted afterwards, from the records' timestamps and the commits that made them readable. A
group is relieved when hardly more waits than before the step, in seconds of writing, until the next
step. The rival grows by KEDA's rule at the autoscaler's pace: `live_findings.relieved`
says how.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lagless.history import History
from lagless.lab import report
from lagless.lab.live import live_stream, rival
from lagless.lab.live.delay import packed
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.journal import Journal
from lagless.lab.live.live_stream import Line
from lagless.lab.load import counting, flows, records
from lagless.lab.load.flows import Flow
from lagless.lab.model import keda
from lagless.lab.model.streams import Floats
from lagless.lab.testbed import Testbed

PARTITIONS = 16
FIRST, FACTOR = 0.75, 2.0
"""The load at first, in C of one consumer, and by how much it grows at each step."""
SETTLE, HOLD = 45.0, 60.0
"""Seconds before the first step, and from each step to the next."""
BEFORE = 15.0
"""Seconds before a step in which what waits is ordinary."""
LEAST = 3.0
"""Seconds of writing that may always wait: a batch is gathered, read and written."""
MORE = 2.0
"""By which factor more may wait than in the median before the step: what waits is a sawtooth."""
STAYS = 5.0
"""Seconds without a backlog at the end of a step that is needed to call the group relieved."""
GRID = 0.25
"""Seconds between two counts of the backlog."""
JOINED = 120.0
PATIENCE = 90.0
"""Seconds for a group to read what is left when the load has ended."""
SYNC = 15.0
"""Seconds between two looks of Kubernetes' autoscaler at the lag."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A load that grows in steps: the levels of all partitions, in bytes/s."""

    levels: Floats
    settle: float = SETTLE
    hold: float = HOLD

    @property
    def seconds(self) -> float:
        """Return how long the load lasts."""
        return self.settle + (len(self.levels) - 1) * self.hold

    @property
    def at(self) -> list[float]:
        """Return when each step comes, in seconds from the load's start."""
        return [self.settle + k * self.hold for k in range(len(self.levels) - 1)]

    def flow(self, topic: str) -> Flow:
        """Return the flow of the load, a row for each half second."""
        lasts = [self.settle] + [self.hold] * (len(self.levels) - 1)
        rows = np.repeat(self.levels, [round(2 * seconds) for seconds in lasts], axis=0)
        return Flow(flows.spread({topic: self.levels.shape[1]}), rows, 0.5)


def plan(count: int, seed: int, settle: float = SETTLE, hold: float = HOLD) -> Steps:
    """Return a load with so many steps; the partitions differ, and grow together."""
    shares = np.random.default_rng(seed).uniform(0.7, 1.3, PARTITIONS)
    shares *= FIRST * live_stream.CAPACITY / shares.sum()
    return Steps(shares * FACTOR ** np.arange(count + 1)[:, None], settle, hold)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waited over time: from a record's timestamp to the commit that made it readable."""

    at: Floats
    """Seconds from the load's start."""
    records: Floats

    def within(self, begin: float, end: float) -> Floats:
        """Return what waited between two times."""
        return self.records[(self.at >= begin) & (self.at < end)]


def backlog(stamps: Floats, delays: Floats, seconds: float) -> Backlog:
    """Count the records that were written and not readable yet; stamps are from the start."""
    at = np.arange(0.0, seconds, GRID)
    written, readable = np.sort(stamps), np.sort(stamps + delays)
    waiting = np.searchsorted(written, at, "right") - np.searchsorted(readable, at, "right")
    return Backlog(at, waiting.astype(np.float64))


def relieved(known: Backlog, step: float, until: float, rates: tuple[float, float]) -> float | None:
    """Return the seconds from a step until its backlog is gone, or None if it stays.

    `rates` are the records per second before and after the step: what waits counts in seconds.
    """
    before, after = rates
    ordinary = float(np.median(known.within(step - BEFORE, step))) / before
    grid = (known.at >= step) & (known.at < until)
    late = known.at[grid][known.records[grid] / after > max(LEAST, MORE * ordinary)]
    if not len(late):
        return 0.0
    return None if late[-1] > until - STAYS else float(late[-1] + GRID - step)


def run(journal: Journal, surges: int, seed: int) -> None:
    """Run lagless and the rival on the same steps, each if the journal lacks it."""
    steps, total = plan(surges, seed), 100 * len(OBSERVED)
    for done, (name, observed) in zip(itertools.count(0, 100), OBSERVED.items()):
        journal.progress(done, total)
        if name not in [row["name"] for row in journal.all("runs")]:
            journal.say(f"relieved: {name}")
            found = observed(steps, partial(_tell, journal, done, total))
            journal.note("runs", {"name": name, **found})
    journal.finish(machine=report.machine())
    journal.progress(total, total)


def _tell(journal: Journal, done: int, total: int, percent: int) -> None:
    journal.progress(done + percent, total)


Told = Callable[[int], None]


def tree(topic: str) -> dict[str, Any]:
    """Return the settings of the group: the defaults, with consumers of a small rate."""
    return {
        "group": topic,
        "topics": [topic],
        "consumer": {"max_rate": live_stream.MAX_RATE},
        "topic": {topic: {"format": "json", "schema": records.SCHEMA}},
    }


def of_lagless(steps: Steps, told: Told) -> dict[str, Any]:
    """Observe a group of lagless."""
    topic = "relieved"
    with Testbed() as bed:
        settings, config = bed.settle(tree(topic))
        bed.make_topics({topic: PARTITIONS})
        with packed(bed, settings, config, History()) as size:
            bed.until(lambda: size(0.0) > 0, "no consumer starts", JOINED)
            return _observe(bed, topic, steps, size, told)


def of_keda(steps: Steps, told: Told) -> dict[str, Any]:
    """Observe the rival."""
    pace = rival.Pace(SYNC, keda.STEP_UP)
    with Testbed(spark=False) as bed:
        bed.make_topics({rival.TOPIC: PARTITIONS})
        rival.make_table(bed.lake / rival.TOPIC)
        looks: list[dict[str, Any]] = []
        fleet = Fleet(bed, rival.GROUP, rival.TOPIC, bed.lake / rival.TOPIC, partitions=PARTITIONS)
        with rival.scaled(bed, fleet, 1, looks, pace) as size:
            return _observe(bed, rival.TOPIC, steps, size, told) | {"looks": looks}


def _observe(
    bed: Testbed, topic: str, steps: Steps, size: Callable[[float], int], told: Told
) -> dict[str, Any]:
    """Let the group read the load; return when it was relieved of each step."""
    line = Line()
    began = bed.start_load(steps.flow(topic))
    while (passed := time.time() - began) < steps.seconds:
        bed.children.check()
        line.see(passed, size(passed))
        told(int(95 * passed / steps.seconds))
        time.sleep(0.5)
    tally = bed.end_load()
    until = time.monotonic() + PATIENCE
    while counting.arrived(bed.lake, [topic]) < tally.records and time.monotonic() < until:
        size(time.time() - began)
        time.sleep(0.5)
    count = counting.count(bed.lake, {topic: topic}, tally.produced)
    stamps, delays = (np.concatenate([np.empty(0), *x]) for x in (count.stamps, count.delays))
    known = backlog(stamps - began, delays, steps.seconds)
    return {
        "steps": [_step(known, stamps - began, steps, at, line) for at in steps.at],
        "produced": count.produced,
        "lost": max(0, count.lost - max(0, tally.records - counting.arrived(bed.lake, [topic]))),
        "duplicated": count.duplicated,
        "consumers": round(line.mean(0.0, steps.seconds), 2),
        "line": line.points,
    }


def _step(known: Backlog, stamps: Floats, steps: Steps, at: float, line: Line) -> dict[str, Any]:
    until = min(at + steps.hold, steps.seconds)
    rates = (_rate(stamps, at - BEFORE, at), _rate(stamps, at + 1, until))
    seconds = relieved(known, at, until, rates) if min(rates) > 0 else None
    return {
        "at": at,
        "seconds": seconds,
        "worst": round(float(known.within(at, until).max(initial=0.0)) / max(rates[1], 1.0), 2),
        "consumers": [round(line.mean(at - 1, at), 1), round(line.mean(until - 1, until), 1)],
    }


def _rate(stamps: Floats, begin: float, end: float) -> float:
    return float(((stamps >= begin) & (stamps < end)).sum() / (end - begin))


OBSERVED: Mapping[str, Callable[[Steps, Told], dict[str, Any]]] = {
    "lagless": of_lagless,
    "keda": of_keda,
}
