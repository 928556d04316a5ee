"""The real page on a source that is handed its messages line by line on stdin.

    python -m tests.dashboard.scripted [--past SECONDS]

A line is {"type": "Heartbeat", "message": {…}}, or {"trouble": "…"} for the connection. The first
line on stdout is the page's address.
"""

import argparse
import json
import sys
import threading
import time

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


def alive(source: Handed, group: plays.Group) -> None:
    """Keep the make-believe group alive, for looking at by hand."""
    tables = list(plays.walk(5, 720, group.knobs.capacity))
    for step, table in enumerate(tables):
        now = time.time()
        if step % 5 == 0:
            source.hand(plays.speeds(now, table))
        if step % 30 == 20:
            source.hand(*group.reassign(now, table, "the interval is up"))
        source.hand(*group.beats(now))
        time.sleep(1)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--past", type=float, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--live", action="store_true")
    given = parser.parse_args()
    knobs = plays.settings(heartbeat=1, lost_after=60)
    group = plays.Group(knobs)
    source = Handed(plays.past(group, time.time(), given.past) if given.past else ())
    target, rest = (alive, (source, group)) if given.live else (listen, (source,))
    threading.Thread(target=target, args=rest, daemon=True).start()
    desk = Desk(source, knobs, Now())
    app.serve(desk, "127.0.0.1", given.port, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
