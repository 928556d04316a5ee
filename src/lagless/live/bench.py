"""One run of the latency parts: a load on a topic, a group that reads it, and what became of it."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagless.embedded import counting, holdings
from lagless.embedded.tally import Tally
from lagless.errors import GiveUp
from lagless.live import landing, traffic
from lagless.live.stand import Stand

PATIENCE = 90.0
"""Seconds for a group to read what is left when the load has ended."""
EVERY = 1.0
"""Seconds between two looks at how many consumers there are."""

Group = AbstractContextManager[Callable[[float], int]]
"""A group that runs while it is entered; it is told the time and says how many consumers it has."""


@dataclass(slots=True)
class Line:
    """How many consumers there were, over time; written down where it changes."""

    points: list[tuple[float, int]] = field(default_factory=list)

    def see(self, at: float, count: int) -> None:
        """Take in a number."""
        if not self.points or self.points[-1][1] != count:
            self.points.append((round(at, 1), count))

    def mean(self, begin: float, end: float) -> float:
        """Give the mean between two times."""
        total = 0.0
        for place, (at, count) in enumerate(self.points):
            until = self.points[place + 1][0] if place + 1 < len(self.points) else end
            total += count * max(0.0, min(until, end) - max(at, begin))
        return total / (end - begin)


def run(
    here: Stand,
    lake: Path,
    topic: str,
    stream: traffic.Stream,
    group: Group,
    told: Callable[[float], None],
) -> dict[str, Any]:
    """Let the group read the stream, and count what it landed; times are from the load's start."""
    file, account = here.folder / "load.csv", here.folder / "tally.json"
    stream.write(file, topic)
    holdings.make_topics(here.broker.bootstrap, {topic: traffic.PARTITIONS})
    line = Line()
    words = ["--bootstrap", here.broker.bootstrap, "--flow", "replay", "--file", str(file)]
    words += ["--step", f"{traffic.ITERATION:g}", "--tally", str(account)]
    with group as size:
        here.start("load", "lagless.embedded.load", *words)
        began = _begin(here, account)
        while (passed := time.time() - began) < stream.seconds:
            here.children.check()
            line.see(passed, size(passed))
            told(passed / stream.seconds)
            time.sleep(EVERY)
        here.children.end("load")
        tally = Tally.load(account)
        until = time.monotonic() + PATIENCE
        while counting.arrived(lake, [topic]) < tally.records and time.monotonic() < until:
            size(time.time() - began)
            time.sleep(0.5)
        unread = max(0, tally.records - counting.arrived(lake, [topic]))
        drained = time.time() - began - stream.seconds
    found = landing.account(lake, topic, tally, began + stream.settle, began + stream.seconds)
    return {
        **found,
        # What was still in Kafka at the end is neither lost nor in the delays.
        "unread": unread,
        "lost": max(0, found["lost"] - unread),
        "drained": round(drained, 1),
        "settle": stream.settle,
        "seconds": stream.seconds,
        "bytes_per_second": round(tally.bytes / max(tally.seconds, 1.0)),
        "consumers": round(line.mean(stream.settle, stream.seconds), 2),
        "line": line.points,
    }


def _begin(here: Stand, tally: Path) -> float:
    until = time.monotonic() + 60
    while not tally.exists():
        here.children.check()
        if time.monotonic() > until:
            raise GiveUp("the load does not begin within 60 s")
        time.sleep(0.05)
    return time.time() - Tally.load(tally).seconds
