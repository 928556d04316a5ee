"""The real page on a source that is handed its messages line by line on stdin.

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
from lagless.dashboard import app
from lagless.dashboard.desk import Desk
from lagless.dashboard.sources import Handed
from tests.dashboard import plays


class Now:
    """The machine's time."""

    def now(self) -> float:
        """Give the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let that much time go by."""
        time.sleep(seconds)


def listen(source: Handed) -> None:
    """Hand over what comes on stdin."""
    for line in sys.stdin:
        document = json.loads(line)
        if "trouble" in document:
            source.trouble = document["trouble"]
        else:
            kind = getattr(messages, document["type"])
            source.hand(kind.model_validate(document["message"]))


def alive(source: Handed, group: plays.Group, walking: plays.Walk, step: int) -> None:
    """Keep the make-believe group alive, for looking at by hand."""
    for second in itertools.count(1):
        time.sleep(1)
        now = time.time()
        if second % 5 == 0:
            source.hand(*plays.moment(group, now, step, next(walking)))
            step += 1
        source.hand(*group.beats(now))


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--past", type=float, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--live", action="store_true")
    given = parser.parse_args()
    knobs = plays.settings(heartbeat=1, lost_after=60)
    group = plays.Group(knobs)
    walking = plays.walk(7, knobs.capacity)
    source = Handed(plays.past(group, time.time(), given.past, walking))
    if given.live:
        job = partial(alive, source, group, walking, int(given.past / 5))
    else:
        job = partial(listen, source)
    threading.Thread(target=job, daemon=True).start()
    desk = Desk(source, knobs, Now())
    app.serve(desk, "127.0.0.1", given.port, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
