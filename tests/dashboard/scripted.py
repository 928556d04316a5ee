"""The real page on a source that reads its messages line by line from stdin.

    python -m tests.dashboard.scripted [--past SECONDS]

A line is {"type": "Heartbeat", "message": {…}}, or {"trouble": "…"} for the connection. The first
line on stdout is the page's address.
"""

import argparse
import itertools
import json
import sys
import threading
import time
from functools import partial

from lagless import messages
from lagless.dashboard import server
from lagless.dashboard.observations import MemorySource
from lagless.dashboard.view import Feed
from lagless.lab import rehearsals
from lagless.settings.dashboard_settings import DashboardSettings
from lagless.wiring import clock
from tests.dashboard import plays


def listen(source: MemorySource) -> None:
    """Add what arrives on stdin to the source."""
    for line in sys.stdin:
        document = json.loads(line)
        if "trouble" in document:
            source.trouble = document["trouble"]
        else:
            kind = getattr(messages, document["type"])
            source.add(kind.model_validate(document["message"]))


def alive(source: MemorySource, group: plays.Group, walking: plays.Walk, step: int) -> None:
    """Keep the scripted group running, for a look at it by hand."""
    for second in itertools.count(1):
        time.sleep(1)
        now = time.time()
        if second % 5 == 0:
            source.add(*plays.moment(group, now, step, next(walking)))
            step += 1
        source.add(*group.beats(now))


def main() -> None:
    """Serve the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--past", type=float, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--path", default="")
    parser.add_argument("--username")
    parser.add_argument("--password")
    parser.add_argument("--access-token")
    options = parser.parse_args()
    names = ("path", "username", "password", "access_token")
    said = {name: getattr(options, name) for name in names if getattr(options, name)}
    knobs = plays.settings(heartbeat=1, lost_after=60)
    knobs = knobs.model_copy(update={"dashboard": DashboardSettings.model_validate(said)})
    group = plays.Group(knobs)
    walking = plays.walk(7, knobs.capacity)
    source = MemorySource(plays.past(group, time.time(), options.past, walking))
    if options.live:
        job = partial(alive, source, group, walking, int(options.past / 5))
    else:
        job = partial(listen, source)
    threading.Thread(target=job, daemon=True).start()
    clock.on_signals(lambda: sys.exit(0))
    replay = partial(rehearsals.recent_targets, knobs)
    feed = Feed(source, knobs, clock.RealClock(), replay)
    server.serve(feed, "127.0.0.1", options.port, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
