"""Heartbeats, from a thread of their own: a long cycle must not look like a death."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from lagless.errors import LaglessError
from lagless.messages import Heartbeat, PerPartition
from lagless.ports import Clock, ConsumerMailbox

log = logging.getLogger("lagless.consumer")
WINDOW = 30.0
"""Seconds over which bytes/s are averaged."""


@dataclass(slots=True)
class Vitals:
    """How the consumer does; written by its loop, read by the heartbeat."""

    ready: bool = False
    waiting_for: Literal["", "spark", "kafka", "lake"] = ""
    trouble: str = ""
    cycle_began: float | None = None
    cycle_seconds: float = 0.0
    lag_bytes: float = 0.0
    lag_records: int = 0
    lag_seconds: float = 0.0
    backlog: PerPartition = field(default_factory=dict)
    cycles: int = 0
    records: int = 0
    rejected: int = 0
    unknown_fields: int = 0
    gone: int = 0
    bytes: float = 0.0
    _read: deque[tuple[float, float]] = field(default_factory=deque)

    def read(self, at: float, size: float) -> None:
        """Count the bytes of a cycle."""
        self.bytes += size
        self._read.append((at, size))
        while self._read and self._read[0][0] < at - WINDOW:
            self._read.popleft()

    def rate(self, at: float) -> float:
        """Give the bytes/s of the last seconds."""
        recent = [(moment, size) for moment, size in tuple(self._read) if moment >= at - WINDOW]
        if not recent:
            return 0.0
        # The first cycle's bytes were read before its moment: its seconds count too.
        return sum(size for _, size in recent) / max(
            at - recent[0][0] + self.cycle_seconds, self.cycle_seconds, 1.0
        )

    def measured(self, at: float) -> dict[str, Any]:
        """Give the fields of a heartbeat that only the loop knows."""
        began = self.cycle_began
        return {
            "waiting_for": self.waiting_for,
            "bytes_per_second": self.rate(at),
            "cycle_seconds": self.cycle_seconds,
            "cycle_age": 0.0 if began is None else max(0.0, at - began),
            "lag_bytes": self.lag_bytes,
            "lag_records": self.lag_records,
            "lag_seconds": self.lag_seconds,
            "backlog": self.backlog,
            "trouble": self.trouble,
        }


class Pulse:
    """A thread that sends a heartbeat every `interval` seconds, and when it is nudged."""

    def __init__(
        self,
        mailbox: ConsumerMailbox,
        clock: Clock,
        interval: float,
        make: Callable[[float], Heartbeat],
    ) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._interval = interval
        self._make = make
        self._nudged = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def nudge(self) -> None:
        """Beat now: something has changed that others should know."""
        self._nudged.set()

    def stop(self) -> None:
        """Beat once more and end."""
        self._ended.set()
        self._nudged.set()
        self._thread.join(5)

    def _beat(self) -> None:
        while True:
            ended = self._ended.is_set()
            self._nudged.clear()
            try:
                self._mailbox.send(self._make(self._clock.now()))
            except LaglessError as error:
                log.info("a heartbeat was not sent: %s", error)
            if ended:
                return
            self._nudged.wait(self._interval)
