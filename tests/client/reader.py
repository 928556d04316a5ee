"""A planned consumer in a process of its own.

    python -m tests.client.reader CONFIG NAME

It prints a line for each record, with its topic's partition, offset and value, and for what it
takes and gives up, with the time; it ends with a line on its input.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lagless.client import PlannedConsumer
from lagless.model import TopicPartition

LEASE, SETTLE = 10.0, 2.0


def say(what: str, **fields: Any) -> None:
    """Print a line."""
    print(json.dumps({"what": what, "at": time.monotonic(), **fields}), flush=True)


def main() -> None:
    """Read until a line comes in."""
    config, name = json.loads(sys.argv[1]), sys.argv[2]
    ending = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        ending.set()

    threading.Thread(target=listen, daemon=True).start()

    def told(what: str) -> Callable[[frozenset[TopicPartition]], None]:
        return lambda partitions: say(what, partitions=[p.partition for p in partitions])

    consumer = PlannedConsumer(
        config,
        name,
        lease=LEASE,
        settle=SETTLE,
        on_taken=told("taken"),
        on_given_up=told("given up"),
        on_lost=told("lost"),
    )
    with consumer:
        status = ""
        while not ending.is_set():
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                say("read", partition=message.partition(), value=int(value))
            if consumer.status != status:
                status = consumer.status
                say("status", status=status)


if __name__ == "__main__":
    main()
